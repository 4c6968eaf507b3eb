"""Every example in a docstring runs and prints what it says; every public docstring says something."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import equitangents

ROOT = Path(equitangents.__file__).parents[1]
FILES = [path for name in ("equitangents", "equitangents_studies") for path in sorted((ROOT / name).rglob("*.py"))]
BESIDE = {"systems", "baselines", "data"}  # rooms of the second package that users read; its studies have pages


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_name(path): path for path in FILES if path.stem != "__main__"}
WITH_EXAMPLES = [name for name, path in SOURCES.items() if ">>>" in path.read_text()]

LONG = {  # examples that compile much: run by `make test-docs`, not by `make test`
    "equitangents.ensembles.deep.estimators",
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


@functools.cache
def public_docstrings() -> list[tuple[str, str]]:
    """Every docstring that a reader of the source or of the reference sees: where, and what it says."""
    found = []
    for path in FILES:
        package, *rooms = path.relative_to(ROOT).parts
        if package == "equitangents" or rooms[0] in BESIDE:
            found += _docstrings_in(ast.parse(path.read_text()), str(path.relative_to(ROOT)))
    return found


def _docstrings_in(node: ast.AST, where: str) -> Iterator[tuple[str, str]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef | ast.ClassDef) and not inner.name.startswith("_"):
            if said := ast.get_docstring(inner):
                yield f"{where}: {inner.name}", said
            if isinstance(inner, ast.ClassDef):
                yield from _docstrings_in(inner, where)


def says_little(docstring: str) -> bool:
    """Whether it has three words or fewer."""
    return len(docstring.split()) <= 3


def test_every_public_docstring_says_something_that_its_name_does_not() -> None:
    short = [f"{where}: {said}" for where, said in public_docstrings() if says_little(said)]
    assert not short, "\n".join(short)
