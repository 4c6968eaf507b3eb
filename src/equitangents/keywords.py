"""Second names of arguments, and the error for misspelt names."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection
from typing import TypeVar, cast

from equitangents.errors import InvalidArgumentError

F = TypeVar("F", bound=Callable[..., object])


def named_also(**others: str) -> Callable[[F], F]:
    """Decorator that gives arguments of a function a second name, `other="name"`, as scikit-learn's `X` for `x`.

    Raises InvalidArgumentError if an argument is given by both names.

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
    """Error for a name that is not among the known ones."""
    return InvalidArgumentError(argument, name, list(known), meant(str(name), known))


def meant(name: str, known: Collection[str]) -> str:
    """ "did you mean 'eigh'?" if a known name is similar, else an empty text."""
    lowered = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean {lowered[near[0]]!r}?" if near else ""
