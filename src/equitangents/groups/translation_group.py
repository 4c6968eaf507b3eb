"""Translations of a torus of any dimension: the product of cyclic groups, element t takes x to x + t mod shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Int

from equitangents._aliases import Element
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import Group, check_table_order, read_only
from equitangents.validation import check_whole


@final
class TranslationGroup(Group):
    """Translations of a grid of `shape` that is closed to a torus; element number t is the row-major index of t."""

    shape: tuple[int, ...]

    def __init__(self, shape: tuple[int, ...]):
        name = "translations(" + "x".join(map(str, shape)) + ")"
        vars(self).update(name=name, order=math.prod(shape), identity=0, shape=shape)

    @property
    def torus(self) -> tuple[int, ...]:
        """Side lengths of the torus."""
        return self.shape

    def _compose(self, a: int | np.integer | np.ndarray, b: int | np.integer | np.ndarray) -> np.ndarray:
        ta, tb = np.unravel_index(a, self.shape), np.unravel_index(b, self.shape)
        total = tuple((i + j) % n for i, j, n in zip(ta, tb, self.shape, strict=True))
        return np.asarray(np.ravel_multi_index(total, self.shape), np.int32)

    @cached_property
    def inverses(self) -> Int[np.ndarray, " order"]:
        """The inverse of every element, read-only."""
        t = np.unravel_index(np.arange(self.order), self.shape)
        minus = tuple(-i % n for i, n in zip(t, self.shape, strict=True))
        return read_only(np.asarray(np.ravel_multi_index(minus, self.shape), np.int32))

    @cached_property
    def table(self) -> Int[np.ndarray, "order order"]:
        """The multiplication table, made on first use."""
        check_table_order(self.order, self.name)
        everything = np.arange(self.order)
        return read_only(self._compose(everything[:, None], everything))

    def grid_rows(self, g: Element) -> Int[np.ndarray, "*g positions"]:
        """grid_table[g] without making the whole table."""
        return self._compose(np.asarray(g)[..., None], np.arange(self.order))

    @property
    def grid_table(self) -> Int[np.ndarray, "order positions"]:
        """grid_table[g, x]: the row-major index of the grid point g·x = x + t. Equal to `table`."""
        return self.table

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
    """The translations of a torus, `shape` a tuple of its side lengths; labelled by tuples.

    >>> translations((2, 3)).element(5)
    (1, 2)
    """
    return TranslationGroup(check_shape(shape))


def check_shape(shape: object) -> tuple[int, ...]:
    """`shape` as a non-empty tuple of positive ints."""
    if isinstance(shape, str) or not isinstance(shape, Sequence | np.ndarray):
        raise InvalidTypeError("shape", shape, "a tuple of side lengths such as (8, 8)")
    if len(shape) == 0:
        raise ShapeError("shape is empty; expected at least one side length")
    return tuple(check_whole(f"shape[{i}]", n, 1) for i, n in enumerate(shape))
