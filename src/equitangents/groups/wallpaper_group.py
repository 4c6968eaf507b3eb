"""Motions of the grid of a torus: translations in any dimension, and wallpaper groups.

An element of a wallpaper group maps the grid point x to P x + t mod shape with P = R^rotation F^reflection,
R(i, j) = (−j, i), F(i, j) = (i, −j): R is a quarter turn (p4) or half turn (p2) about the grid point (0, 0),
counter-clockwise if rows are drawn downwards, as np.rot90. Products: (P, t)(P′, t′) = (P P′, P t′ + t).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Int

from equitangents._aliases import Element
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import Group, check_table_order, read_only
from equitangents.validation import check_whole


class GridGroup(Group):
    """Motions x ↦ P x + t mod shape; element number point_index · positions + row-major index of t."""

    shape: tuple[int, ...]
    point_order: int = 1
    point_matrices: Int[np.ndarray, "point_order d d"]

    @property
    def torus(self) -> tuple[int, ...]:
        """Side lengths of the torus."""
        return self.shape

    @cached_property
    def _point_table(self) -> np.ndarray:
        """The multiplication table of the matrices P."""
        P = self.point_matrices
        products = P[:, None] @ P
        return (products[:, :, None] == P).all(axis=(3, 4)).argmax(axis=2)

    def _split(self, g: int | np.integer | np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Point index and the components of the translation."""
        point, t = np.divmod(np.asarray(g, np.int64), math.prod(self.shape))
        return point, np.unravel_index(t, self.shape)

    def _moved(self, point: np.ndarray, x: tuple[np.ndarray, ...], t: tuple[Any, ...]) -> np.ndarray:
        """The row-major index of P x + t."""
        if self.point_order > 1:
            P = self.point_matrices[point]
            x = tuple(sum(P[..., i, j] * x[j] for j in range(len(x))) for i in range(len(x)))
        return np.ravel_multi_index(tuple((i + j) % n for i, j, n in zip(x, t, self.shape, strict=True)), self.shape)

    def _number(self, point: np.ndarray, translation: np.ndarray) -> np.ndarray:
        return np.asarray(point * math.prod(self.shape) + translation, np.int32)

    def _compose(self, a: int | np.integer | np.ndarray, b: int | np.integer | np.ndarray) -> np.ndarray:
        (p, t), (q, u) = self._split(a), self._split(b)
        point = self._point_table[p, q] if self.point_order > 1 else p
        return self._number(point, self._moved(p, u, t))

    @cached_property
    def inverses(self) -> Int[np.ndarray, " order"]:
        """The inverse of every element, read-only."""
        p, t = self._split(np.arange(self.order))
        back = (self._point_table == 0).argmax(axis=1)[p] if self.point_order > 1 else p
        return read_only(self._number(back, self._moved(back, tuple(-i for i in t), (0,) * len(t))))

    @cached_property
    def table(self) -> Int[np.ndarray, "order order"]:
        """The multiplication table, made on first use: 4 · order² bytes."""
        check_table_order(self.order, self.name)
        return self._by_rows(self.order, lambda g: self._compose(g[:, None], np.arange(self.order)))

    def grid_rows(self, g: Element) -> Int[np.ndarray, "*g positions"]:
        """grid_table[g] without making the whole table."""
        p, t = self._split(np.asarray(g)[..., None])
        x = np.unravel_index(np.arange(math.prod(self.shape)), self.shape)
        return np.asarray(self._moved(p, x, t), np.int32)

    @cached_property
    def grid_table(self) -> Int[np.ndarray, "order positions"]:
        """grid_table[g, x]: the row-major index of the grid point g·x."""
        return self._by_rows(math.prod(self.shape), self.grid_rows)

    def _by_rows(self, columns: int, rows: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """A table (order, columns), computed in blocks of rows."""
        table = np.empty((self.order, columns), np.int32)
        step = max(1, 2**21 // columns)
        for start in range(0, self.order, step):
            table[start : start + step] = rows(np.arange(start, min(start + step, self.order)))
        return read_only(table)


@final
class TranslationGroup(GridGroup):
    """Translations of a periodic grid of `shape` (a torus); element number t is a translation's row-major index."""

    def __init__(self, shape: tuple[int, ...]):
        name = "translations(" + "x".join(map(str, shape)) + ")"
        vars(self).update(name=name, order=math.prod(shape), identity=0, shape=shape)

    def _structure(self) -> tuple[Any, ...]:
        return ("translations", self.shape)

    def _element_label(self, i: int) -> tuple[int, ...]:
        return tuple(int(t) for t in np.unravel_index(i, self.shape))

    def _label_index(self, label: Element) -> int:
        t = np.atleast_1d(np.asarray(label))
        if t.dtype.kind not in "iu" or t.shape != (len(self.shape),):
            raise InvalidArgumentError("label", label, "a translation, an integer for each dimension")
        return int(np.ravel_multi_index(tuple(int(i) % n for i, n in zip(t, self.shape, strict=True)), self.shape))


def translations(shape: Sequence[int]) -> TranslationGroup:
    """The translations of a torus with side lengths `shape`; labelled by tuples.

    >>> translations((2, 3)).element(5)
    (1, 2)
    """
    return TranslationGroup(check_shape(shape))


def check_shape(shape: object) -> tuple[int, ...]:
    """`shape` as a non-empty tuple of positive ints."""
    if isinstance(shape, str) or not isinstance(shape, Sequence | np.ndarray):
        raise InvalidTypeError("shape", shape, "a tuple of side lengths such as (8, 8)")
    if len(shape) == 0:
        raise ShapeError("shape", shape, "at least one side length", verb="is")
    return tuple(check_whole(f"shape[{i}]", n, 1) for i, n in enumerate(shape))


_NAMES = {(1, False): "p1", (2, False): "p2", (4, False): "p4", (1, True): "pm", (2, True): "p2mm", (4, True): "p4m"}


@final
class WallpaperGroup(GridGroup):
    """A point group of order `point_order` combined with all translations of the torus `shape` = (H, W).

    Element number: point_index · (H·W) + row-major index of the translation, with point_index = reflection · rotations
    + rotation. The multiplication table is computed on first use; `compose`, `inverse` and `grid_rows` do not need it.
    """

    rotations: int
    reflections: bool
    shape: tuple[int, int]

    def __init__(self, rotations: int, reflections: bool, shape: tuple[int, int]):
        quarter, flip = np.array([[0, -1], [1, 0]]), np.array([[1, 0], [0, -1]])
        turn = np.linalg.matrix_power(quarter, 4 // rotations)
        point = [
            np.linalg.matrix_power(turn, r) @ np.linalg.matrix_power(flip, f)
            for f in range(1 + reflections)
            for r in range(rotations)
        ]
        vars(self).update(
            name=f"{_NAMES[rotations, reflections]}({shape[0]}x{shape[1]})",
            order=len(point) * shape[0] * shape[1],
            identity=0,
            rotations=rotations,
            reflections=reflections,
            shape=shape,
            point_order=len(point),
            point_matrices=read_only(np.array(point)),
        )

    @property
    def has_quarter_rotations(self) -> bool:
        """Whether the point group contains quarter turns."""
        return self.rotations == 4

    def _structure(self) -> tuple[Any, ...]:
        return ("wallpaper", self.rotations, self.reflections, self.shape)

    def _element_label(self, i: int) -> tuple[int, int, tuple[int, int]]:
        p, (ti, tj) = self._split(i)
        return int(p % self.rotations), int(p // self.rotations), (int(ti), int(tj))

    def _label_index(self, label: Element) -> int:
        try:
            rotation, reflection, (i, j) = label
            rotation, reflection, i, j = (int(v) for v in (rotation, reflection, i, j))
        except (TypeError, ValueError):
            raise InvalidArgumentError("label", label, "(rotation, reflection, (i, j)), all integers") from None
        if not (0 <= rotation < self.rotations and 0 <= reflection <= self.reflections):
            raise InvalidArgumentError("label", label, (range(self.rotations), range(int(self.reflections) + 1), ...))
        H, W = self.shape
        return (reflection * self.rotations + rotation) * H * W + i % H * W + j % W


def wallpaper(rotations: int, reflections: bool, shape: Sequence[int]) -> WallpaperGroup:
    """The group p1, p2 or p4 (1, 2 or 4 rotations), or with reflections pm, p2mm or p4m, on a torus `shape` = (H, W).

    Any side lengths, odd ones too; quarter turns need H = W. Elements are labelled (rotation, reflection, (i, j)).

    >>> p4 = wallpaper(rotations=4, reflections=False, shape=(3, 3))
    >>> p4.order, p4.element(10), p4.index(1, 0, (0, 1))
    (36, (1, 0, (0, 1)), 10)
    """
    if rotations not in (1, 2, 4):
        raise InvalidArgumentError("rotations", rotations, "1, 2 or 4")
    if not isinstance(reflections, bool | np.bool_):
        raise InvalidArgumentError("reflections", reflections, "True or False")
    checked = check_shape(shape)
    if len(checked) != 2:
        raise ShapeError("shape", checked, "two side lengths (H, W)", verb="is")
    H, W = checked
    if rotations == 4 and H != W:
        raise ShapeError("shape", checked, remedy="quarter turns (rotations=4) need a square torus, H = W", verb="is")
    return WallpaperGroup(int(rotations), bool(reflections), (H, W))
