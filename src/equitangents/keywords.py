"""Misspelt keywords: an error that names the one that was meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection
from typing import Any, Self

from equitangents.errors import InvalidArgumentError, InvalidTypeError


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
