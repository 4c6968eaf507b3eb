"""Keywords that are misspelt, which get an error that names the one that was meant, and those with a former name."""

from __future__ import annotations

import difflib
import functools
import inspect
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

from equitangents.errors import InvalidArgumentError, InvalidTypeError

P = ParamSpec("P")
T = TypeVar("T")


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
    equitangents.errors.InvalidTypeError: Dense has no argument 'w_std'; did you mean 'W_std'?; it takes ...
    """
    if not keywords:
        return
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    shorthands = getattr(cls, "shorthands", ())  # what **keywords stands for
    if not shorthands and any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)] + list(shorthands)
    for keyword in keywords:
        if keyword not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes layers alone, without keywords"
            if not known and not parameters:
                takes = "it takes no arguments"
            raise InvalidTypeError(f"{cls.__name__} has no argument {keyword!r}{meant(keyword, known)}; {takes}")


def renamed(
    where: Callable[[object], bool] | None = None, /, **former: str
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: a function's arguments by their former names, `former="now"`, which go on for one version and warn.

    `where`: the values that are meant by the former name, where the name itself goes on and means something else. Both
    at once, the one of now by its name or by its place: InvalidArgumentError.

    >>> @renamed(level="confidence")
    ... def ends(confidence=0.95):
    ...     return confidence
    >>> ends(0.9), ends(confidence=0.9)
    (0.9, 0.9)
    """
    return _read_by(former, where, warn=True)


def named_also(**others: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: a function's arguments by a second name, `other="name"`, which stays: scikit-learn's `X` for `x`."""
    return _read_by(others, None, warn=False)


def _read_by(
    others: Mapping[str, str], where: Callable[[object], bool] | None, *, warn: bool
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        places = {parameter: place for place, parameter in enumerate(inspect.signature(function).parameters)}

        @functools.wraps(function)
        def by_either_name(*args: P.args, **keywords: P.kwargs) -> T:
            for other in others.keys() & keywords.keys():
                if where is not None and not where(keywords[other]):
                    continue
                now = others[other]
                if now in keywords or places[now] < len(args):
                    which = "its former name" if warn else "another name of it"
                    raise InvalidArgumentError(f"{now} and {other}, {which}, are both given; give {now} alone")
                if warn:
                    warnings.warn(
                        f"{other} of {name} is now {now}; the old name goes with the next version",
                        DeprecationWarning,
                        stacklevel=2,
                    )
                keywords[now] = keywords.pop(other)
            return function(*args, **keywords)

        return by_either_name

    return decorated


def renamed_fields(**former: str) -> Callable[[type[T]], type[T]]:
    """A decorator: a record's fields by their former names, in its constructor and when they are read."""

    def decorated(cls: type[T]) -> type[T]:
        cls.__init__ = renamed(**former)(cls.__init__)  # type: ignore[method-assign]
        for old, now in former.items():
            setattr(cls, old, property(partial(_read_field, cls.__name__, old, now)))
        return cls

    return decorated


def _read_field(cls: str, old: str, now: str, record: object) -> object:
    warnings.warn(
        f"{cls}.{old} is now {now}; the old name goes with the next version", DeprecationWarning, stacklevel=2
    )
    return getattr(record, now)


def given_twice(record: str, kind: type, entry: str, field: str, value: Any) -> InvalidArgumentError:
    """The error for an argument that is a record, where one of its entries is given by itself as well."""
    return InvalidArgumentError(
        f"{record} and {entry} are both given; say it once: {record}={kind.__name__}({field}={value!r}, ...)"
    )


def meant(name: str, known: Collection[str]) -> str:
    """ "; did you mean 'W_std'?" if a known name is near, else nothing."""
    lowered = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"; did you mean {lowered[near[0]]!r}?" if near else ""
