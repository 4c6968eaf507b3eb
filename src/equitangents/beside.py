"""Access to the companion package: studies, learning systems, baselines and data sets.

It is installed along with the library and imports only the library's public names (`tests/beside`). The library finds
it by name and imports it on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

PACKAGE = "equitangents_studies"
ROOMS = {"studies": PACKAGE, **{name: f"{PACKAGE}.{name}" for name in ("systems", "baselines", "data")}}


def room(name: str) -> ModuleType:
    """The companion subpackage `equitangents.<name>`, such as `room("systems")`; ImportError if not installed."""
    return importlib.import_module(ROOMS[name])


def commands() -> dict[str, Callable[..., Any]]:
    """Subcommands of `equitangents` by name; empty without the companion package."""
    try:
        importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        return {}
    return importlib.import_module(f"{PACKAGE}.commands").COMMANDS
