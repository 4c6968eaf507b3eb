"""Permutations of a list of positions, and motions of a grid on a torus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
from jaxtyping import Int

from equitangents._types import Element
from equitangents.actions.action import PositionAction, check_group
from equitangents.errors import InvalidTypeError, NotAnActionError, ShapeError
from equitangents.groups import Group
from equitangents.groups import translations as translation_group
from equitangents.groups.families import check_permutations
from equitangents.groups.group import in_whole
from equitangents.groups.wallpaper_group import GridGroup


@final
class PositionPermutations(PositionAction):
    """A group that permutes the positions of signals (N, P, C); made by `permutations`."""

    positions_rank = 1
    table: Int[np.ndarray, "order positions"]

    def __init__(self, group: Group, table: np.ndarray):
        vars(self).update(group=group, name=f"permutations of {table.shape[1]} positions", table=table)

    def _key(self) -> tuple[Any, ...]:
        # one table is that of C2 and of D1, at which representations of the plane differ
        whole, elements = in_whole(self.group)
        return (*super()._key(), whole, whole.name, np.arange(whole.order)[elements].tobytes())

    def _position_rows(self, g: Element, positions: tuple[int, ...]) -> np.ndarray:
        return self.table[g]

    def _check_positions(self, name: str, positions: tuple[int, ...]) -> None:
        if positions != self.table.shape[1:]:
            raise ShapeError(name, positions, self.table.shape[1:], verb="has positions of shape")


@final
class GridMotions(PositionAction):
    """A wallpaper or translation group that moves the grid points of a torus; made by `grid` or `translations`."""

    group: GridGroup

    def __init__(self, group: GridGroup):
        name = f"motions of a grid by {group.name}"
        vars(self).update(group=group, name=name, positions_rank=len(group.shape))

    def _position_rows(self, g: Element, positions: tuple[int, ...]) -> np.ndarray:
        g = np.asarray(g)
        complete = g.ndim == 1 and len(g) == self.group.order
        return self.group.grid_table[g] if complete else self.group.grid_rows(g)

    def _check_positions(self, name: str, positions: tuple[int, ...]) -> None:
        if positions != self.group.shape:
            raise ShapeError(name, positions, self.group.shape, verb="has positions of shape")


def permutations(group: Group, table: npt.ArrayLike) -> PositionPermutations:
    """The action on positions, table[g, x] = g·x; on signals (N, P, C), (ρ(g) f)(x) = f(g⁻¹·x).

    Raises NotAnActionError with the witness unless table[g·h] is table[g] after table[h].

    >>> from equitangents.groups import cyclic
    >>> shift = permutations(cyclic(3), [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    >>> shift(1, np.array([[[5.0], [6.0], [7.0]]])).ravel()
    array([7., 5., 6.])
    """
    return PositionPermutations(check_group("group", group), check_permutation_table("table", group, table))


def grid(group: GridGroup) -> GridMotions:
    """The action of a wallpaper group (or of translations) on the grid points of its torus, signals (N, H, W, C).

    It rotates about the grid point (0, 0); `image_rotations` rotates about the centre.
    """
    if not isinstance(group, GridGroup):
        raise InvalidTypeError(
            "group", type(group), "one from groups.wallpaper or groups.translations", verb="is of type"
        )
    return GridMotions(group)


def translations(shape: Sequence[int]) -> GridMotions:
    """Circular shifts of signals (N, *shape, C) by every vector of the torus `shape`."""
    return GridMotions(translation_group(shape))


def check_permutation_table(name: str, group: Group, table: object) -> Int[np.ndarray, "order points"]:
    """`table` (|G|, P) as a read-only int32 array if it is an action on points, or an error that names `name`."""
    p = check_permutations(name, table).astype(np.int32)
    if len(p) != group.order:
        raise ShapeError(name, len(p), group.order, "give one row for each element", verb="has length")
    points = np.arange(p.shape[1])
    if not np.array_equal(p[group.identity], points):
        raise NotAnActionError(name, p[group.identity].tolist(), "the identity, which moves nothing", at=group.identity)
    for g in group.generators:
        unequal = np.argwhere(p[g][p] != p[group.compose(g, np.arange(group.order))])
        if len(unequal):
            h, x = map(int, unequal[0])
            raise NotAnActionError(
                name, int(p[g][p[h, x]]), int(p[group.compose(g, h), x]), verb="takes a position to", at=(g, h, x)
            )
    p.flags.writeable = False
    return p
