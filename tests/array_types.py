"""Checks arrays against the shapes and types that functions are annotated with, whenever a function returns.

`beartype` does the checking, of annotations that hold a jaxtyping array; dimensions of one name are equal throughout a
call. Arguments are checked when the function has returned, not before: what does not fit its annotation, a function
must have refused with an error of its own.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

from beartype import beartype
from jaxtyping import AbstractArray

NO_CHECK: Callable[..., None] = lambda *args, **kwargs: None


def check_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker for jaxtyping's import hook, which hands over stand-ins for what it checks.

    A stand-in for all of a call has one more parameter than the function, the value that it returned; the stand-in for
    the arguments alone does not have it.
    """
    annotations = {k: v for k, v in function.__annotations__.items() if _holds_array(v)}
    parameters = inspect.signature(function).parameters.values()
    has_value = any(p.kind is p.KEYWORD_ONLY and re.fullmatch(r"ret\d+", p.name) for p in parameters)
    if not annotations or not has_value:
        return NO_CHECK
    function.__annotations__ = annotations
    return beartype(function)


def _holds_array(annotation: Any) -> bool:
    if inspect.isclass(annotation) and issubclass(annotation, AbstractArray):
        return True
    return any(_holds_array(part) for part in typing.get_args(annotation))
