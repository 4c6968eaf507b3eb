"""Prints the lowest version that pyproject.toml allows of each package it depends on, for `pip install --requirement`.

`lowest.py EXTRA...` adds those of extras; what an extra asks of this package's own extras is left out: name them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lowest(requirement: str) -> str:
    """`name==version` of `name>=version,...; marker`; ValueError where no lowest version is stated."""
    found = re.fullmatch(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\w.]+)(,[^;]+)?\s*(;.*)?", requirement.strip())
    if found is None:
        raise ValueError(f"{PROJECT.name} requires {requirement!r}; write NAME>=VERSION")
    return f"{found[1]}=={found[2]}{found[4] or ''}"


def main(extras: Sequence[str], text: str) -> str:
    """A line for each requirement of a pyproject.toml and of the extras."""
    project = tomllib.loads(text)["project"]
    wanted = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    return "\n".join(lowest(each) for each in wanted if not each.startswith(f"{project['name']}["))


if __name__ == "__main__":
    print(main(sys.argv[1:], PROJECT.read_text(encoding="utf-8")))
