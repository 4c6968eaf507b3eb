"""Every example in a docstring runs and prints what it says; every public docstring says something."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import re
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
def public_docstrings() -> list[tuple[str, ast.AST, str]]:
    """Every docstring that a reader of the source or of the reference sees: where, of what, and what it says."""
    found = []
    for path in FILES:
        package, *rooms = path.relative_to(ROOT).parts
        if package == "equitangents" or rooms[0] in BESIDE:
            found += _docstrings_in(ast.parse(path.read_text()), str(path.relative_to(ROOT)))
    return found


def _docstrings_in(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST, str]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef | ast.ClassDef) and not inner.name.startswith("_"):
            if said := ast.get_docstring(inner):
                yield f"{where}: {inner.name}", inner, said
            if isinstance(inner, ast.ClassDef):
                yield from _docstrings_in(inner, where)


def says_little(docstring: str) -> bool:
    """Whether it has three words or fewer."""
    return len(docstring.split()) <= 3


def begins_with_capitalised_symbol(docstring: str, node: ast.AST) -> bool:
    """Whether it begins with a formula whose first letter is an argument's or another symbol's in capitals."""
    if re.match(r"[A-Z]\s+[^\w\s`\"'(]", docstring):  # "Y + b", "A × b", "K = …": a sentence begins with a word
        return True
    first = re.match(r"([A-Z])(?!\w)(?!(?<=A) \w\w)", docstring)  # "A group" is no symbol
    if first is None or isinstance(node, ast.ClassDef):
        return False
    arguments = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    return first[1].lower() in arguments and first[1] not in arguments


@pytest.mark.slow
def test_no_public_docstring_leans_on_the_one_before_it() -> None:
    leaning = re.compile(r"(The same|That|Those|Same as)\b (?!every|all)|Of [a-z]")
    found = [f"{where}: {said.splitlines()[0]}" for where, _, said in public_docstrings() if leaning.match(said)]
    assert not found, "\n".join(found)


def test_every_public_docstring_says_something_that_its_name_does_not() -> None:
    short = [f"{where}: {said}" for where, _, said in public_docstrings() if says_little(said)]
    assert not short, "\n".join(short)


def test_no_public_docstring_begins_with_the_letter_of_a_formula_in_capitals() -> None:
    wrong = [
        f"{where}: {said}" for where, node, said in public_docstrings() if begins_with_capitalised_symbol(said, node)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "little", "symbol"),
    [
        ('def f(x):\n    """X Φ(x)."""', True, True),
        ('def add(self, y):\n    """Y + b_std · b, where b is the bias."""', False, True),
        ('def product(a, b):\n    """A × b, the cross product of both."""', False, True),
        ('def same(self, x):\n    """X."""', True, True),
        ('def classes(self):\n    """Number of classes."""', True, False),
        ('def room(self, a):\n    """A house with many rooms."""', False, False),
        ('def fit(self, X):\n    """X and y are the data."""', False, False),
    ],
)
def test_docstrings_that_say_little_are_found(source: str, little: bool, symbol: bool) -> None:
    ((_, node, said),) = _docstrings_in(ast.parse(source), "")
    assert says_little(said) == little
    assert begins_with_capitalised_symbol(said, node) == symbol
