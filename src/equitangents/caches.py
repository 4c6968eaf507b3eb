"""Where this package keeps what it can compute again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "EQUITANGENTS_CACHE"


def cache_folder() -> Path:
    """The folder that `EQUITANGENTS_CACHE` names, or else the platform's for caches."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    home = Path.home()
    platform = {
        "win32": os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local",
        "darwin": home / "Library" / "Caches",
    }
    return Path(platform.get(sys.platform) or os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "equitangents"
