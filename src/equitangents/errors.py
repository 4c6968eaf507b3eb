"""Exceptions for bad input, raised before anything is computed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

from equitangents.formatting import memory_size

__all__ = [
    "EquitangentsError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "MemoryLimitError",
    "MissingLibraryError",
    "ModelError",
    "NetworkError",
    "NotAnActionError",
    "NotFiniteError",
    "NotFittedError",
    "NotPositiveDefiniteError",
    "ShapeError",
    "StoreError",
]

_NONE: Any = object()


class EquitangentsError(Exception):
    """Base of every error that equitangents raises on purpose."""

    argument: str | None = None
    value: Any = None
    expected: object = ""
    remedy: str = ""
    at: object = None

    def shown(self, names: Mapping[str, str]) -> str:
        """The message, with arguments called by the user's names, such as `--group`."""
        return str(self)


class _ArgumentError(EquitangentsError):
    """An error about an argument, as data: the argument's name, its value, what is expected, and a remedy.

    An error about several arguments has only a message, passed as `argument`. `verb` joins name and value: "is", for
    arrays "has shape", or another one. `expected` is a text, a range of integers, a list of choices, or a shape,
    `("N", 3)`; `at` is the index of the wrong entry.

    >>> error = InvalidArgumentError("time", -1, "at least 0", "leave it out for the limit")
    >>> error.shown({"time": "--time"})
    '--time is -1; expected at least 0; leave it out for the limit'
    >>> str(InvalidArgumentError("solver", "lu", ["exact", "cg"])), str(InvalidArgumentError("n", 5, range(3), at=1))
    ("solver is 'lu'; expected 'exact' or 'cg'", 'n[1] is 5; expected 0 to 2')
    """

    _verb = "is"

    def __init__(
        self,
        argument: str,
        value: Any = _NONE,
        expected: object = "",
        remedy: str = "",
        *,
        verb: str = "",
        at: object = None,
    ) -> None:
        if value is _NONE:
            super().__init__(argument)
            return
        self.argument, self.value, self.expected, self.remedy = argument, value, expected, remedy
        self.at, self._verb = at, verb or self._verb
        self._text = value.__name__ if verb and isinstance(value, type) else self._shown(value)
        super().__init__(self.shown({}))

    def shown(self, names: Mapping[str, str]) -> str:
        """The message, with arguments called by the user's names, such as `--group`."""
        if self.argument is None:
            return str(self)
        wanted = f"expected {self._wanted()}" if self.expected != "" else ""
        at = "" if self.at is None else f" at {self.at}" if isinstance(self.at, tuple) else f"[{self.at}]"
        first = f"{names.get(self.argument, self.argument)}{at} {self._verb} {self._text}"
        return "; ".join(part for part in (first, wanted, self.remedy) if part)

    def _shown(self, value: object) -> str:
        return _text(value)

    def _wanted(self) -> str:
        return _wanted(self.expected)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with parts that any process can read: values of other kinds become text."""
        plain = isinstance(self.value, bool | int | float | str | None)
        state = {**vars(self), "expected": self._wanted()}
        return type(self), self.args, state if plain else {**state, "value": self._text}


def _wanted(expected: object) -> str:
    """`expected` as text: a range by its ends, choices one by one, a shape with its letters."""
    if expected is ...:
        return "..."
    if isinstance(expected, range):
        return f"{expected[0]} to {expected[-1]}" if expected else "none"
    if isinstance(expected, list | set | frozenset):
        return choices(expected)
    if isinstance(expected, tuple):
        return f"({', '.join(map(_wanted, expected))}{',' if len(expected) == 1 else ''})"
    return expected if isinstance(expected, str) else _text(expected)


def choices(values: Collection[object]) -> str:
    """The values as text, the last after "or".

    >>> choices(["a", "b", None])
    "'a', 'b' or None"
    """
    *first, last = map(repr, values)
    return f"{', '.join(first)} or {last}" if first else last


def _text(value: Any) -> str:
    """A value as text: Python's repr, with at most eight digits for numbers and NumPy scalars like Python's."""
    numpy = sys.modules.get("numpy")  # who has its numbers has loaded it; commands that need none start without it
    if numpy is not None and isinstance(value, numpy.dtype):
        return str(value)
    if numpy is not None and isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, float):
        return f"{value:.8g}" if len(repr(value)) > 10 else repr(value)
    return str(value) if type(value).__module__.startswith("equitangents") else repr(value)


class InvalidArgumentError(_ArgumentError, ValueError):
    """An argument has the right type and an unusable value; the message has its name, value and allowed values."""


class InvalidTypeError(_ArgumentError, TypeError):
    """An argument has an unusable type."""


class ShapeError(InvalidArgumentError):
    """An array has the wrong rank or shape; `value` is its shape."""

    _verb = "has shape"


class NotFiniteError(InvalidArgumentError):
    """An array holds NaN or infinite values; `value` is the index of the first."""

    _verb = "holds NaN or infinite values, the first at index"


class NotAnActionError(InvalidArgumentError):
    """A map passed as a group action does not respect the group's multiplication."""


class NetworkError(InvalidArgumentError):
    """A layer cannot follow the one before it, or the network does not have the requested kernel."""


class ModelError(InvalidArgumentError):
    """An audited model failed on its inputs; the message describes them."""


class NotPositiveDefiniteError(InvalidArgumentError):
    """A kernel matrix cannot be inverted; the message gives the ridge that would make it invertible."""


class MemoryLimitError(InvalidArgumentError):
    """A computation would need more memory than allowed; `value` and `expected` are bytes."""

    _verb = "needs about"

    def _shown(self, value: object) -> str:
        return memory_size(value) if isinstance(value, int | float) else _text(value)

    def _wanted(self) -> str:
        number = isinstance(self.expected, int | float)
        return f"at most {self._shown(self.expected)}" if number else super()._wanted()


class StoreError(InvalidArgumentError):
    """A store on disk holds something else, is damaged, or cannot be read or written; the message has a remedy."""


class NotFittedError(EquitangentsError, ValueError, AttributeError):
    """A model was used to predict before it was fitted."""


class MissingLibraryError(EquitangentsError, ImportError):
    """`library`, which `user` needs, is not installed; the extra `extra` of this package installs it."""

    def __init__(self, library: str, extra: str, user: str) -> None:
        super().__init__(
            f"{user} needs {library}, which is not installed: pip install 'equitangents[{extra}]' "
            f"(in a checkout '.[{extra}]')"
        )
        self.library, self.extra, self.user = library, extra, user

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.library, self.extra, self.user)


def require(library: str, extra: str, user: str) -> ModuleType:
    """Import and return the module `library`; MissingLibraryError names the extra that installs it for `user`."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise MissingLibraryError(library, extra, user) from None
