"""Actions given by any function (g, x) ↦ ρ(g) x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final, overload

import numpy as np

from equitangents._types import ArrayLike, Element, Tree
from equitangents.actions.action import Action, check_group, is_jax
from equitangents.actions.compact import CompactAction
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.groups import Group, SymmetryGroup
from equitangents.validation import check_array


@final
class FunctionAction(Action):
    """A function (g, x) ↦ ρ(g) x; made by `from_function`."""

    def __init__(self, group: Group, function: Callable[[int, Any], Any], exact: bool, name: str):
        vars(self).update(group=group, function=function, exact=exact, name=name)

    function: Callable[[int, Any], Any]

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return check_array("x", x, min_rank=2)

    def _act(self, g: int, x: ArrayLike) -> Tree:
        return _applied(self.function, g, str(g), x)

    def _key(self) -> tuple[Any, ...]:
        return (self.function, self.exact)


@final
class CompactFunctionAction(CompactAction):
    """A function (g, x) ↦ ρ(g) x of elements of SO(2), SO(3), O(3), or S_n of any n; made by `from_function`."""

    def __init__(self, group: SymmetryGroup, function: Callable[[Any, Any], Any], exact: bool, name: str):
        vars(self).update(group=group, function=function, exact=exact, name=name)

    function: Callable[[Any, Any], Any]

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return check_array("x", x, min_rank=2)

    def _act(self, g: Element, x: ArrayLike) -> Tree:
        return _applied(self.function, g, "g", x)

    def _key(self) -> tuple[Any, ...]:
        return (self.function, self.exact)


@overload
def from_function(
    group: Group, function: Callable[[int, Any], Any], *, exact: bool = True, name: str = "custom action"
) -> FunctionAction: ...


@overload
def from_function(
    group: SymmetryGroup, function: Callable[[Any, Any], Any], *, exact: bool = True, name: str = "custom action"
) -> FunctionAction | CompactFunctionAction: ...


def from_function(
    group: SymmetryGroup, function: Callable[[Any, Any], Any], *, exact: bool = True, name: str = "custom action"
) -> FunctionAction | CompactFunctionAction:
    """The action ρ(g) x = function(g, x) on batches x (N, ...); the shape must be kept.

    g is a number of a finite group, an angle in degrees of `so2()`, a matrix (3, 3) of `so3(bandlimit)` or
    `o3(bandlimit)`, an array of `groups.permutations(n)`.

    Whether it is an action cannot be seen from outside: `.verify(x)` checks it on signals, and raises
    NotAnActionError with a witness. Say exact=False for maps that respect products only approximately.
    """
    if not callable(function):
        raise InvalidTypeError("function", type(function), "a callable (g, x) -> x", verb="is of type")
    if isinstance(group, SymmetryGroup) and not isinstance(group, Group):
        return CompactFunctionAction(group, function, bool(exact), name)
    return FunctionAction(check_group("group", group), function, bool(exact), name)


def _applied(function: Callable[[Any, Any], Any], g: Element, shown: str, x: ArrayLike) -> Tree:
    y = function(g, x)
    y = y if is_jax(y) else np.asarray(y)
    if y.shape != x.shape:
        raise ShapeError("function", y.shape, x.shape, "keep the shape of x", verb="gives shape")
    return y
