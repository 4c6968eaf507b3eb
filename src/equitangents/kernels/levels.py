"""Levels: the positions before and after each operation, and the pairs of them with one offset.

A pair offset q (a relative position, or a relative group element) joins each position p of the first input to one p' of
the second: on grids p' = p + m·q, with m the product of the strides still to come (wrapped on a torus, or nowhere
outside the grid); on a group p' = q·g. No layer of the program mixes offsets. Source: arXiv 2406.06504.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal, NoReturn

import numpy as np

from equitangents.kernels.operations import Box, FrozenArray, Operation, Pool, WindowPool


@dataclass(frozen=True)
class GridLevel:
    """A grid of positions; `step` scales the label of a pair offset to this grid."""

    on_grid: ClassVar[Literal[True]] = True
    tables: ClassVar[dict[str, np.ndarray]] = {}

    shape: tuple[int, ...]
    wrap: bool
    step: tuple[int, ...] = ()

    @property
    def positions(self) -> int:
        """The number of positions."""
        return math.prod(self.shape)

    @property
    def grid(self) -> GridLevel:
        """This level; levels of a group have no grid."""
        return self

    def after(self, op: Operation) -> GridLevel:
        """The level after an operation; raises MixedOffsetsError if the operation mixes pair offsets."""
        return GridLevel(*op.grid_after(self.shape, self.wrap))

    def joins(self, other: Level) -> bool:
        """Whether branches that end on these two levels may be added."""
        return self.shape == other.shape

    def common(self, other: GridLevel) -> GridLevel:
        """The level of two joined branches: a torus only if both are, since the field is kept where all have it."""
        return replace(self, wrap=self.wrap and other.wrap)

    @property
    def offset_shape(self) -> tuple[int, ...]:
        """The number of pair offsets along each axis."""
        return self.shape if self.wrap else tuple(2 * n - 1 for n in self.shape)

    @property
    def offset_count(self) -> int:
        """The number of pair offsets."""
        return int(np.prod(self.offset_shape, dtype=np.int64))

    def offsets(self, numbers: np.ndarray) -> np.ndarray:
        """The offsets with these numbers, int32 (F, d)."""
        offsets = np.stack(np.unravel_index(numbers, self.offset_shape), axis=-1).astype(np.int32)
        return offsets if self.wrap else offsets - np.array(self.shape, np.int32) + 1

    def offset_numbers(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The number of the offset from each first position to the second."""
        ones, others = np.unravel_index(first, self.shape), np.unravel_index(second, self.shape)
        gaps = [(b - a) % n if self.wrap else b - a + n - 1 for n, a, b in zip(self.shape, ones, others, strict=True)]
        return np.ravel_multi_index(tuple(gaps), self.offset_shape)

    def held(self, offsets: np.ndarray) -> int:
        """The number of positions with a partner, summed over offsets."""
        if self.wrap:
            return len(offsets) * self.positions
        steps = np.abs(offsets.astype(np.int64) * np.array(self.step, np.int64))
        return int(np.maximum(np.array(self.shape) - steps, 0).prod(axis=1).sum())

    def offsets_within(self, labels: np.ndarray) -> np.ndarray:
        """The offsets between positions of one block, int32 (F, d); label −1 is no block."""
        blocks = [np.flatnonzero(labels == block) for block in range(labels.max() + 1)]
        return np.array(_needed_offsets(self, blocks), np.int32)

    def finer(self, pool: Pool | WindowPool, deltas: np.ndarray) -> np.ndarray:
        """The offsets before the pool between positions of two windows whose indices differ by `deltas` (K, d)."""
        box = pool.box
        assert box is not None
        along = [np.unique(column) for column in deltas.T]
        if len(deltas) == np.prod([len(column) for column in along], dtype=np.int64):  # all combinations: axis by axis
            each = [_finer(column[:, None], box, self, slice(a, a + 1))[:, 0] for a, column in enumerate(along)]
            offsets = np.stack(np.meshgrid(*each, indexing="ij"), axis=-1).reshape(-1, len(each))
        else:
            offsets = _finer(deltas, box, self, slice(None))
        return offsets.astype(np.int32)


@dataclass(frozen=True)
class TableLevel:
    """Positions moved by a group; row q of the table holds the partners of all positions under q."""

    on_grid: ClassVar[Literal[False]] = False
    shape: ClassVar[tuple[int, ...]] = ()

    table: FrozenArray

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """The group's position tables, by key."""
        return {self.table.key: self.table.array}

    @property
    def positions(self) -> int:
        """The number of positions."""
        return int(self.table.array.shape[1])

    @property
    def grid(self) -> NoReturn:
        """None: a group moves the positions."""
        raise TypeError("a level whose positions a group moves is no grid")

    @property
    def offset_count(self) -> int:
        """The order of the group: one pair offset per element."""
        return len(self.table.array)

    def offsets(self, numbers: np.ndarray) -> np.ndarray:
        """The elements with these numbers, int32 (F,)."""
        return numbers.astype(np.int32)

    def offset_numbers(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The element that moves each first position to the second."""
        return np.asarray(_elements(self.table)[first, second])

    def held(self, offsets: np.ndarray) -> int:
        """The number of positions with a partner, summed over offsets; every position has one."""
        return len(offsets) * self.positions

    def offsets_within(self, labels: np.ndarray) -> np.ndarray:
        """The elements that join two positions of one block, int32 (F,); label −1 is no block."""
        moved = self.table.array
        if labels.max() == 0 and (labels == 0).all():
            return np.arange(len(moved), dtype=np.int32)
        joins = [((labels[row] == labels) & (labels >= 0)).any() for row in moved]
        return np.flatnonzero(joins).astype(np.int32)

    def finer(self, pool: Pool | WindowPool, deltas: np.ndarray) -> np.ndarray:
        """The elements that join positions of two blocks whose indices differ by `deltas` (K, 1)."""
        assert isinstance(pool, Pool)
        labels = pool.labels.array
        wanted = np.zeros(2 * pool.blocks - 1, bool)
        wanted[deltas[:, 0] + pool.blocks - 1] = True
        seconds = labels[self.table.array]
        present = (seconds >= 0) & (labels >= 0)
        joined = wanted[np.maximum(seconds, 0) - np.maximum(labels, 0) + pool.blocks - 1] & present
        return np.flatnonzero(joined.any(axis=1)).astype(np.int32)

    def joins(self, other: Level) -> bool:
        """Whether branches that end on these two levels may be added."""
        return self == other

    def common(self, other: TableLevel) -> TableLevel:
        """This level."""
        return self

    def at_one_position(self) -> TableLevel:
        """The level of constant fields, with one position."""
        return TableLevel(FrozenArray(np.zeros((len(self.table.array), 1), np.int32)))


Level = GridLevel | TableLevel


def _needed_offsets(level: GridLevel, blocks: list[np.ndarray]) -> list[tuple[int, ...]]:
    """The offsets between any two positions of one of the `blocks`."""
    if not level.shape or all(len(block) == 1 for block in blocks):
        return [(0,) * len(level.shape)]
    along = [np.unique(c) for c in np.unravel_index(blocks[0], level.shape)]
    if len(blocks) == 1 and len(blocks[0]) == math.prod(map(len, along)):  # all combinations of some coordinates
        between = [(c[None] - c[:, None]).ravel() for c in along]
        each = (b % n if level.wrap else b for b, n in zip(between, level.shape, strict=True))
        return list(itertools.product(*(np.unique(b).tolist() for b in each)))
    found: set[tuple[int, ...]] = set()
    for block in blocks:
        coordinates = np.stack(np.unravel_index(block, level.shape), axis=1)
        offsets = (coordinates[None] - coordinates[:, None]).reshape(-1, len(level.shape))
        offsets = offsets % np.array(level.shape) if level.wrap else offsets
        found |= set(map(tuple, np.unique(offsets, axis=0).tolist()))
    return sorted(found)


def _finer(deltas: np.ndarray, box: Box, level: GridLevel, axes: slice) -> np.ndarray:
    """The finer offsets along some axes, in any order."""
    shape, stride = np.array(level.shape, np.int64)[axes], np.array(box.stride, np.int64)[axes]
    inside = np.array(list(itertools.product(*(range(1 - w, w) for w in box.window[axes]))), np.int64)
    offsets = (deltas[:, None] * stride + inside).reshape(-1, len(shape))
    offsets = offsets if box.wrap else offsets[(np.abs(offsets) < shape).all(axis=1)]
    return np.unique(offsets % shape if level.wrap else offsets, axis=0)


@lru_cache(maxsize=8)
def _elements(table: FrozenArray) -> np.ndarray:
    """The element of a group that moves a position to another, (P, P'); row q of the table holds the images under q."""
    rows, columns = table.array.shape
    found = np.empty((columns, columns), np.int64)
    found[np.arange(columns), table.array] = np.arange(rows)[:, None]
    return found
