"""Where this package keeps what it can compute again."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "EQUITANGENTS_CACHE"


def cache_folder() -> Path:
    """The folder that `EQUITANGENTS_CACHE` names, or else the platform's for caches."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import pooch  # brings a client of HTTP

    return Path(pooch.os_cache("equitangents"))
