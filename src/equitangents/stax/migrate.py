"""`python -m equitangents.stax.migrate script.py`: change a neural-tangents script's imports, and list its uses.

The script is parsed and never run. Names are looked up in `equitangents`; for missing names the finding is the error
message of a call. Arguments are checked only when the script runs.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equitangents
from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents.files import atomic_file, file_bytes
from equitangents.keywords import meant
from equitangents.stax.missing import MissingName

UNCHANGED, REPLACED, BY_HAND = "unchanged", "replaced", "by hand"
_THEIRS, _OURS = "neural_tangents", "equitangents"
_MODULES = ("stax", "predict")
_GROUPS = "equivariant_ntk"  # layers on groups for neural-tangents
_ON_GROUPS = (
    "nn.Lift is its Z2ConvP4, nn.GroupConv P4ConvP4 and SO3ConvSO3, nn.SphereLift S2ConvSO3, nn.GroupPool GroupPool "
    "and SO3Pool; where a lift comes first its NTK counts the input's kernel twice, ours once"
)


@dataclass(frozen=True, order=True)
class Finding:
    """One use of neural-tangents in a script's line: `kind` is "unchanged", "replaced" or "by hand"."""

    line: int
    kind: str
    text: str


@dataclass
class MigrationReport:
    """Findings about a script, sorted by line, and its text with changed imports."""

    findings: list[Finding]
    text: str

    def count(self, kind: str) -> int:
        """The number of findings of one kind."""
        return sum(finding.kind == kind for finding in self.findings)


def migrated(source: str) -> MigrationReport:
    """`MigrationReport` on the text of a script.

    Raises InvalidArgumentError for a text that is no Python.

    >>> report = migrated("from neural_tangents import stax\\nstax.FanInProd()\\n")
    >>> [finding.kind for finding in report.findings]
    ['replaced', 'by hand']
    >>> report.text.splitlines()[0]
    'from equitangents import stax'
    """
    script = _Script()
    try:
        script.visit(ast.parse(source))
        text = script.changed(source)
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise InvalidArgumentError(
            "script", getattr(error, "msg", str(error)), remedy=line, verb="is no Python:"
        ) from None
    except (RecursionError, MemoryError):
        raise InvalidArgumentError("script", "it is nested too deeply", verb="is no Python that can be read:") from None
    return MigrationReport(sorted(script.findings), text)


@dataclass
class _Script(ast.NodeVisitor):
    """AST visitor of a script: imports bind names to paths in neural-tangents, "" being the package itself."""

    bound: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    edits: list[tuple[ast.stmt, str]] = field(default_factory=list)

    def visit_Import(self, node: ast.Import) -> None:
        """Record `import neural_tangents as nt`."""
        names = []
        for alias in node.names:
            first, _, inner = alias.name.partition(".")
            if first == _GROUPS:
                self.bound[alias.asname or _GROUPS] = _GROUPS
                self._use(node, _GROUPS)
            if first != _THEIRS:
                names.append(ast.unparse(alias))
            elif inner and inner not in _MODULES:
                self._add(node, BY_HAND, f"import {alias.name}: {_missing(inner.partition('.')[0])}")
                names.append(ast.unparse(alias))
            else:
                name, path = (alias.asname, inner) if alias.asname else (_THEIRS, "")
                self.bound[name] = path
                names.append(f"{_OURS}.{path} as {name}" if path else f"{_OURS} as {name}")
        self._replace(node, "import " + ", ".join(names))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Record `from neural_tangents import stax`; missing names stay imported from neural-tangents."""
        first, _, inner = (node.module or "").partition(".")
        if first == _GROUPS and not node.level:
            for alias in node.names:
                self.bound[alias.asname or alias.name] = f"{_GROUPS}.{alias.name}"
                self._use(node, f"{_GROUPS}.{alias.name}")
        if node.level or first != _THEIRS:
            return
        taken, left = [], []
        for alias in node.names:
            path = f"{inner}.{alias.name}" if inner else alias.name
            if alias.name == "*" and inner in ("", *_MODULES):
                self._add(node, BY_HAND, f"from {node.module} import *: import names one by one")
                taken.append(alias)
            elif reason := _why_missing(path):
                self._add(node, BY_HAND, f"{path}: {reason}")
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
        """Record `nt.stax.Dense` as one name."""
        path = self._path(node)
        if path is None:
            self.generic_visit(node)
        else:
            self._use(node, path)

    def visit_Name(self, node: ast.Name) -> None:
        """Record the use of an imported name."""
        if isinstance(node.ctx, ast.Load):
            self._use(node, self.bound.get(node.id, ""))

    def changed(self, source: str) -> str:
        """The script with the imports replaced; all other bytes are unchanged."""
        lines = source.encode().splitlines(keepends=True)
        for node, text in sorted(self.edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            lines[first : last + 1] = [before + text.encode() + after]
        return b"".join(lines).decode()

    def _path(self, node: ast.expr) -> str | None:
        """The path in neural-tangents to which an expression refers, or None."""
        if isinstance(node, ast.Name):
            return self.bound.get(node.id)
        inner = self._path(node.value) if isinstance(node, ast.Attribute) else None
        return None if inner is None else f"{inner}.{node.attr}".removeprefix(".")  # type: ignore[attr-defined]

    def _use(self, node: ast.stmt | ast.expr, path: str) -> None:
        if path and path not in _MODULES:
            reason = _why_missing(path)
            self._add(node, BY_HAND if reason else UNCHANGED, f"{path}: {reason}" if reason else path)

    def _replace(self, node: ast.Import | ast.ImportFrom, text: str) -> None:
        if text != ast.unparse(node):
            self._add(node, REPLACED, text)
            self.edits.append((node, text))

    def _add(self, node: ast.stmt | ast.expr, kind: str, text: str) -> None:
        self.findings.append(Finding(node.lineno, kind, text))


def _why_missing(path: str) -> str:
    """Why a name of neural-tangents does not work here; "" if it does."""
    first, _, rest = path.partition(".")
    if first == _GROUPS:
        return _ON_GROUPS
    if first in _MODULES:
        return _missing(rest.partition(".")[0], getattr(equitangents, first)) if rest else ""
    return _missing(first)


def _missing(name: str, home: Any = equitangents) -> str:
    """The replacement for a name that a module lacks; "" if it exists."""
    found = getattr(home, name, None)
    if isinstance(found, MissingName):
        return found.remedy
    if name in home.__all__:
        return ""
    return "use the public names" if name.startswith("_") else meant(name, home.__all__) or "it is not here"


def _read(path: Path) -> tuple[str, str]:
    """(text, encoding) of a script, with line endings unchanged."""
    try:
        content = file_bytes(path)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding), encoding
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("script", str(path), "a file of Python that can be read", str(error)) from None


def main(arguments: list[str] | None = None) -> int:
    """Print the report on a script; exit status 0 if changed imports suffice, 1 if work remains by hand, else 2."""
    parser = argparse.ArgumentParser(
        prog="python -m equitangents.stax.migrate",
        description="List line by line which uses of neural-tangents in a script work unchanged, which imports are "
        "replaced, and what needs a hand. The script is read, never run. Exit status 1 where something needs a hand.",
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("--write", type=Path, metavar="OUT", help="write the script with changed imports to a new file")
    options = parser.parse_args(arguments)
    try:
        source, encoding = _read(options.script)
        report = migrated(source)
        if options.write is not None:
            if options.write.exists():
                raise InvalidArgumentError("write", str(options.write), "a path that does not exist")
            with atomic_file(options.write) as partial:
                partial.write_bytes(report.text.encode(encoding))
    except EquitangentsError as error:
        print(f"equitangents.stax.migrate: {error}", file=sys.stderr)
        return 2
    for finding in report.findings:
        print(f"{options.script}:{finding.line}: {finding.kind}: {finding.text}")
    print(", ".join(f"{report.count(kind)} {kind}" for kind in (UNCHANGED, REPLACED, BY_HAND)))
    return int(report.count(BY_HAND) > 0)


if __name__ == "__main__":
    sys.exit(main())
