"""Arguments with a second name, and the error for misspelt names."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections import namedtuple
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, cast

from equitangents.errors import InvalidArgumentError

F = TypeVar("F", bound=Callable[..., object])


def named_also(**others: str) -> Callable[[F], F]:
    """Decorator that gives arguments of a function a second name, `other="name"`, as scikit-learn's `X` for `x`.

    InvalidArgumentError if both are passed, the first by name or by position.

    >>> @named_also(X="x")
    ... def size(x):
    ...     return len(x)
    >>> size([1, 2]), size(X=[1, 2])
    (2, 2)
    """

    def decorated(function: F) -> F:
        places = {parameter: place for place, parameter in enumerate(inspect.signature(function).parameters)}

        @functools.wraps(function)
        def by_either_name(*args: object, **keywords: object) -> object:
            for other in others.keys() & keywords.keys():
                name = others[other]
                if name in keywords or places[name] < len(args):
                    raise InvalidArgumentError(name, other, "one of both names", verb="is given and so is")
                keywords[name] = keywords.pop(other)
            return function(*args, **keywords)

        return cast(F, by_either_name)

    return decorated


def unknown(argument: str, name: object, known: Collection[str]) -> InvalidArgumentError:
    """The error for a name that is not among the known ones."""
    return InvalidArgumentError(argument, name, list(known), meant(str(name), known))


def meant(name: str, known: Collection[str]) -> str:
    """ "did you mean 'eigh'?" if a known name is similar, else ""."""
    lowered = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean {lowered[near[0]]!r}?" if near else ""


Get = str | Sequence[str] | None
"""Names of kernels: one, several, or None for "nngp" and "ntk"."""


def names_of(get: Get, *others: str) -> tuple[str, ...]:
    """The requested names, in lower case; `others` are also allowed."""
    names = ("nngp", "ntk") if get is None else (get,) if isinstance(get, str) else tuple(get)
    known = tuple(dict.fromkeys(("nngp", "ntk", *others)))
    for name in names:
        if str(name).lower() not in known:
            raise InvalidArgumentError("get", name, list(known))
    return tuple(str(name).lower() for name in names)


def named(get: Get, names: Sequence[str], parts: Sequence[Any], title: str) -> Any:
    """The requested parts: a single one if `get` is a text, else a named tuple."""
    return parts[0] if isinstance(get, str) else _record(title, tuple(names))(*parts)


@functools.lru_cache(maxsize=64)  # every call asks
def _record(title: str, names: tuple[str, ...]) -> Callable[..., tuple[Any, ...]]:
    return namedtuple(title, names)
