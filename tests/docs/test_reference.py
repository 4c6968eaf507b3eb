"""The reference lists what is public: every subpackage has a page, and what a page takes from a file is there."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import itertools
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import equitangents

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs/reference").glob("*.md"))
BLOCK = re.compile(r"^::: (\S+)\n((?:    .*\n?)*)", re.MULTILINE)
LISTED = ("audit", "testing")  # whose pages take names one by one


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """(module, the members that are taken; none: all that are public) of a page."""
    found = []
    for module, options in BLOCK.findall(text):
        members = re.search(r"members: \[(.*)\]", options)
        found.append((module, members[1].split(", ") if members else []))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_takes_is_there(page):
    for module, members in blocks(page.read_text(encoding="utf-8")):
        for name in members:
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_every_subpackage_has_a_page_with_all_that_it_names():
    taken = [block for page in PAGES for block in blocks(page.read_text(encoding="utf-8"))]
    objects = [getattr(equitangents, name) for name in equitangents.__all__]
    subpackages = {subpackage.__name__ for subpackage in objects if isinstance(subpackage, ModuleType)}
    whole = {module for module, members in taken if not members}
    assert subpackages - whole == {f"equitangents.{subpackage}" for subpackage in LISTED}
    shown = {name for _, members in taken for name in members}
    for subpackage in LISTED:
        assert set(getattr(equitangents, subpackage).__all__) <= shown


def ten_tasks() -> list[list[str]]:
    """The names of each of the ten main tasks, as the first page of the reference lists them."""
    page = next(page for page in PAGES if page.stem == "index").read_text(encoding="utf-8")
    return [re.findall(r"`([^`]+)`", line) for line in page.splitlines() if re.match(r"\| \d+\. ", line)]


def thing(name: str) -> Any:
    """What is reached as `equitangents.<name>`."""
    return functools.reduce(getattr, name.split("."), equitangents)


def test_ten_tasks_take_at_most_75_names_all_of_them_public():
    tasks = ten_tasks()
    assert len(tasks) == 10
    names = [name for task in tasks for name in task]
    assert len(names) == len(set(names)) <= 75
    for name in names:
        subpackage, *inner = name.split(".")
        assert subpackage in equitangents.__all__
        if isinstance(thing(subpackage), ModuleType) and inner:
            assert inner[0] in thing(subpackage).__all__, name
        assert thing(name) is not None


def test_no_argument_or_result_of_the_ten_tasks_may_be_anything():
    for name in itertools.chain(*ten_tasks()):
        signature = inspect.signature(thing(name))
        hints = {p.name: p.annotation for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD}
        hints["result"] = signature.return_annotation
        assert [at for at, hint in hints.items() if hint in (Any, "Any")] == [], name


ROOT = Path(equitangents.__file__).parents[1]
FILES = [path for name in ("equitangents", "equitangents_studies") for path in sorted((ROOT / name).rglob("*.py"))]


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_name(path): path for path in FILES if path.stem != "__main__"}
WITH_EXAMPLES = [name for name, path in SOURCES.items() if ">>>" in path.read_text()]

LONG = {  # examples that compile much: run by `make test-docs`, not by `make test`
    "equitangents.ensembles.deep",
    "equitangents.ensembles.training.variations",
    "equitangents_studies.systems.architectures",
    "equitangents_studies.systems.embeddings",
    "equitangents_studies.systems.descent",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(m, marks=pytest.mark.slow) if m in LONG else m for m in WITH_EXAMPLES])
def test_docstring_examples(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, tried = doctest.testmod(module, optionflags=options, extraglobs={"et": equitangents})
    assert failed == 0 < tried


def test_every_module_can_be_imported() -> None:
    for name in sorted(SOURCES):
        importlib.import_module(name)
