"""Contenders by name: those of `kinds/`, one file each, those that were registered, and "module:Name" of one's own."""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from equitangents.errors import InvalidArgumentError
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.protocol import Contender

_BUILT_IN = (
    "plain",
    "augmented",
    "ensemble",
    "gcnn",
    "gcnn-augmented",
    "gcnn-ensemble",
    "canonicalisation",
    "test-time",
    "infinite",
    "invariant-kernel",
)
Factory = Contender | Callable[..., Contender]
"""What makes a contender: a function of nothing or of the `Problem`, a class, or a contender that is copied."""
_registered: dict[str, Factory] = {}


@dataclass(frozen=True)
class Entry:
    """A contender's name, what tables call it, how it is made, and why it cannot be where it cannot."""

    name: str
    title: str
    factory: Factory
    unavailable: Callable[[Problem], str] = lambda problem: ""

    def make(self, problem: Problem) -> Contender:
        """A new contender, not fitted. Raises InvalidArgumentError where it cannot be made, fit or predict."""
        try:
            made = _made(self.factory, problem)
        except Exception as error:
            raise InvalidArgumentError(
                f"contender {self.name!r} could not be made: {type(error).__name__}: {error}"
            ) from error
        for method in ("fit", "predict"):
            if not callable(getattr(made, method, None)):
                raise InvalidArgumentError(
                    f"contender {self.name!r} is {made!r}, which has no method {method!r}; a contender has fit(x, y) "
                    "and predict(x)"
                )
        return made


def register(name: str, factory: Factory) -> None:
    """Make a contender of one's own known under `name`, in place of one of that name.

    `factory` is called without arguments, or with the `Problem` if it has a parameter that needs one, and returns an
    object with fit(x, y) and predict(x); or it is such an object, of which every run takes a copy.

    Example: `register("nearest", NearestMean)`, then `equitangents reproduce comparison --set contenders=plain,nearest`
    """
    if not isinstance(name, str) or not name or "," in name or ":" in name:
        raise InvalidArgumentError(f"name is {name!r}; expected text without commas and colons")
    if not callable(factory) and not _fits(factory):
        raise InvalidArgumentError(
            f"factory is {factory!r}; expected something to call that returns an object with fit and predict, or such "
            "an object"
        )
    _registered[name] = factory


def names() -> tuple[str, ...]:
    """Every name that `find` knows."""
    return (*_BUILT_IN, *(name for name in _registered if name not in _BUILT_IN))


def find(name: str) -> Entry:
    """The contender called `name`, or `Name` of an importable module for "module:Name".

    Raises InvalidArgumentError that says which part of the name leads nowhere.
    """
    if name in _registered:
        return Entry(name, name, _registered[name])
    if name in _BUILT_IN:
        kind = importlib.import_module(f"equitangents_studies.contenders.kinds.{name.replace('-', '_')}")
        return Entry(name, kind.TITLE, kind.make, getattr(kind, "unavailable", lambda problem: ""))
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
    if not callable(found) and not _fits(found):
        raise InvalidArgumentError(f"contender {name!r} is {found!r}, which has no fit and predict")
    return found


def _fits(thing: Any) -> bool:
    return not inspect.isclass(thing) and all(callable(getattr(thing, method, None)) for method in ("fit", "predict"))


def _made(factory: Any, problem: Problem) -> Any:
    if _fits(factory):
        return copy.deepcopy(factory)
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return factory()
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    wants = bool(needed) or any(p.name == "problem" for p in parameters)
    if not wants:
        return factory()
    named = [p.name for p in parameters if p.name == "problem" and p.kind is p.KEYWORD_ONLY]
    return factory(problem=problem) if named else factory(problem)
