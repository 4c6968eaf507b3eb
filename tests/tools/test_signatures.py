"""How many public signatures say `Any`: the counter counts what it says, and their number does not grow."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 50  # signatures of what users import that take or return `Any` as a whole; lower it where fewer do

spec = importlib.util.spec_from_file_location("signatures", ROOT / "scripts/signatures.py")
counter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(counter)


def test_each_signature_is_counted_once_by_how_it_says_any(tmp_path):
    (tmp_path / "_aliases.py").write_text("Params = Any\n")
    (tmp_path / "_types.py").write_text("")
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "room").mkdir()
    (tmp_path / "room/__init__.py").write_text("from room.file import whole, Kept\n__all__ = ['whole', 'Kept']\n")
    (tmp_path / "room/file.py").write_text(
        "def whole(x: Any | None, y: dict[str, Any]) -> int: ...\n"
        "def part(x: dict[str, Any], p: Params) -> int: ...\n"
        "def named(p: Params) -> int: ...\n"
        "def none(x: int, *rest: Any, **options: Any) -> Float[np.ndarray, 'n d']: ...\n"
        "def _own(x: Any) -> Any: ...\n"
        "class Kept:\n    field: Any\n    _hidden: Any\n    def __call__(self, x: int) -> Any: ...\n"
    )
    said = {name: kind for _, name, kind, _ in counter.signatures(tmp_path)}
    kinds = {
        "whole": "whole",
        "part": "part",
        "named": "named",
        "none": "",
        "Kept.field": "whole",
        "Kept.__call__": "whole",
    }
    assert said == {f"room.file.{name}": kind for name, kind in kinds.items()}
    imported = [name for _, name, _, _ in counter.signatures(tmp_path, exported=True)]
    assert imported == ["room.file.whole", "room.file.Kept.field", "room.file.Kept.__call__"]


def test_no_more_signatures_that_users_import_say_any():
    said = [found for root in counter.ROOTS for found in counter.signatures(root, exported=True)]
    whole = [name for _, name, kind, _ in said if kind == "whole"]
    assert len(whole) <= MOST, whole
