"""How many public signatures say `Any`: of functions, methods and fields of classes, by package.

A signature counts once: a function or method with its arguments and result, or a field of a class. It is public if no
part of its dotted name begins with an underscore, `__init__` and `__call__` apart. Each is counted in the first column
that fits: `whole`, an argument that may be `Any` (or `Any | None`); `part`, `Any` inside of something
(`Mapping[str, Any]`); `named`, a name that stands for `Any` (`Params`). `*args: Any` and `**options: Any`, which are
handed on, do not count.

Without options all public signatures are counted; with `--exported` those that users import: of functions and classes
that the `__init__.py` of their package, or of one around it, names. `--list PACKAGE` prints them.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
ROOTS = (SOURCE / "equitangents", SOURCE / "equitangents_studies")
KINDS = ("whole", "part", "named")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> None:
    """Print the table, or a package's signatures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="PACKAGE", help="print the signatures of one package (`all`: of every one)")
    parser.add_argument("--exported", action="store_true", help="only what the `__init__.py` of a package names")
    arguments = parser.parse_args()
    said = [found for root in ROOTS for found in signatures(root, exported=arguments.exported)]
    if arguments.list:
        for package, name, kind, text in said:
            if kind and arguments.list in (package, "all"):
                print(f"{kind:5}  {name}: {text}")
        return
    packages = sorted({package for package, *_ in said})
    print(f"{'package':<14}" + "".join(f"{kind:>8}" for kind in (*KINDS, "of")))
    for package in packages:
        print_row(package, [s for s in said if s[0] == package])
    print_row("all", said)


def print_row(name: str, said: list[tuple[str, str, str, str]]) -> None:
    """One line of the table."""
    kinds = Counter(kind for _, _, kind, _ in said)
    print(f"{name:<14}" + "".join(f"{count:>8}" for count in (*(kinds[kind] for kind in KINDS), len(said))))


def signatures(root: Path, *, exported: bool = False) -> Iterator[tuple[str, str, str, str]]:
    """(package, dotted name, kind or nothing, the annotations that say `Any`) of every public signature."""
    named = root if (root / "_aliases.py").exists() else ROOTS[0]  # the package beside the library has its names of it
    shared = names_of_any(named / "_aliases.py") | names_of_any(named / "_types.py")
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if any(part.startswith("_") and part != "__init__" for part in parts):
            continue
        names = shared | names_of_any(path)
        module = [part for part in parts if part != "__init__"]
        given = names_in_packages(root, parts)
        for name, hints in public(ast.parse(path.read_text()).body, ".".join(module)):
            if exported and name.split(".")[len(module)] not in given:
                continue
            found = [(kind, ast.unparse(a)) for a in hints if (kind := kind_of(a, names))]
            first = min((kind for kind, _ in found), key=KINDS.index, default="")
            yield parts[0], name, first, ", ".join(text for _, text in found)


def names_in_packages(root: Path, parts: tuple[str, ...]) -> set[str]:
    """What the packages around a file name in their `__init__.py`: by an import, or in the stub of lazy ones."""
    files = [root.joinpath(*parts[:end], f"__init__.{kind}") for end in range(len(parts)) for kind in ("py", "pyi")]
    nodes = [node for file in files for node in _nodes(file)]
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text()))) if path.exists() else []


def names_of_any(path: Path) -> set[str]:
    """The names that a file gives to `Any`: `Params = Any`."""
    return {
        target.id
        for statement in ast.parse(path.read_text()).body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name) and statement.value.id == "Any"
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def public(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, list[ast.expr]]]:
    """Every public signature of a module or class, with its annotations."""
    for statement in body:
        if isinstance(statement, Function) and is_public(statement.name):
            yield f"{prefix}.{statement.name}", annotations_of(statement)
        elif isinstance(statement, ast.ClassDef) and is_public(statement.name):
            yield from public(statement.body, f"{prefix}.{statement.name}")
        elif isinstance(statement, ast.AnnAssign):
            name = ast.unparse(statement.target)
            if is_public(name):
                yield f"{prefix}.{name}", [statement.annotation]


def is_public(name: str) -> bool:
    """Whether users meet this name."""
    return not name.startswith("_") or name in ("__init__", "__call__")


def annotations_of(function: Function) -> list[ast.expr]:
    """What is said of arguments and result, but not of arguments that are handed on."""
    arguments = function.args
    said = [a.annotation for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None and not (isinstance(rest.annotation, ast.Name) and rest.annotation.id == "Any"):
            said.append(rest.annotation)
    return [annotation for annotation in (*said, function.returns) if annotation is not None]


def kind_of(annotation: ast.expr, names: set[str]) -> str:
    """How an annotation says `Any`, if it does."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ""  # of jaxtyping: axes
    choices = list(alternatives(annotation))
    if any(isinstance(choice, ast.Name) and choice.id == "Any" for choice in choices):
        return "whole"
    said = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    if "Any" in said:
        return "part"
    return "named" if said & names else ""


def alternatives(annotation: ast.expr) -> Iterator[ast.expr]:
    """A and B of `A | B`."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        yield from alternatives(annotation.left)
        yield from alternatives(annotation.right)
    else:
        yield annotation


if __name__ == "__main__":
    main()
