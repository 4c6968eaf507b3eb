"""Keywords that are misspelt, which get an error that names the one that was meant, and those with a second name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, Self, TypeVar, cast

from equitangents.errors import InvalidArgumentError, InvalidTypeError

SAME_AS = {  # what arguments are called elsewhere, and here
    "workers": "executor",
    "n_jobs": "executor",
    "method": "solver",
    "field": "kernel",
    "network": "net",
    "n_members": "members",
    "n_estimators": "members",
    "random_state": "seed",
    "inputs": "x",
    "model": "f",
    "output_action": "label_action",
    "label_action": "output_action",
    "level": "confidence",
    "verbose": "progress",
    "shape": "input_shape",
}

F = TypeVar("F", bound=Callable[..., object])


class CheckedKeywords:
    """A class whose constructor refuses unknown keywords with the nearest known one."""

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        """A new object, or InvalidTypeError that names the keyword."""
        check_keywords(cls, keywords)
        return super().__new__(cls)


def check_keywords(cls: type, keywords: Collection[str]) -> None:
    """Raise InvalidTypeError unless `cls` takes all `keywords`.

    >>> from equitangents import nn
    >>> nn.Dense(3, w_std=1.5)
    Traceback (most recent call last):
    equitangents.errors.InvalidTypeError: Dense has no argument 'w_std'; expected 'channels', ... did you mean 'W_std'?
    """
    if not keywords:
        return
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for keyword in keywords:
        if keyword not in known:
            takes = known or ("layers alone" if parameters else "none")
            raise InvalidTypeError(cls.__name__, keyword, takes, meant(keyword, known), verb="has no argument")


def named_also(**others: str) -> Callable[[F], F]:
    """A decorator: a function's arguments by a second name, `other="name"`, as scikit-learn's `X` for `x`.

    Both at once, the first by its name or by its place: InvalidArgumentError.

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
    """The error for a name that is none of the known ones."""
    return InvalidArgumentError(argument, name, list(known), meant(str(name), known))


def meant(name: str, known: Collection[str]) -> str:
    """ "did you mean 'W_std'?" if a known name is near, or means the same elsewhere, else nothing."""
    lowered = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    found = SAME_AS[name] if SAME_AS.get(name) in known else lowered[near[0]] if near else None
    return "" if found is None else f"did you mean {found!r}?"
