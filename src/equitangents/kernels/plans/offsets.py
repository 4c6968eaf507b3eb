"""Which fine fibres a pool between layers needs for given coarse ones."""

from __future__ import annotations

import itertools

import numpy as np

from equitangents.kernels.plans.levels import GridLevel, Level, TableLevel
from equitangents.kernels.plans.steps import Step
from equitangents.kernels.program import Box, Pool, Table, WindowPool


def begins_on_torus(steps: tuple[Step, ...]) -> bool:
    """Whether a stage's first window reads on around the torus; a stage without windows may as well."""
    first = next((op for op in steps if isinstance(op, Box | Table)), None)
    return first is None or (isinstance(first, Box) and first.wrap)


def differences(steps: tuple[Step, ...], start: GridLevel, fibres: np.ndarray) -> np.ndarray:
    """(K, d): second less first position of the pairs that a stage's fibres begin with."""
    shape = np.array(start.shape, np.int64)
    offsets = np.unique(fibres.astype(np.int64) * np.array(start.step, np.int64), axis=0)
    if begins_on_torus(steps):
        offsets = np.unique(offsets % shape, axis=0)
        turns = np.array(list(itertools.product((0, 1), repeat=len(shape))), np.int64)
        offsets = (offsets[:, None] - turns * shape).reshape(-1, len(shape))
    return offsets[(np.abs(offsets) < shape).all(axis=1)]


def finer(pool: Pool | WindowPool, level: Level, apart: np.ndarray) -> np.ndarray:
    """The fibres, on the level before the pool, whose pairs of positions fall into windows that are `apart`."""
    if isinstance(level, TableLevel):
        assert isinstance(pool, Pool)
        return _joining(pool, level, apart)
    box = pool.box
    assert box is not None
    assert isinstance(level, GridLevel)
    along = [np.unique(column) for column in apart.T]
    if len(apart) == np.prod([len(column) for column in along], dtype=np.int64):  # all combinations: axis by axis
        each = [_finer(column[:, None], box, level, slice(a, a + 1))[:, 0] for a, column in enumerate(along)]
        offsets = np.stack(np.meshgrid(*each, indexing="ij"), axis=-1).reshape(-1, len(each))
    else:
        offsets = _finer(apart, box, level, slice(None))
    return offsets.astype(np.int32)


_BAND = 8  # fibres of the first stage along the last axis but one


def in_bands(fibres: np.ndarray, strides: int) -> np.ndarray:
    """Fibres in bands of the last axis but one, from one end of the last axis to the other.

    A pool adds few neighbours to one coarse fibre. The bands of a stage that follows pools of `strides` together are
    those of the first: coarse fibres are complete, and still in the cache, when it is their turn.
    """
    if fibres.ndim < 2 or fibres.shape[1] < 2:
        return fibres
    *before, row, column = fibres.T
    return fibres[np.lexsort([row, column, row // max(1, _BAND // strides), *reversed(before)])]


def _finer(apart: np.ndarray, box: Box, level: GridLevel, axes: slice) -> np.ndarray:
    """The finer fibres' offsets along some axes, in any order."""
    shape, stride = np.array(level.shape, np.int64)[axes], np.array(box.stride, np.int64)[axes]
    inside = np.array(list(itertools.product(*(range(1 - w, w) for w in box.window[axes]))), np.int64)
    offsets = (apart[:, None] * stride + inside).reshape(-1, len(shape))
    offsets = offsets if box.wrap else offsets[(np.abs(offsets) < shape).all(axis=1)]
    return np.unique(offsets % shape if level.wrap else offsets, axis=0)


def _joining(pool: Pool, level: TableLevel, apart: np.ndarray) -> np.ndarray:
    """The elements of a group that join positions of two blocks whose numbers are `apart`."""
    labels = pool.labels.array
    wanted = np.zeros(2 * pool.blocks - 1, bool)
    wanted[apart[:, 0] + pool.blocks - 1] = True
    seconds = labels[level.table.array]
    joined = wanted[np.maximum(seconds, 0) - np.maximum(labels, 0) + pool.blocks - 1] & (seconds >= 0) & (labels >= 0)
    return np.flatnonzero(joined.any(axis=1)).astype(np.int32)
