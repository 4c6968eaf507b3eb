"""What a package built on this library needs beside its rooms: checks, whole files, names of types, work spread out.

The studies are the first such package. Each name is imported from where it lives when it is first used: the stub beside
this file says from where.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOMES = {
    alias.asname or alias.name: (node.module or "", alias.name)
    for node in _STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _HOMES[name]
    found = getattr(importlib.import_module(module), there, None)
    found = importlib.import_module(f"{module}.{there}") if found is None else found
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
