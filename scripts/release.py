"""Makes the files of a checkout those of a release, or says what keeps them from being one.

`release.py 1.0.0 https://HOST/OWNER/equitangents` sets the version, the day and the address everywhere, and makes links
and pictures of the README absolute, as a package index needs them. `release.py` alone only checks.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACEHOLDER = "https://example.invalid/equitangents"
FILES = (
    "pyproject.toml", "src/equitangents/_version.py", "CITATION.cff", "packaging/conda/recipe.yaml", "README.md",
    "CHANGELOG.md",
)  # fmt: skip
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")
_VERSION = {
    "pyproject.toml": r'(?m)^(version = ")([^"]+)(")$',
    "src/equitangents/_version.py": r'(?m)^(__version__ = ")([^"]+)(")$',
    "CITATION.cff": r"(?m)^(version: )(\S+)()$",
    "packaging/conda/recipe.yaml": r'(?m)^( *version: ")([^"]+)(")$',
}


def released(texts: Mapping[str, str], version: str, address: str, day: str) -> dict[str, str]:
    """The files with this version, address and day."""
    made = {name: text.replace(PLACEHOLDER, address) for name, text in texts.items()}
    for name, pattern in _VERSION.items():
        made[name] = re.sub(pattern, rf"\g<1>{version}\g<3>", made[name])
    cited = re.sub(r"(?m)^(date-released|repository-code): .*\n", "", made["CITATION.cff"])
    entries = f"version: {version}\ndate-released: {day}\nrepository-code: {address}\n"
    made["CITATION.cff"] = cited.replace(f"version: {version}\n", entries, 1)
    if f"## [{version}] - " not in made["CHANGELOG.md"]:
        made["CHANGELOG.md"] = made["CHANGELOG.md"].replace("## [Unreleased]", f"## [{version}] - {day}", 1)
    place = {"": f"{address}/blob/v{version}/", "!": f"{address}/raw/v{version}/"}
    made["README.md"] = _LINK.sub(lambda m: f"{m[1]}[{m[2]}]({place[m[1]]}{m[3]})", made["README.md"])
    return made


def missing(texts: Mapping[str, str]) -> list[str]:
    """What keeps the files from being a release."""
    found = [f"{name}: the address is {PLACEHOLDER}" for name, text in texts.items() if PLACEHOLDER in text]
    versions = {name: match[2] for name, p in _VERSION.items() if (match := re.search(p, texts[name]))}
    version = versions.get("pyproject.toml", "")
    found += [f"{name}: no version {version}" for name in _VERSION if versions.get(name) != version]
    if not re.search(rf"(?m)^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", texts["CHANGELOG.md"]):
        found.append(f"CHANGELOG.md: no dated section of {version}")
    found += [f"README.md: {link[3]} is relative" for link in _LINK.finditer(texts["README.md"])]
    return found


def main(arguments: list[str], root: Path = ROOT) -> int:
    """The exit status: 1 where something is missing, 2 for other arguments."""
    if len(arguments) not in (0, 2):
        print("release.py VERSION ADDRESS, or nothing to check what is there")
        return 2
    texts = {name: (root / name).read_text(encoding="utf-8") for name in FILES}
    if arguments:
        version, address = arguments
        texts = released(texts, version, address.rstrip("/"), datetime.date.today().isoformat())
        for name, text in texts.items():
            (root / name).write_text(text, encoding="utf-8")
    for line in (found := missing(texts)):
        print(line)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
