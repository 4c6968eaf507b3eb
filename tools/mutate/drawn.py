"""Faults drawn at random over all functions of the sources: no choice by hand, and a seed names them.

A function is drawn, each as likely as another, then one change of its syntax tree: a comparison, an operation, a
number, a condition, the order of two arguments, or a statement left out. Texts, annotations and docstrings stay.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

from tools.mutate.faults import Fault

_SOURCES = ("src/equitangents", "src/equitangents_studies")
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
}  # fmt: skip
_CALLS = {
    "min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum", "sum": "mean",
    "mean": "sum", "zeros": "ones", "ones": "zeros", "floor": "ceil", "ceil": "floor", "sqrt": "abs",
}  # fmt: skip
_SYMMETRIC = {"min", "max", "minimum", "maximum", "hypot", "gcd", "isclose", "allclose", "array_equal"}
_METHODS_ALONE = {"sum", "mean"}  # as a builtin, sum is another thing than mean
_FEW = 6  # test files that mention the function and are run before those of its package


def draw(root: Path, count: int, seed: int) -> list[Fault]:
    """`count` faults of as many functions; the same for the same sources and seed."""
    rng = random.Random(seed)
    functions = [(path, node) for path in _files(root) for node in _functions(ast.parse((root / path).read_text()))]
    rng.shuffle(functions)
    tests = {path: (root / path).read_text() for path in test_files(root)}
    found: list[Fault] = []
    for path, node in functions:
        source = (root / path).read_text()
        changes = list(_changes(node, source))
        if not changes:
            continue
        place, put = rng.choice(changes)
        fault = _fault(path, node.name, source, place, put, tests)
        if fault is not None:
            found.append(fault)
        if len(found) == count:
            break
    return found


def _files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for source in _SOURCES for p in (root / source).rglob("*.py"))


def test_files(root: Path) -> list[str]:
    """The files of tests that `make test` runs."""
    files = (root / "tests").rglob("test_*.py")
    apart = {"audit_extras", "browser", "torch_ensembles"}  # which `make test` leaves out
    return sorted(str(p.relative_to(root)) for p in files if not apart & set(p.parts))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


Place = tuple[int, int, int, int]  # first line and column, last line and column, as ast counts them


def _changes(function: ast.FunctionDef, source: str) -> Iterator[tuple[Place, str]]:
    """What may be changed in a function's body: where, and what is put there."""
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    left_out = _texts(function)
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef | ast.JoinedStr) or node in left_out:
            continue
        for part, put in _changes_of(node, source):
            yield _place(part), put


def _texts(function: ast.FunctionDef) -> set[ast.AST]:
    """What is inside of f-strings and annotations."""
    found: set[ast.AST] = set()
    for node in ast.walk(function):
        inside = [node] if isinstance(node, ast.JoinedStr) else [getattr(node, "annotation", None)]
        found |= {n for part in inside if part is not None for n in ast.walk(part)}
    return found


def _changes_of(node: ast.AST, source: str) -> Iterator[tuple[ast.AST, str]]:
    text = lambda part: ast.get_source_segment(source, part) or ""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        yield node, f"{text(node.left)} {_COMPARISONS[type(node.ops[0])]} {text(node.comparators[0])}"
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        yield node, f"({text(node.left)} {_OPERATIONS[type(node.op)]} {text(node.right)})"
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield node, "(" + word.join(f"({text(value)})" for value in node.values) + ")"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield node, f"({text(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield node, repr(node.value + 1 if isinstance(node.value, int) else 2 * node.value + 0.01)
    elif isinstance(node, ast.IfExp):
        yield node, f"({text(node.orelse)} if {text(node.test)} else {text(node.body)})"
    elif isinstance(node, ast.Call):
        name = node.func
        called = name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
        alone = isinstance(name, ast.Name) and called in _METHODS_ALONE
        if called in _CALLS and not alone:
            yield name, text(name)[: -len(called)] + _CALLS[called]
        plain = len(node.args) >= 2 and not any(isinstance(a, ast.Starred) for a in node.args[:2])
        if plain and called not in _SYMMETRIC and text(node.args[0]) != text(node.args[1]):
            one, two = node.args[:2]
            rest = [text(a) for a in node.args[2:]] + [
                f"{k.arg}={text(k.value)}" if k.arg else f"**{text(k.value)}" for k in node.keywords
            ]
            yield node, f"{text(name)}({', '.join([text(two), text(one), *rest])})"
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield node, "pass"


def _place(node: ast.AST) -> Place:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def span(source: str, place: Place) -> tuple[int, int]:
    """Where a place begins and ends in the text of its file."""
    lines = source.splitlines(keepends=True)
    at = lambda line, column: len("".join(lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())
    return at(place[0], place[1]), at(place[2], place[3])


def _fault(path: str, function: str, source: str, place: Place, put: str, tests: dict[str, str]) -> Fault | None:
    """The change as a text that occurs once: as many lines above as that takes. None where it does not compile."""
    lines = source.splitlines(keepends=True)
    first, _, last, _ = place
    start, stop = span(source, place)
    below = len("".join(lines[:last]))
    for above in range(first - 1, -1, -1):
        begin = len("".join(lines[:above]))
        find = source[begin:below]
        if source.count(find) == 1:
            break
    else:
        return None
    whole = source[begin:start] + put + source[stop:below]
    try:
        ast.parse(source.replace(find, whole))
    except SyntaxError:
        return None
    beside = path.startswith(_SOURCES[1])
    room = Path(path).relative_to(_SOURCES[beside]).parts[0].removesuffix(".py")
    package = "studies" if beside and room not in {"systems", "contenders", "data"} else room
    says = f"{function}, line {first}: {' '.join(source[start:stop].split())} → {' '.join(put.split())}"
    own = _tests_of(package, path, function, tests)
    return Fault(package, path, says, find, whole, own[:_FEW] or own[:1], own, place=place, becomes=put)


def _tests_of(package: str, path: str, function: str, tests: dict[str, str]) -> tuple[str, ...]:
    """Test files, those first that name the function, then its module, then those of its package, then all others."""
    module = Path(path).stem
    named = [re.compile(rf"\b{re.escape(word)}\b") for word in (function, module)]
    own = lambda name: name.startswith((f"tests/{package}/", f"tests/{package}_"))
    rank = lambda name: (*(not word.search(tests[name]) for word in named), not own(name), name)
    near = [name for name in tests if own(name) or any(word.search(tests[name]) for word in named)]
    return tuple(sorted(near or tests, key=rank))
