"""What the library knows of the package beside it: studies, learning systems, baselines and data sets.

It comes with the same install and imports the library's public names alone (`tests/beside`); the library reaches it by
name, and imports it when it is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

PACKAGE = "equitangents_studies"
ROOMS = {"studies": PACKAGE, **{name: f"{PACKAGE}.{name}" for name in ("systems", "baselines", "data")}}


def room(name: str) -> ModuleType:
    """What `equitangents.<name>` is, such as `room("systems")`; ImportError where it is not installed."""
    return importlib.import_module(ROOMS[name])


def commands() -> dict[str, Callable[..., Any]]:
    """Subcommands of `equitangents` by name; none where the package beside the library is not installed."""
    try:
        importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        return {}
    return importlib.import_module(f"{PACKAGE}.commands").COMMANDS
