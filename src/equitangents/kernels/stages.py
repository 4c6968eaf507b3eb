"""Networks that pool and go on, run along fibres: a stage for the layers up to each pool, and one for those after the last.

After a pool over windows of side w, the fibre Q of the coarse field is a sum over the fine fibres wQ + r with |r| < w
along each axis, each over the positions where both ends fall into the windows. Every fine fibre is run once and added
into the coarse fibres that it falls into, so that what is held is one coarse field over pairs of positions. The next
stage begins with it as the first one does with the signals.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from equitangents.kernels.levels import GridLevel, Level, Levels, NoFibresError, TableLevel, grid_levels, lifted_levels
from equitangents.kernels.plan import compose_readout, needed_fibres, split
from equitangents.kernels.program import Box, Branch, FrozenArray, Op, Pool, Program, Table


@dataclass(frozen=True)
class Stage:
    """Run `field` along `fibres`; it begins with the signals, or with what `pool` makes of the stage before.

    `own[j]` are the fibres of stage j that the diagonal fibre of this one needs: they give the variances after the pool.
    """

    field: tuple[Op, ...]
    levels: Levels
    fibres: FrozenArray  # int32 (F, d) offsets on grids, (F,) elements of a group
    pool: Pool | None = None
    own: tuple[FrozenArray, ...] = ()

    @property
    def positions(self) -> int:
        """The largest field that one fibre needs."""
        return max(level.positions for level in self.levels.levels)


@dataclass(frozen=True)
class StagedPlan:
    """Run the stages, weigh the pairs that `labels` puts into one block, then run `vector`."""

    stages: tuple[Stage, ...]
    labels: FrozenArray  # int32 (P,), blocks of the readout, -1 where dropped
    block_weight: float  # the weight of one pair of positions
    vector: tuple[Op, ...]

    @property
    def single(self) -> bool:
        """Whether the readout needs the diagonal fibre alone."""
        return len(self.stages[-1].fibres.array) == 1

    @property
    def positions(self) -> int:
        """The largest field that one fibre needs."""
        return max(stage.positions for stage in self.stages)

    @property
    def pairs_of_positions(self) -> int:
        """How many pairs of positions are held, over all fields between stages."""
        return sum(held_at_start(stage) for stage in self.stages[1:])


@lru_cache(maxsize=256)
def staged(program: Program) -> StagedPlan:
    """The stages of a program that pools before a later layer; raises NoFibresError if these are no remedy."""
    field, readout, vector = split(program.ops)
    parts, pools = _cut(field)
    if any(isinstance(op, Branch) for op in readout) or not pools:
        raise NoFibresError("it has no pool between layers")
    levels = _levels(parts, pools, program)
    labels, affine = compose_readout(readout, levels[-1].levels[-1].positions)
    last = needed_fibres(levels[-1], labels, program)
    chain = _fibres(parts, pools, levels, len(parts) - 1, last)
    stages = [Stage(parts[0], levels[0], FrozenArray(chain[0]))]
    for k, pool in enumerate(pools, start=1):
        start = levels[k].levels[0]
        assert isinstance(start, GridLevel)
        diagonal = np.zeros((1, len(start.shape)), np.int32)
        own = _fibres(parts, pools, levels, k, diagonal)[:-1]
        stages.append(Stage(parts[k], levels[k], FrozenArray(chain[k]), pool, tuple(map(FrozenArray, own))))
    sizes = np.bincount(labels[labels >= 0])
    weight = 1.0 / (len(sizes) * float(sizes[0]) ** 2)
    return StagedPlan(tuple(stages), FrozenArray(labels), weight, affine + vector)


def _cut(field: tuple[Op, ...]) -> tuple[list[tuple[Op, ...]], list[Pool]]:
    """(the operations before, between and after the pools, the pools)."""
    parts: list[list[Op]] = [[]]
    pools: list[Pool] = []
    for op in field:
        if isinstance(op, Pool):
            pools.append(op)
            parts.append([])
        else:
            parts[-1].append(op)
    if any(_has_pool(op) for part in parts for op in part):
        raise NoFibresError("a pool inside a residual branch mixes fibres")
    return [tuple(part) for part in parts], pools


def _has_pool(op: Op) -> bool:
    return isinstance(op, Branch) and any(isinstance(inner, Pool) or _has_pool(inner) for inner in op.ops)


def _levels(parts: list[tuple[Op, ...]], pools: list[Pool], program: Program) -> list[Levels]:
    """Those of each stage. After a pool all pairs of positions are there, so that each begins on a torus anew."""
    lift = program.lift
    found = [grid_levels(parts[0], program.shape) if lift is None else lifted_levels(parts[0], lift)]
    for part, pool in zip(parts[1:], pools, strict=True):
        before = found[-1].levels[-1]
        if pool.box is not None and isinstance(before, GridLevel):
            shape = pool.box.out_shape
        elif isinstance(before, TableLevel) and pool.box is None:
            shape = (pool.blocks,)  # blocks without neighbours: any order will do
        else:
            raise NoFibresError("pooling in blocks that are no windows on the grid mixes fibres")
        found.append(grid_levels(part, shape))
    return found


def _fibres(
    parts: list[tuple[Op, ...]], pools: list[Pool], levels: list[Levels], last: int, fibres: np.ndarray
) -> list[np.ndarray]:
    """Those of stages 0 to `last`, where that one runs `fibres`."""
    found = [fibres]
    for k in range(last, 0, -1):
        differences = _differences(parts[k], levels[k].levels[0], found[0])
        found.insert(0, _finer(pools[k - 1], levels[k - 1].levels[-1], differences))
    return found


def _differences(ops: tuple[Op, ...], start: Level, fibres: np.ndarray) -> np.ndarray:
    """(K, d): second less first position of the pairs that a stage's fibres begin with."""
    assert isinstance(start, GridLevel)
    shape = np.array(start.shape, np.int64)
    offsets = np.unique(fibres.astype(np.int64) * np.array(start.step, np.int64), axis=0)
    if begins_on_torus(ops):
        offsets = np.unique(offsets % shape, axis=0)
        turns = np.array(list(itertools.product((0, 1), repeat=len(shape))), np.int64)
        offsets = (offsets[:, None] - turns * shape).reshape(-1, len(shape))
    return offsets[(np.abs(offsets) < shape).all(axis=1)]


def begins_on_torus(ops: tuple[Op, ...]) -> bool:
    """Whether a stage's first window reads on around the torus; a stage without windows may as well."""
    first = next((op for op in _flat(ops) if isinstance(op, Box | Table)), None)
    return first is None or (isinstance(first, Box) and first.wrap)


def _flat(ops: tuple[Op, ...]) -> Iterator[Op]:
    for op in ops:
        if isinstance(op, Branch):
            yield from _flat(op.ops)
        else:
            yield op


def _finer(pool: Pool, level: Level, differences: np.ndarray) -> np.ndarray:
    """The fibres whose pairs of positions fall into windows that are `differences` apart."""
    if isinstance(level, TableLevel):
        labels = pool.labels.array
        wanted = np.zeros(2 * pool.blocks - 1, bool)
        wanted[differences[:, 0] + pool.blocks - 1] = True
        seconds = labels[level.table.array]
        joined = (
            wanted[np.maximum(seconds, 0) - np.maximum(labels, 0) + pool.blocks - 1] & (seconds >= 0) & (labels >= 0)
        )
        return np.flatnonzero(joined.any(axis=1)).astype(np.int32)
    box = pool.box
    assert box is not None
    shape = np.array(level.shape, np.int64)
    inside = np.array(list(itertools.product(*(range(1 - w, w) for w in box.window))), np.int64)
    offsets = (differences[:, None] * np.array(box.stride, np.int64) + inside).reshape(-1, len(shape))
    offsets = offsets[(np.abs(offsets) < shape).all(axis=1)]
    return np.unique(offsets % shape if level.wrap else offsets, axis=0).astype(np.int32)


def held_at_start(stage: Stage) -> int:
    """How many pairs of positions the fibres of a stage begin with."""
    start = stage.levels.levels[0]
    assert isinstance(start, GridLevel)
    offsets = stage.fibres.array.astype(np.int64) * np.array(start.step, np.int64)
    shape = np.array(start.shape, np.int64)
    if begins_on_torus(stage.field):
        return len(np.unique(offsets % shape, axis=0)) * prod(start.shape)
    return int(np.maximum(shape - np.abs(np.unique(offsets, axis=0)), 0).prod(axis=1).sum())
