"""Checks arrays against the shapes and types that functions are annotated with, whenever a function returns.

`beartype` does the checking, of annotations that hold a jaxtyping array; dimensions of one name are equal throughout a
call. What any function returns must fit its annotation. Functions that users do not call, because no package names them
in its `__all__`, must also be given what they are annotated with. The arguments of the others, and of methods, may be
lists or whole numbers too, which they read as arrays themselves or refuse with an error of their own: these only fix
dimensions, where they fit.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

import jaxtyping
from beartype import beartype
from beartype.door import is_bearable
from jaxtyping import AbstractArray

PACKAGES = ("equitangents", "equitangents_studies")


def annotated_modules() -> list[str]:
    """Modules that annotate arrays, the only ones worth a hook: it makes every call of their functions longer."""
    source = Path(importlib.util.find_spec("equitangents").origin).parents[1]
    files = [path for package in PACKAGES for path in sorted((source / package).rglob("*.py"))]
    found = [path for path in files if "jaxtyping" in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__") for path in found]


def spare_others() -> None:
    """Have jaxtyping's import hook leave functions as they are that are annotated with no array.

    It would bind the arguments of every call of theirs, to check nothing. What is no plain function it has as before.
    """
    hook = jaxtyping.jaxtyped

    def jaxtyped(fn: Any = None, *, typechecker: Any) -> Any:
        if fn is None:
            return lambda fn: jaxtyped(fn, typechecker=typechecker)
        plain = isinstance(fn, FunctionType) and not any(map(holds_array, annotations_of(fn)))
        return fn if plain else hook(fn, typechecker=typechecker)

    jaxtyping.jaxtyped = jaxtyped


def annotations_of(function: FunctionType) -> Iterator[Any]:
    """A function's annotations, but for those that name what is not there yet, which jaxtyping cannot read either."""
    for annotation in function.__annotations__.values():
        try:
            yield eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation
        except Exception:  # a name that is imported for type checkers alone, or defined below
            continue


def check_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker for jaxtyping's import hook, which hands over stand-ins for what it checks.

    A stand-in for a whole call has one more parameter than the function: the value that it returned. The stand-in for
    the arguments alone does not have it, and passes.
    """
    annotations = {name: hint for name, hint in function.__annotations__.items() if holds_array(hint)}
    parameters = inspect.signature(function).parameters.values()
    has_value = any(p.kind is p.KEYWORD_ONLY and re.fullmatch(r"ret\d+", p.name) for p in parameters)
    if not annotations or not has_value:
        return lambda *args, **kwargs: None
    strict = _checked(function, annotations)
    value = {name: hint for name, hint in annotations.items() if name == "return"}
    lenient = _checked(function, value) if value else lambda *args, **kwargs: None
    signature, given = inspect.signature(function), [name for name in annotations if name != "return"]

    @lru_cache(maxsize=1)
    def is_public() -> bool:  # asked when it is first called: then its package is complete
        return _is_public(function)

    def check(*args: Any, **kwargs: Any) -> Any:
        if not is_public():
            return strict(*args, **kwargs)
        arguments = signature.bind(*args, **kwargs).arguments
        for name in given:
            if name in arguments:
                is_bearable(arguments[name], annotations[name])  # remembers the dimensions of what fits
        return lenient(*args, **kwargs)

    return check


def _checked(function: Callable[..., Any], annotations: dict[str, Any]) -> Callable[..., Any]:
    """`function` checked against these annotations alone."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__, copy.__qualname__, copy.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    copy.__annotations__ = annotations
    return beartype(copy)


def _is_public(function: Callable[..., Any]) -> bool:
    """Whether a package names the function in its `__all__`, or it is a method: users are given objects of any kind."""
    outer, *inner = function.__qualname__.split(".")
    if any(re.match("_(?!_)", name) for name in (outer, *inner)):
        return False
    packages = function.__module__.split(".")
    holders = (sys.modules.get(".".join(packages[:end])) for end in range(1, len(packages) + 1))
    return bool(inner) or any(outer in getattr(holder, "__all__", ()) for holder in holders)


def holds_array(annotation: Any) -> bool:
    """Whether an annotation is an array of jaxtyping, or holds one."""
    if inspect.isclass(annotation) and issubclass(annotation, AbstractArray):
        return True
    return any(holds_array(part) for part in typing.get_args(annotation))
