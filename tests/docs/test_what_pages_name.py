"""What a page tells its reader to type, follow or import is there: commands, options, links, headings, names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

import equitangents
from equitangents.cli.main import app
from equitangents.errors import InvalidArgumentError
from equitangents_studies import registry
from equitangents_studies.framework.catalogue import PLACES, load
from equitangents_studies.framework.study import changed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
FENCED = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)
COMMANDS = typer.main.get_command(app).commands
OPTIONS = {
    name: {option for p in command.params for option in (*p.opts, *p.secondary_opts)} | {"--help"}
    for name, command in COMMANDS.items()
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
BENCHMARKS = {path.stem.removeprefix("bench_") for path in (ROOT / "benchmarks").glob("bench_*.py")}


def prose(text: str) -> str:
    """Without its fenced blocks."""
    return FENCED.sub("", text)


def typed(text: str) -> list[str]:
    """Lines of fenced blocks, and what stands in the code font between backticks, each on one line."""
    lines = [line for block in FENCED.findall(text) for line in re.sub(r"\\\n", " ", block).splitlines()]
    return [" ".join(line.split()) for line in (*lines, *re.findall(r"`([^`]+)`", prose(text)))]


def wrong_commands(text: str) -> Iterator[str]:
    """Commands, options, studies, presets and settings that there are not."""
    for line in typed(text):
        found = re.match(r"(?:\$ |\S+=\$\(.* \")?equitangents ([a-z][a-z-]*)\b(.*)", line)
        if found:
            name, rest = found[1], re.split(r" #| && | \| ", found[2])[0]
            if name not in OPTIONS:
                yield f"no command: {line}"
                continue
            yield from (
                f"no option {o}: {line}"
                for o in re.findall(r"(?<!\S)\[?(--?[a-zA-Z][\w-]*)", rest)
                if o not in OPTIONS[name]
            )
            if name == "reproduce":
                yield from wrong_study(rest, line)
        found = re.match(r"(?:\w+=\S+ )*make ([a-z-]+)\b(?: ARGS=\"?([\w -]+))?", line)
        if found:
            if found[1] not in TARGETS:
                yield f"no target: {line}"
            elif found[1] == "bench":
                yield from (
                    f"no benchmark {b}: {line}" for b in (found[2] or "").split() if b[0] != "-" and b not in BENCHMARKS
                )
        found = re.match(r"python -m benchmarks (\w+)", line)
        if found and found[1] not in BENCHMARKS:
            yield f"no benchmark: {line}"


def wrong_study(rest: str, line: str) -> Iterator[str]:
    """Of one `equitangents reproduce`."""
    words = rest.split()
    if not words or words[0].startswith(("-", "STUDY", "…")) or words[0] in PLACES:
        return
    if words[0] not in registry:
        yield f"no study: {line}"
        return
    info = registry[words[0]]
    preset = re.search(r"--preset (\S+)", rest)
    if preset and preset[1] not in info.presets:
        yield f"no preset: {line}"
        return
    changes = dict(re.findall(r"--set (\w+)=(\S+)", rest))
    try:
        changed(load(info)[0].presets[preset[1] if preset else "quick"], changes)
    except InvalidArgumentError as error:
        yield f"{error}: {line}"


def wrong_links(text: str, page: Path) -> Iterator[str]:
    """Relative links to files that there are not, and to headings that a page does not have."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        file = page.parent / name if name else page
        if not file.exists():
            yield f"no file: {link}"
        elif anchor and anchor not in anchors(file):
            yield f"no heading: {link}"


def anchors(page: Path) -> set[str]:
    """Those of the headings of a page, as the documentation makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in plain}


def wrong_names(text: str) -> Iterator[str]:
    """Names that begin with et. or equitangents. and cannot be imported."""
    for name in re.findall(r"`(?:et|equitangents)\.([a-zA-Z_][\w.]*\w)", prose(text)):
        if not exists(equitangents, name.split(".")):
            yield f"no name: {name}"


def exists(holder: object, path: list[str]) -> bool:
    """Whether the attributes of attributes are there; fields of dataclasses count."""
    for i, name in enumerate(path):
        fields = getattr(holder, "__dataclass_fields__", {})
        if not hasattr(holder, name):
            if name in fields:
                return True
            try:
                importlib.import_module(".".join(("equitangents", *path[: i + 1])))
            except ImportError:
                return False
        holder = getattr(holder, name)
    return True


def everywhere(wrong: Callable[[str, Path], Iterator[str]]) -> list[str]:
    return [f"{p.relative_to(ROOT)}: {w}" for p in PAGES for w in wrong(p.read_text(encoding="utf-8"), p)]


def test_every_command_on_a_page_exists_with_its_options_studies_and_settings():
    assert everywhere(lambda text, page: wrong_commands(text)) == []


def test_every_link_leads_to_a_file_and_a_heading():
    assert everywhere(wrong_links) == []


def test_every_name_of_the_package_can_be_imported():
    assert everywhere(lambda text, page: wrong_names(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "```\nequitangents adit m.onnx\n```",
        "`equitangents audit m.onnx --grup C4`",
        "`equitangents reproduce rotated --preset desk`",
        "`equitangents reproduce toy --preset desk-c8`",
        "```\nequitangents reproduce toy \\\n    --set member=3\n```",
        "`make benchmarks`",
        "`make bench ARGS=audits`",
        "`python -m benchmarks audits`",
    ],
)
def test_a_wrong_command_is_seen(text):
    assert len(list(wrong_commands(text))) == 1


def test_wrong_links_and_names_are_seen():
    page = ROOT / "docs/guide/audit.md"
    assert list(wrong_links("[a](plans.md), [b](planning.md#plan), [c](planning.md#planning), [d](#limits)", page)) == [
        "no file: plans.md",
        "no heading: planning.md#plan",
    ]
    assert list(wrong_names("`et.audit.Labels([1])`, `et.nn.Dens`, `equitangents.stax`, `et.audits`")) == [
        "no name: nn.Dens",
        "no name: audits",
    ]
