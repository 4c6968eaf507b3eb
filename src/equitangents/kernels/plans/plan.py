"""How a program is run: along fibres where they close, else over all pairs of positions.

field operations → readout (blocks of positions, then their mean) → operations on plain vectors. A flattening readout
needs one fibre, a global pool all of them, pooling in blocks those that join two positions of one block.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from equitangents.kernels.operation import HashedOnce, NoFibresError, Operation
from equitangents.kernels.plans.levels import GridLevel, Level, Levels, grid_levels, lifted_levels
from equitangents.kernels.plans.shorten import collapse_total_windows, merge_cosets
from equitangents.kernels.program import Affine, Flatten, FrozenArray, Op, Pool, Program, arrays_of, flat


@dataclass(frozen=True)
class FibrePlan(HashedOnce):
    """Run `field` along each fibre, weigh the pairs that `labels` puts into one block, then run `vector`."""

    field: tuple[Op, ...]
    levels: Levels
    fibres: FrozenArray  # int32 (F, d) offsets on grids, (F,) elements of a group
    labels: FrozenArray  # int32 (P,), blocks of the readout, -1 where dropped
    block_weight: float  # the weight of one pair of positions
    vector: tuple[Op, ...]

    form: ClassVar[str] = "fibre"  # as results say it
    notes: ClassVar[tuple[str, ...]] = ()
    __hash__ = HashedOnce.__hash__

    @property
    def single(self) -> bool:
        """Whether the readout needs the diagonal fibre alone."""
        return len(self.fibres.array) == 1

    @property
    def positions(self) -> int:
        """The largest field that one fibre needs."""
        return max(level.positions for level in self.levels.levels)

    @property
    def numbers(self) -> int:
        """Of the largest field, between two inputs."""
        return self.positions

    @property
    def parts(self) -> tuple[tuple[Op, ...], ...]:
        """All operations, of the field and on vectors."""
        return self.field, self.vector


@dataclass(frozen=True)
class PairPlan:
    """Run all operations over all pairs of positions; `why` says what mixes the fibres."""

    ops: tuple[Op, ...]
    positions_in: int
    positions: int  # the largest number on the way
    why: str

    form: ClassVar[str] = "pairs"

    @property
    def numbers(self) -> int:
        """Of the largest field, between two inputs."""
        return self.positions**2

    @property
    def parts(self) -> tuple[tuple[Op, ...], ...]:
        """All operations, over pairs of positions to the end."""
        return (self.ops,)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of results should know of it."""
        return (f"all pairs of positions: {self.why}",)


@lru_cache(maxsize=256)
def plan(program: Program) -> FibrePlan | PairPlan:
    """The cheaper exact way to run `program`."""
    if program.form == "pairs":
        return over_all_pairs(program, "asked for")
    field, readout, vector = split(program.ops)
    try:
        if any(op.held for op in readout):
            raise NoFibresError("a branch after partial pooling mixes fibres")
        lift = program.lift
        levels = grid_levels(field, program.shape) if lift is None else lifted_levels(field, lift)
    except NoFibresError as error:
        return over_all_pairs(program, str(error))
    labels, affine = compose_readout(readout, levels.levels[-1].positions)
    fibres = needed_fibres(levels.levels[-1], labels, program)
    sizes = np.bincount(labels[labels >= 0])
    folded = 1 if lift is None else lift.folded
    weight = 1.0 / (len(sizes) * float(sizes[0]) ** 2 * folded)
    whole = len(fibres) == 1 or len(sizes) == 1  # each fibre that is needed joins all positions
    if (labels >= 0).all() and whole and (short := collapse_total_windows(field, levels)) is not None:
        field, levels = short
        weight *= len(labels)
        labels = np.zeros(1, np.int32)
    elif lift is not None and (labels >= 0).all() and whole and (fewer := merge_cosets(field, levels)) is not None:
        field, levels, each = fewer
        weight *= each
        kept = levels.levels[-1].positions
        labels = np.zeros(kept, np.int32) if len(sizes) == 1 else np.arange(kept, dtype=np.int32)
    return FibrePlan(
        field=field,
        levels=levels,
        fibres=FrozenArray(fibres),
        labels=FrozenArray(labels),
        block_weight=weight,
        vector=affine + vector,
    )


def split(ops: tuple[Op, ...]) -> tuple[tuple[Op, ...], tuple[Op, ...], tuple[Op, ...]]:
    """(operations on the field, readout, operations on vectors): the readout ends where one position is left for good.

    It starts after the last operation that pooling would not commute with. A program without positions is all vector.
    """
    first = max((i + 1 for i, op in enumerate(ops) if any(within.is_positional for within in flat((op,)))), default=0)
    end = first
    for i, op in enumerate(ops):
        if isinstance(op, Flatten) or (isinstance(op, Pool) and op.blocks == 1 and i >= first):
            end = i + 1
            break
    # Once one position is left, further pooling and flattening change nothing.
    vector = tuple(op for op in ops[end:] if not isinstance(op, Flatten | Pool))
    start = end
    while start > first and isinstance(ops[start - 1], Affine | Pool | Flatten):
        start -= 1
    # Dense layers before the first pooling belong to the field, where the distance carries them exactly.
    while start < end and isinstance(ops[start], Affine):
        start += 1
    return ops[:start], ops[start:end], vector


def compose_readout(readout: tuple[Op, ...], positions: int) -> tuple[np.ndarray, tuple[Op, ...]]:
    """Block labels of all pooling together, and the dense layers between, which commute with it."""
    labels = np.arange(positions, dtype=np.int32)
    affine: list[Op] = []
    for op in readout:
        if isinstance(op, Pool):
            outer = op.labels.array
            labels = np.where(labels >= 0, outer[np.maximum(labels, 0)], -1).astype(np.int32)
        elif isinstance(op, Affine):
            affine.append(op)
    used = np.unique(labels[labels >= 0])
    renumber = np.full(max(int(labels.max()) + 1, 1), -1, np.int32)
    renumber[used] = np.arange(len(used), dtype=np.int32)
    return np.where(labels >= 0, renumber[np.maximum(labels, 0)], -1).astype(np.int32), tuple(affine)


def needed_fibres(last: Level, labels: np.ndarray, program: Program) -> np.ndarray:
    """The fibres that join two positions of one block of the last level: offsets on a grid, elements of a group."""
    if isinstance(last, GridLevel):
        blocks = [np.flatnonzero(labels == block) for block in range(labels.max() + 1)]
        return np.array(_needed_offsets(last, blocks), np.int32)
    assert program.lift is not None
    moved = last.table.array
    if labels.max() == 0 and (labels == 0).all():
        return np.arange(len(moved), dtype=np.int32)
    joins = [((labels[row] == labels) & (labels >= 0)).any() for row in moved]
    return np.flatnonzero(joins).astype(np.int32)


def _needed_offsets(level: GridLevel, blocks: list[np.ndarray]) -> list[tuple[int, ...]]:
    """The offsets between any two positions of one of the `blocks`."""
    if not level.shape or all(len(block) == 1 for block in blocks):
        return [(0,) * len(level.shape)]
    if len(blocks) == 1 and len(blocks[0]) == level.positions:
        return list(itertools.product(*(range(n) if level.wrap else range(1 - n, n) for n in level.shape)))
    if len(blocks) == 1 and (along := _lattice_offsets(level, blocks[0])):
        return list(itertools.product(*along))
    return sorted(set().union(*(_offsets_within(level, block) for block in blocks)))


def _offsets_within(level: GridLevel, block: np.ndarray) -> set[tuple[int, ...]]:
    """The offsets between any two positions of a block."""
    coordinates = np.stack(np.unravel_index(block, level.shape), axis=1)
    offsets = (coordinates[None] - coordinates[:, None]).reshape(-1, len(level.shape))
    return set(map(tuple, np.unique(offsets % np.array(level.shape) if level.wrap else offsets, axis=0).tolist()))


def _lattice_offsets(level: GridLevel, members: np.ndarray) -> list[list[int]] | None:
    """The offsets between members along each axis, if these are all combinations of some coordinates."""
    along = [np.unique(c) for c in np.unravel_index(members, level.shape)]
    if len(members) != np.prod([len(c) for c in along], dtype=np.int64):
        return None
    between = [(c[None] - c[:, None]).ravel() for c in along]
    wrapped = [b % n if level.wrap else b for b, n in zip(between, level.shape, strict=True)]
    return [np.unique(b).tolist() for b in wrapped]


def over_all_pairs(program: Program, why: str) -> PairPlan:
    """The plan that carries all pairs of positions; `why` says what leaves no other."""
    if program.lift is not None and program.lift.folded > 1:
        raise ValueError("a folded program holds no pairs of positions of different rotations")
    positions = int(np.prod(program.shape, dtype=np.int64))
    return PairPlan(program.ops, positions, _largest(program.ops, positions), why)


def _largest(ops: tuple[Op, ...], positions: int) -> int:
    largest = positions
    for op in ops:
        inner = (_largest(held, positions) for held in op.held)
        positions = op.positions_after(positions)
        largest = max(largest, positions, *inner)
    return largest


def has_dual(ops: tuple[Op, ...]) -> bool:
    """Whether any operation needs the variances, i.e. is a nonlinearity or a residual sum."""
    return any(op.needs_variances for op in ops)


def index_tables(ops: Iterable[Operation], levels: Iterable[Level]) -> dict[str, np.ndarray]:
    """The tables of operations that hold no others, and of levels, by key."""
    return {key: table for thing in (*ops, *levels) for key, table in thing.tables.items()}


def tables_of(steps: FibrePlan | PairPlan, program: Program) -> dict[str, Any]:
    """All index tables that running the plan needs."""
    tables = arrays_of(program)
    if isinstance(steps, FibrePlan):
        tables[steps.labels.key] = steps.labels.array
        tables[steps.fibres.key] = steps.fibres.array
        tables |= index_tables(steps.field, steps.levels.levels)
    return tables
