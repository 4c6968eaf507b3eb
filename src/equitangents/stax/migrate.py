"""`python -m equitangents.stax.migrate script.py`: which uses in a neural-tangents script work here, line by line.

The script is parsed and never run. Which names there are is read off `equitangents` itself, and what is said of those
that are not is what calling them says; arguments are tried on our own functions, as far as the script states them.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import equitangents
from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents.files import file_bytes, whole_file
from equitangents.keywords import meant
from equitangents.stax.missing import GROUP_LAYERS, LIFTED, LIFTED_TWICE, Missing

UNCHANGED, REPLACED, BY_HAND = "unchanged", "replaced", "by hand"
_THEIRS, _OURS = "neural_tangents", "equitangents"
_GROUPS = "equivariant_ntk"  # layers on groups for neural-tangents
_MODULES = ("stax", "predict")
_TRIED = (
    "stax.Aggregate", "stax.AvgPool", "stax.Conv", "stax.ConvLocal", "stax.Elementwise", "stax.FanInConcat",
    "stax.GlobalSelfAttention", "stax.LayerNorm", "stax.SumPool", "empirical_ntk_fn", "empirical_kernel_fn",
)  # fmt: skip
"""Functions that look at their arguments at once, and compute nothing yet."""
_FUNCTIONS = ("f", "fn", "nngp_fn", "d_nngp_fn", "to_dense")  # parameters that a script's own functions are given for
_UNKNOWN = object()
Named = Any  # what a name of a module stands for: a function, a class, a module


@dataclass(frozen=True, order=True)
class Finding:
    """One use in a line of a script: `kind` is "unchanged", "replaced" or "by hand"."""

    line: int
    kind: str
    text: str


@dataclass
class Report:
    """Findings about a script, sorted by line, and its text with changed imports."""

    findings: list[Finding]
    text: str

    def counted(self) -> str:
        """Text with the number of findings of each kind."""
        count = Counter(finding.kind for finding in self.findings)
        return (
            f"{count[UNCHANGED]} uses unchanged, {count[REPLACED]} imports replaced, "
            f"{count[BY_HAND]} need{'s' if count[BY_HAND] == 1 else ''} a hand"
        )


def migrated(source: str) -> Report:
    """`Report` on the text of a script.

    Raises InvalidArgumentError for a text that is no Python.

    >>> report = migrated("from neural_tangents import stax\\nstax.FanInProd()\\n")
    >>> [finding.kind for finding in report.findings]
    ['replaced', 'by hand']
    >>> report.text.splitlines()[0]
    'from equitangents import stax'
    """
    try:
        tree = ast.parse(source)
        script = _Script(source)
        script.visit(tree)
        text = script.changed()
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InvalidArgumentError(
            "script", getattr(error, "msg", str(error)), remedy=line, verb="is no Python:"
        ) from None
    except (RecursionError, MemoryError):
        raise InvalidArgumentError("script is nested too deeply") from None
    return Report(sorted(script.findings), text)


@dataclass
class _Script(ast.NodeVisitor):
    """Walks through a script: imports first bind names to places in neural-tangents, and uses are looked up there."""

    source: str
    bound: dict[str, str] = field(default_factory=dict)
    on_groups: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    edits: list[tuple[ast.stmt, str]] = field(default_factory=list)

    def visit_Import(self, node: ast.Import) -> None:
        """`import neural_tangents as nt`."""
        names = []
        for alias in node.names:
            first, _, inner = alias.name.partition(".")
            if first == _GROUPS:
                self._say(node, BY_HAND, f"import {alias.name}: {_on_groups('')}")
                self.on_groups[alias.asname or _GROUPS] = ""
            if first != _THEIRS:
                names.append(ast.unparse(alias))
                continue
            if inner and inner not in _MODULES:
                self._say(node, BY_HAND, f"import {alias.name}: {_instead(inner.partition('.')[0])}")
                names.append(ast.unparse(alias))
                continue
            name, path = (alias.asname, inner) if alias.asname else (_THEIRS, "")
            self.bound[name] = path
            ours = f"{_OURS}.{inner}" if alias.asname and inner else _OURS
            names.append(f"{ours} as {name}")
        self._replace(node, "import " + ", ".join(names))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from neural_tangents import stax`."""
        first, _, inner = (node.module or "").partition(".")
        if first == _GROUPS and not node.level:
            for alias in node.names:
                known = alias.name if alias.name in GROUP_LAYERS else ""
                self._say(node, BY_HAND, f"{node.module}.{alias.name}: {_on_groups(known)}")
                self.on_groups[alias.asname or alias.name] = known
        if node.level or first != _THEIRS:
            return
        taken, left = [], []
        for alias in node.names:
            path = f"{inner}.{alias.name}" if inner else alias.name
            if alias.name == "*" and inner in ("", *_MODULES):
                self._say(
                    node, BY_HAND, f"from {node.module} import *: its names are not looked up; import them by name"
                )
                taken.append(alias)
            elif (reason := _why_not(path)) and not _is_there(path):
                self._say(node, BY_HAND, f"{path}: {reason}")
                left.append(alias)
            else:
                self.bound[alias.asname or alias.name] = path
                taken.append(alias)
        parts = [(taken, f"{_OURS}.{inner}" if inner else _OURS), (left, str(node.module))]
        self._replace(
            node,
            "; ".join(f"from {module} import {', '.join(map(ast.unparse, part))}" for part, module in parts if part),
        )

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """`nt.stax.Dense`, as a whole."""
        path = self._path(node)
        if path is None and node.attr in GROUP_LAYERS and _root(node) in self.on_groups:
            self._say(node, BY_HAND, f"{node.attr}: {_on_groups(node.attr)}")
        elif path is None:
            self.generic_visit(node)
        elif path not in _MODULES:
            self._use(node, path)

    def visit_Name(self, node: ast.Name) -> None:
        """A name that was imported, where it is used."""
        if (known := self.on_groups.get(node.id)) and isinstance(node.ctx, ast.Load):
            self._say(node, BY_HAND, f"{known}: {_on_groups(known)}")
        path = self.bound.get(node.id)
        if path and path not in _MODULES and isinstance(node.ctx, ast.Load):
            self._use(node, path)

    def visit_Call(self, node: ast.Call) -> None:
        """A call: its name, and whether its arguments can be given here."""
        path = self._path(node.func)
        reason = None if path is None or _why_not(path) else self._refusal(path, node)
        if path is not None and reason:
            self._say(node, BY_HAND, f"{path}: {reason}")
            for argument in (*node.args, *node.keywords):
                self.visit(argument)
        else:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """The module's name as text, as for importlib."""
        if isinstance(node.value, str) and node.value.partition(".")[0] == _THEIRS:
            self._say(
                node, BY_HAND, f"the text {node.value!r}: say {node.value.replace(_THEIRS, _OURS)!r} if it is imported"
            )

    def changed(self) -> str:
        """The script with our imports in place of theirs; all else stays, to the last byte."""
        lines = self.source.encode().splitlines(keepends=True)
        for node, text in sorted(self.edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            lines[first : last + 1] = [before + text.encode() + after]
        return b"".join(lines).decode()

    def _path(self, node: ast.expr) -> str | None:
        """The path in neural-tangents that an expression names, "" for the package; None for others."""
        if isinstance(node, ast.Name):
            return self.bound.get(node.id)
        if isinstance(node, ast.Attribute):
            inner = self._path(node.value)
            return None if inner is None else f"{inner}.{node.attr}".removeprefix(".")
        return None

    def _use(self, node: ast.expr, path: str) -> None:
        reason = _why_not(path)
        self._say(node, BY_HAND if reason else UNCHANGED, f"{path}: {reason}" if reason else path)

    def _replace(self, node: ast.Import | ast.ImportFrom, text: str) -> None:
        if text != ast.unparse(node):
            self._say(node, REPLACED, text)
            self.edits.append((node, text))

    def _say(self, node: ast.AST, kind: str, text: str) -> None:
        self.findings.append(Finding(getattr(node, "lineno", 0), kind, text))

    def _refusal(self, path: str, node: ast.Call) -> str | None:
        """What is said here of the arguments of a call; None where nothing is."""
        function = _ours(path)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return None
        try:
            bound = inspect.signature(function).bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
        except TypeError as error:
            return f"arguments: {error}"
        except ValueError:  # of what has no signature
            return None
        if path not in _TRIED:
            return None
        arguments: dict[str, Any] = {}
        for name, given in bound.arguments.items():
            if isinstance(given, dict):  # of **keywords, which are not looked at
                continue
            value = self._value(given)
            default = bound.signature.parameters[name].default
            if value is _UNKNOWN:
                value = _own if name in _FUNCTIONS else 1 if default is inspect.Parameter.empty else default
            arguments[name] = value
        try:
            function(**arguments)
        except NotImplementedError as error:
            return str(error)
        except Exception:  # of values that were stood in for, or that the script may change before
            return None
        return None

    def _value(self, node: ast.expr) -> object:
        """What an expression of literals, or of names of neural-tangents, stands for."""
        path = self._path(node)
        if path:
            return _UNKNOWN if _why_not(path) else _ours(path)
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            return _UNKNOWN


def _on_groups(name: str) -> str:
    """What a layer of equivariant_ntk is here; "" for the package."""
    if not name:
        return "layers on groups are in equitangents.nn, such as nn.Lift and nn.GroupConv"
    return f"use {GROUP_LAYERS[name]}" + (f"; {LIFTED_TWICE}" if name in LIFTED else "")


def _root(node: ast.expr) -> str:
    """The first name of `a.b.c`; "" of what does not begin with a name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _own(*_: object, **__: object) -> None:
    """Stands in for a function of the script's own."""


def _ours(path: str) -> Named:
    found: Named = equitangents
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _is_there(path: str) -> bool:
    """Whether the name can be imported here, if only to say what to use instead."""
    try:
        _ours(path)
    except (AttributeError, NotImplementedError):
        return False
    return True


def _why_not(path: str) -> str:
    """Why a name of neural-tangents does not work here, "" where it does."""
    first, _, rest = path.partition(".")
    home, name = (equitangents, first) if first not in _MODULES or not rest else (_ours(first), rest.partition(".")[0])
    there = name in home.__all__ and not isinstance(getattr(home, name), Missing)
    return "" if there else _instead(name, home)


def _instead(name: str, home: ModuleType = equitangents) -> str:
    """What to use in place of a name that is not in a module."""
    found = getattr(home, name, None)
    if isinstance(found, Missing):
        return str(found.__doc__).removeprefix("Not here: ").removesuffix(".")
    if name.startswith("_"):
        return "use the public names"
    return "; ".join(filter(None, ("it is not here", meant(name, home.__all__))))


def _said(path: str, findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{path}:{finding.line}: {finding.kind}: {finding.text}"


def _read(path: Path) -> tuple[str, str]:
    """(text, encoding) of a script; line ends stay as they are."""
    if not path.is_file():
        raise InvalidArgumentError("script", str(path), "a file")
    if path.suffix == ".ipynb":
        raise InvalidArgumentError(
            "script", str(path), "a script", "save the notebook as one (jupyter nbconvert --to script)"
        )
    try:
        content = file_bytes(path)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding), encoding
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("script", str(path), "a file of Python that can be read", str(error)) from None


def main(arguments: list[str] | None = None) -> int:
    """Print what becomes of a script; 0 where changed imports are enough, 1 where something needs a hand, else 2."""
    parser = argparse.ArgumentParser(
        prog="python -m equitangents.stax.migrate",
        description="Say line by line what of a neural-tangents script works unchanged, what is replaced, and what "
        "needs a hand. The script is read, never run. Exit status 1 where something needs a hand.",
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("--write", type=Path, metavar="OUT", help="write the script with changed imports to a new file")
    given = parser.parse_args(arguments)
    try:
        return _reported(given.script, given.write)
    except EquitangentsError as error:
        print(f"equitangents.stax.migrate: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        whole = given.write is not None and given.write.exists()
        kept = f"{given.write} is written" if whole else "nothing is written"
        print(f"equitangents.stax.migrate: interrupted; {kept}", file=sys.stderr)
        return 130


def _reported(script: Path, write: Path | None) -> int:
    """Print what becomes of a script, and write it with changed imports; the exit status."""
    source, encoding = _read(script)
    report = migrated(source)
    if write is not None:
        if write.exists():
            raise InvalidArgumentError("write", str(write), "a path that does not exist")
        with whole_file(write) as partial:
            partial.write_bytes(report.text.encode(encoding))
    for line in _said(str(script), report.findings):
        print(line)
    print(f"{script}: {report.counted()}")
    if write is not None:
        print(f"written: {write}")
    return int(any(finding.kind == BY_HAND for finding in report.findings))


if __name__ == "__main__":
    sys.exit(main())
