"""Actions of compact groups and of S_n for any n, at any elements; actions defined by a function (g, x) ↦ ρ(g) x.

Means over the group are quadratures: ∫ f(g) dg ≈ Σ_i w_i f(g_i) over `group.nodes`. For SO(3) and O(3) on vectors,
ρ(R) x = R x, they are exact for polynomials of degree below 2·bandlimit − 1 in the entries of R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike, Element, Elements, Tree
from equitangents.actions.action import (
    Action,
    CheckedAction,
    check_group,
    check_last_axis,
    is_infinite,
    is_jax,
    multiply,
)
from equitangents.actions.unchecked import MatrixAction
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import Group, SymmetryGroup
from equitangents.groups.rotation_group import RotationGroup
from equitangents.validation import check_array

_PAIRS = 8
_RANKS = (2, 3)


class CompactAction(CheckedAction):
    """An action of SO(2), SO(3), O(3), or S_n of any n. Subclasses define how one element acts.

    `action(g, x)` applies an element; `action.orbit(x)` applies the nodes of the group's quadrature, and
    `action.orbit(x, elements)` the listed elements. Exact sums over all elements need an `Action`.
    """

    @property
    def weights(self) -> Float[np.ndarray, " nodes"] | None:
        """Weights of the nodes of a mean over the group, summing to 1."""
        return self.group.weights

    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """Elements as an array, each in the group's own format."""
        if not len(elements):
            raise InvalidArgumentError(name, [], "at least one element")
        return np.stack([np.asarray(self.group.check_element(name, g)) for g in elements])

    def _pairs(self) -> Iterator[tuple[Element, Element]]:
        rng = np.random.default_rng(0)
        return zip(self.group.draw(_PAIRS, rng), self.group.draw(_PAIRS, rng), strict=True)


@final
class ContinuousRotations(CompactAction):
    """SO(3) or O(3) on vectors (N, 3) and point clouds (N, P, 3); made by `rotations(so3(bandlimit))`.

    `action(g, x)` applies an element of the group: a matrix (3, 3), or the number of a node of the group's quadrature;
    `action.orbit(x)` applies all nodes.
    """

    group: RotationGroup

    name = "rotations of 3-vectors"

    def __init__(self, group: RotationGroup):
        vars(self).update(group=group)

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """ρ(g) x for signals x (N, 3) or (N, P, 3); g is a matrix (3, 3) of the group, or a node's number."""
        if precision.is_traced(g) and g.shape != (3, 3):
            raise ShapeError("g", g.shape, "a matrix (3, 3)")
        return super().__call__(g, x)

    def check_elements(self, elements: Elements, name: str = "elements") -> Float[np.ndarray, "k 3 3"]:
        """The chosen elements as 3×3 matrices; raises unless there is at least one."""
        chosen = np.array(self.group.check_elements(name, elements))
        if not len(chosen):
            raise InvalidArgumentError(name, [], "at least one element")
        return chosen

    def moves(self, g: Element, shape: Sequence[int]) -> tuple[np.ndarray, bool]:
        """Return the identity permutation: no element moves a position."""
        return np.arange(int(np.prod(shape[:-1], dtype=np.int64))), False

    def in_numpy(self) -> MatrixAction:
        """This action as matrix products of NumPy arrays."""
        return MatrixAction(self.group, lambda g: g, 3, self.name)

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return check_last_axis(x, _RANKS, 3, self.name)

    def _act(self, g: Element, x: ArrayLike) -> ArrayLike:
        return multiply("...j,ij->...i", x, g)

    def _orbit(self, elements: Elements, x: ArrayLike) -> ArrayLike:
        return multiply("...j,gij->g...i", x, elements)

    def __repr__(self) -> str:
        return f"<action {self.name} of {self.group.name}, {self.group.order} nodes>"


def check_finite_group(name: str, action: object) -> None:
    """Raise InvalidTypeError, with a remedy, if the elements of `action` cannot be listed."""
    if is_infinite(action):
        raise InvalidTypeError(
            name,
            action.group,
            "an action of a finite group",
            "such as actions.rotations(groups.icosahedral())",
            verb="is of",
        )


class _OfFunction(CheckedAction):
    """Base of actions defined by a function (g, x) ↦ ρ(g) x on batches."""

    function: Callable[[Any, Any], Any]

    def __init__(self, group: SymmetryGroup, function: Callable[[Any, Any], Any], exact: bool, name: str):
        vars(self).update(group=group, function=function, exact=exact, name=name)

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return check_array("x", x, min_rank=2)

    def _act(self, g: Element, x: ArrayLike) -> Tree:
        y = self.function(g, x)
        y = y if is_jax(y) else np.asarray(y)
        if y.shape != x.shape:
            raise ShapeError("function", y.shape, x.shape, "keep the shape of x", verb="gives shape")
        return y


@final
class FunctionAction(_OfFunction, Action):
    """An action of a finite group by a function (g, x) ↦ ρ(g) x; made by `from_function`."""


@final
class CompactFunctionAction(_OfFunction, CompactAction):
    """An action of SO(2), SO(3), O(3), or S_n of any n by a function (g, x) ↦ ρ(g) x; made by `from_function`."""


def from_function(
    group: SymmetryGroup, function: Callable[[Any, Any], Any], *, exact: bool = True, name: str = "custom action"
) -> FunctionAction | CompactFunctionAction:
    """The action ρ(g) x = function(g, x) on batches x (N, ...); `function` must keep the shape of x.

    g is a number for a finite group, an angle in degrees for `so2()`, a matrix (3, 3) for `so3(bandlimit)` or
    `o3(bandlimit)`, an array for `groups.permutations(n)`.

    The function is not checked here. `.verify(x)` checks it on signals, and raises NotAnActionError with a witness.
    Set exact=False for maps that respect products only approximately.
    """
    if not callable(function):
        raise InvalidTypeError("function", type(function), "a callable (g, x) -> x", verb="is of type")
    if isinstance(group, SymmetryGroup) and not isinstance(group, Group):
        return CompactFunctionAction(group, function, bool(exact), name)
    return FunctionAction(check_group("group", group), function, bool(exact), name)
