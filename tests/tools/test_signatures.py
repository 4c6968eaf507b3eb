"""How many public signatures that users import say `Any`: their number does not grow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOTS = [Path(__file__).parents[2] / "src" / name for name in ("equitangents", "equitangents_studies")]
MOST = 19  # lower it where fewer do


def exported_with_any(root: Path) -> list[str]:
    """Public functions, methods and fields that take or return `Any`, or `Any | None`, of what an `__init__` names."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if any(part.startswith("_") and part != "__init__" for part in parts):
            continue
        module = ".".join(part for part in parts if part != "__init__")
        given = names_of_packages(root, parts)
        found += [f"{module}.{name}" for name in whole(ast.parse(path.read_text()).body) if name.split(".")[0] in given]
    return found


def names_of_packages(root: Path, parts: tuple[str, ...]) -> set[str]:
    """What the packages around a file name in their `__init__.py`: by an import, or in the stub of lazy ones."""
    files = [root.joinpath(*parts[:end], f"__init__.{kind}") for end in range(len(parts)) for kind in ("py", "pyi")]
    nodes = [node for file in files if file.exists() for node in ast.walk(ast.parse(file.read_text()))]
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def whole(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Names of public signatures of a module or class that say `Any`; `*args` and `**options` do not count."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = statement.args
            said = [a.annotation for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            name, hints = statement.name, [*said, statement.returns]
        elif isinstance(statement, ast.ClassDef):
            if not statement.name.startswith("_"):
                yield from whole(statement.body, f"{prefix}{statement.name}.")
            continue
        elif isinstance(statement, ast.AnnAssign):
            name, hints = ast.unparse(statement.target), [statement.annotation]
        else:
            continue
        public = not name.startswith("_") or name in ("__init__", "__call__")
        if public and any("Any" in ast.unparse(hint).split(" | ") for hint in hints if hint is not None):
            yield prefix + name


def test_what_is_counted(tmp_path):
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "room").mkdir()
    (tmp_path / "room/__init__.py").write_text("from room.file import whole, part, none, Kept\n")
    (tmp_path / "room/file.py").write_text(
        "def whole(x: Any | None, y: dict[str, Any]) -> int: ...\n"
        "def part(x: dict[str, Any]) -> int: ...\n"
        "def none(x: int, *rest: Any, **options: Any) -> Float[np.ndarray, 'n d']: ...\n"
        "def other(x: Any) -> Any: ...\n"
        "class Kept:\n    field: Any\n    _hidden: Any\n    def __call__(self, x: int) -> Any: ...\n"
    )
    wanted = ["room.file.whole", "room.file.Kept.field", "room.file.Kept.__call__"]
    assert exported_with_any(tmp_path) == wanted


def test_no_more_signatures_that_users_import_say_any():
    found = [name for root in ROOTS for name in exported_with_any(root)]
    assert len(found) <= MOST, found
