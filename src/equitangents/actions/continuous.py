"""SO(3) and O(3) on vectors and point clouds, ρ(R) x = R x.

Means over the group are quadratures over the nodes of `groups.so3(bandlimit)`, exact for what is a polynomial of degree
below 2·bandlimit - 1 in the entries of R.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike, Element, Elements
from equitangents.actions.compact import CompactAction
from equitangents.actions.given_maps import MatrixAction
from equitangents.actions.group_action import is_infinite
from equitangents.actions.last_axis import check_last_axis, multiply
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.rotation_group import RotationGroup

_RANKS = (2, 3)


@final
class ContinuousRotations(CompactAction):
    """SO(3) or O(3) on vectors (N, 3) and point clouds (N, P, 3); made by `rotations(so3(bandlimit))`.

    `action(g, x)` applies an element of the group: a matrix (3, 3), or the number of a node of the group's quadrature;
    `action.orbit(x)` goes through the nodes.
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

    def matrices_of(self, elements: Elements, name: str = "g") -> Float[np.ndarray, "k 3 3"]:
        """Elements as matrices: given as such (k, 3, 3), and checked, or as numbers of nodes (k,)."""
        return self.group.check_elements(name, elements)

    def check_elements(self, elements: Elements, name: str = "elements") -> Float[np.ndarray, "k 3 3"]:
        """The chosen elements as 3×3 matrices; raises unless there is at least one."""
        chosen = np.array(self.matrices_of(elements, name))
        if not len(chosen):
            raise InvalidArgumentError(name, [], "at least one element")
        return chosen

    def moves(self, g: Element, shape: Sequence[int]) -> tuple[np.ndarray, bool]:
        """Return the identity permutation: no element moves a position."""
        return np.arange(int(np.prod(shape[:-1], dtype=np.int64))), False

    def in_numpy(self) -> MatrixAction:
        """Products of arrays and matrices."""
        return MatrixAction(self.group, lambda g: g, 3, self.name)

    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        return check_last_axis(x, _RANKS, 3, self.name)

    def _act(self, g: Element, x: ArrayLike) -> ArrayLike:
        return multiply("...j,ij->...i", x, g)

    def _orbit(self, elements: Elements, x: ArrayLike) -> ArrayLike:
        return multiply("...j,gij->g...i", x, elements)

    def _key(self) -> tuple[Any, ...]:
        return ()

    def __repr__(self) -> str:
        return f"<action {self.name} of {self.group.name}, {self.group.order} nodes>"


def check_finite_group(name: str, action: object, what: str) -> None:
    """Raise InvalidTypeError, with a remedy, if the elements of `action` cannot be listed."""
    if is_infinite(action):
        raise InvalidTypeError(
            name,
            action.group,
            "an action of a finite group",
            "such as actions.rotations(groups.icosahedral())",
            verb="is of",
        )
