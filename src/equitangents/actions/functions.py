"""Actions given by any function: what no other constructor offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from equitangents._types import ArrayLike
from equitangents.actions.action import Action, check_group, is_jax
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.groups import Group
from equitangents.validation import check_array


@final
class FunctionAction(Action):
    """A function (g, x) ↦ ρ(g) x; made by `from_function`."""

    def __init__(self, group: Group, function: Callable[[int, Any], Any], exact: bool, name: str):
        vars(self).update(group=group, function=function, exact=exact, name=name)

    function: Callable[[int, Any], Any]

    def _check_signals(self, x: Any) -> ArrayLike:
        return check_array("x", x, min_rank=2)

    def _act(self, g: int, x: Any) -> Any:
        y = self.function(g, x)
        y = y if is_jax(y) else np.asarray(y)
        if y.shape != x.shape:
            raise ShapeError(f"function({g}, x) has shape {y.shape}; expected that of x, {x.shape}")
        return y

    def _key(self) -> tuple[Any, ...]:
        return (self.function, self.exact)


def from_function(
    group: Group, function: Callable[[int, Any], Any], *, exact: bool = True, name: str = "custom action"
) -> FunctionAction:
    """The action ρ(g) x = function(g, x) on batches x (N, ...); the shape must be kept.

    Whether it is an action cannot be seen from outside: `.verify(x)` checks it on signals, and raises
    NotAnActionError with a witness. Say exact=False for maps that respect products only approximately.
    """
    if not callable(function):
        raise InvalidTypeError(f"function is of type {type(function).__name__}; expected a callable (g, x) -> x")
    return FunctionAction(check_group("group", group), function, bool(exact), name)
