"""What the library knows of the package beside it: studies, learning systems, contenders and data sets.

It comes with the same install and imports the library's public names alone (`tests/beside`); the library reaches it by
name, and imports it when it is first used.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = "equitangents_studies"
ROOMS = {"studies": PACKAGE, **{name: f"{PACKAGE}.{name}" for name in ("systems", "contenders", "data")}}


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


class _FormerPlaces(MetaPathFinder):
    """Imports of `equitangents.systems...` and its kin, where they lay before: the modules of now, with a warning."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """The module of now under its former name; None for other names."""
        library, _, inner = name.partition(".")
        first, _, rest = inner.partition(".")
        if library != __package__ or first not in ROOMS:
            return None
        now = ".".join(filter(None, (ROOMS[first], rest)))
        # the frames of the import system do not count: this names the line that imports
        warnings.warn(f"{name} is now {now}; the old name goes with the next version", DeprecationWarning, stacklevel=2)
        return ModuleSpec(name, _Present(now))


class _Present(Loader):
    """Puts a module that has another name, and keeps it, where the import system looks for this one."""

    def __init__(self, now: str) -> None:
        self.now = now

    def exec_module(self, module: ModuleType) -> None:
        """Once: both names are one module, whose classes are the same."""
        sys.modules[module.__name__] = importlib.import_module(self.now)


def install() -> None:
    """Make former places importable; before other finders, which would load a second copy from a folder of now."""
    if not any(isinstance(finder, _FormerPlaces) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FormerPlaces())
