"""Checks arrays against the shapes and types that functions are annotated with, whenever a function returns.

`beartype` does the checking, of annotations that hold a jaxtyping array; dimensions of one name are equal throughout a
call. What a public function returns must fit its annotation; its arguments may also be lists or whole numbers, which it
reads as arrays itself or refuses with an error of its own, so that they only fix dimensions where they fit. Functions
of the package alone, whose names begin with one underscore, must be given what they are annotated with.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

from beartype import beartype
from beartype.door import is_bearable
from jaxtyping import AbstractArray


def check_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker for jaxtyping's import hook, which hands over stand-ins for what it checks.

    A stand-in for a whole call has one more parameter than the function: the value that it returned. The stand-in for
    the arguments alone does not have it, and passes.
    """
    annotations = {name: hint for name, hint in function.__annotations__.items() if _holds_array(hint)}
    parameters = inspect.signature(function).parameters.values()
    has_value = any(p.kind is p.KEYWORD_ONLY and re.fullmatch(r"ret\d+", p.name) for p in parameters)
    if not annotations or not has_value:
        return lambda *args, **kwargs: None
    if re.match("_(?!_)", function.__name__):
        function.__annotations__ = annotations
        return beartype(function)
    value = {name: hint for name, hint in annotations.items() if name == "return"}
    if not value:
        return lambda *args, **kwargs: None
    signature, given = inspect.signature(function), [name for name in annotations if name != "return"]
    function.__annotations__ = value
    checked = beartype(function)

    def check(*args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        for name in given:
            if name in arguments:
                is_bearable(arguments[name], annotations[name])  # remembers the dimensions of what fits
        return checked(*args, **kwargs)

    return check


def _holds_array(annotation: Any) -> bool:
    if inspect.isclass(annotation) and issubclass(annotation, AbstractArray):
        return True
    return any(_holds_array(part) for part in typing.get_args(annotation))
