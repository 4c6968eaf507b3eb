"""Where the build puts the compiled library and the engines' source: `_native` in the package's folders."""

from __future__ import annotations

import sys
from pathlib import Path


def native_folders() -> tuple[Path, ...]:
    """The folders `_native`, one for each place that holds a part of the package (an editable install has two)."""
    return tuple(Path(root) / "_native" for root in sys.modules["equitangents"].__path__)
