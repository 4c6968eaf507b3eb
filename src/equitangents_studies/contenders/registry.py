"""Contenders by name: those of `kinds`, those that were registered, and "module:Name" of one's own."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from equitangents.errors import InvalidArgumentError
from equitangents_studies.contenders.contender import Entry, Factory, fits
from equitangents_studies.contenders.kinds import KINDS

_registered: dict[str, Factory] = {}


def register(name: str, factory: Factory) -> None:
    """Make a contender of one's own known under `name`, in place of one of that name.

    `factory` is called without arguments, or with the `Problem` if it has a parameter that needs one, and returns an
    object with fit(x, y) and predict(x); or it is such an object, of which every run takes a copy.

    Example: `register("nearest", NearestMean)`, then `equitangents reproduce comparison --set contenders=plain,nearest`
    """
    if not isinstance(name, str) or not name or "," in name or ":" in name:
        raise InvalidArgumentError(f"name is {name!r}; expected text without commas and colons")
    if not callable(factory) and not fits(factory):
        raise InvalidArgumentError(
            f"factory is {factory!r}; expected something to call that returns an object with fit and predict, or such "
            "an object"
        )
    _registered[name] = factory


def names() -> tuple[str, ...]:
    """Every name that `find` knows."""
    return (*KINDS, *(name for name in _registered if name not in KINDS))


def find(name: str) -> Entry:
    """The contender called `name`, or `Name` of an importable module for "module:Name".

    Raises InvalidArgumentError that says which part of the name leads nowhere.
    """
    if name in _registered:
        return Entry(name, name, _registered[name])
    if name in KINDS:
        return KINDS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidArgumentError(
            f"there is no contender {name!r}; there are {', '.join(names())}, and your own as module:Name"
        )
    return Entry(name, attribute or name, _imported(name, module, attribute))


def _imported(name: str, module: str, attribute: str) -> Any:
    if not module or not attribute:
        raise InvalidArgumentError(f"contender {name!r} is not of the form module:Name")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise InvalidArgumentError(
            f"contender {name!r}: the module {module!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InvalidArgumentError(f"contender {name!r}: {module!r} has no {attribute!r}")
        found = getattr(found, part)
    if not callable(found) and not fits(found):
        raise InvalidArgumentError(f"contender {name!r} is {found!r}, which has no fit and predict")
    return found
