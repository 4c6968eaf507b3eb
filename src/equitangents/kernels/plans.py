"""Plans of programs: along fibres where they close, else over all pairs of positions.

field operations → readout (blocks of positions, then their mean) → operations on plain vectors. A flattening readout
needs one fibre, a global pool all of them, pooling in blocks those that join two positions of one block.

Plans are shortened after a window that holds every position alike: a fibre's field is then the same everywhere, and
one position stands for all. Later windows of a group change nothing, and nonlinearities act once a fibre in place of
once a position. Source: full windows make group convolutions depend on the relative element alone (arXiv 2406.06504,
Thm 5.2).

A fibre q joins each position p of the first input to one position p' of the second: on grids p' = p + m·q, with m the
product of the strides still to come (wrapped on a torus, or nowhere outside the grid); on a group p' = q·g.
Source: theory of relative positions, arXiv 2406.06504; fibres are closed under every layer of the program.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal, NoReturn

import numpy as np

from equitangents.kernels.operations import Box, FrozenArray, HashedOnce, NoFibresError, Operation, Pool, WindowPool
from equitangents.kernels.program import GroupFibres, Op, Program, flat


@dataclass(frozen=True)
class GridLevel:
    """A grid of positions; `step` turns a fibre's label into an offset on this grid."""

    on_grid: ClassVar[Literal[True]] = True
    tables: ClassVar[dict[str, np.ndarray]] = {}

    shape: tuple[int, ...]
    wrap: bool
    step: tuple[int, ...] = ()

    @property
    def positions(self) -> int:
        """The number of positions."""
        count = 1
        for side in self.shape:
            count *= side
        return count

    @property
    def grid(self) -> GridLevel:
        """Itself, which levels of a group are not."""
        return self

    def after(self, op: Operation) -> GridLevel:
        """The level after an operation; raises NoFibresError where that mixes fibres."""
        return GridLevel(*op.grid_after(self.shape, self.wrap))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Number of offsets along each axis, one per fibre."""
        return self.shape if self.wrap else tuple(2 * n - 1 for n in self.shape)

    @property
    def fibre_count(self) -> int:
        """The number of fibres."""
        return int(np.prod(self.offsets, dtype=np.int64))

    def fibres(self, numbers: np.ndarray) -> np.ndarray:
        """The offsets int32 (F, d) of the fibres that have these numbers."""
        offsets = np.stack(np.unravel_index(numbers, self.offsets), axis=-1).astype(np.int32)
        return offsets if self.wrap else offsets - np.array(self.shape, np.int32) + 1

    def fibre_numbers(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The number of the fibre that joins each first position to the second."""
        ones, others = np.unravel_index(first, self.shape), np.unravel_index(second, self.shape)
        gaps = [(b - a) % n if self.wrap else b - a + n - 1 for n, a, b in zip(self.shape, ones, others, strict=True)]
        return np.ravel_multi_index(tuple(gaps), self.offsets)

    def held(self, fibres: np.ndarray) -> int:
        """Positions with a partner, summed over fibres."""
        if self.wrap:
            return len(fibres) * self.positions
        offsets = np.abs(fibres.astype(np.int64) * np.array(self.step, np.int64))
        return int(np.maximum(np.array(self.shape) - offsets, 0).prod(axis=1).sum())

    def fibres_within(self, labels: np.ndarray) -> np.ndarray:
        """The fibres that join two positions of one block, int32 (F, d); −1 is none."""
        blocks = [np.flatnonzero(labels == block) for block in range(labels.max() + 1)]
        return np.array(_needed_offsets(self, blocks), np.int32)

    def finer(self, pool: Pool | WindowPool, apart: np.ndarray) -> np.ndarray:
        """The fibres before the pool whose pairs of positions fall into windows that are `apart`, (K, d)."""
        box = pool.box
        assert box is not None
        along = [np.unique(column) for column in apart.T]
        if len(apart) == np.prod([len(column) for column in along], dtype=np.int64):  # all combinations: axis by axis
            each = [_finer(column[:, None], box, self, slice(a, a + 1))[:, 0] for a, column in enumerate(along)]
            offsets = np.stack(np.meshgrid(*each, indexing="ij"), axis=-1).reshape(-1, len(each))
        else:
            offsets = _finer(apart, box, self, slice(None))
        return offsets.astype(np.int32)


@dataclass(frozen=True)
class TableLevel:
    """Positions moved by a group; row q of the table holds the partners of all positions."""

    on_grid: ClassVar[Literal[False]] = False
    shape: ClassVar[tuple[int, ...]] = ()

    table: FrozenArray

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """Where the group moves positions, by key."""
        return {self.table.key: self.table.array}

    @property
    def positions(self) -> int:
        """The number of positions."""
        return int(self.table.array.shape[1])

    @property
    def grid(self) -> NoReturn:
        """None, where a group moves the positions."""
        raise TypeError("a level whose positions a group moves is no grid")

    @property
    def fibre_count(self) -> int:
        """The number of fibres, one per element."""
        return len(self.table.array)

    def fibres(self, numbers: np.ndarray) -> np.ndarray:
        """The elements int32 (F,) that these fibres are."""
        return numbers.astype(np.int32)

    def fibre_numbers(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The element that moves each first position to the second."""
        return np.asarray(_elements(self.table)[first, second])

    def held(self, fibres: np.ndarray) -> int:
        """Positions with a partner, summed over fibres: all have one."""
        return len(fibres) * self.positions

    def fibres_within(self, labels: np.ndarray) -> np.ndarray:
        """The elements that join two positions of one block, int32 (F,); −1 is none."""
        moved = self.table.array
        if labels.max() == 0 and (labels == 0).all():
            return np.arange(len(moved), dtype=np.int32)
        joins = [((labels[row] == labels) & (labels >= 0)).any() for row in moved]
        return np.flatnonzero(joins).astype(np.int32)

    def finer(self, pool: Pool | WindowPool, apart: np.ndarray) -> np.ndarray:
        """The elements that join positions of two blocks of the pool whose numbers are `apart`, (K, 1)."""
        assert isinstance(pool, Pool)
        labels = pool.labels.array
        wanted = np.zeros(2 * pool.blocks - 1, bool)
        wanted[apart[:, 0] + pool.blocks - 1] = True
        seconds = labels[self.table.array]
        there = (seconds >= 0) & (labels >= 0)
        joined = wanted[np.maximum(seconds, 0) - np.maximum(labels, 0) + pool.blocks - 1] & there
        return np.flatnonzero(joined.any(axis=1)).astype(np.int32)

    def at_one_position(self) -> TableLevel:
        """The level of constant fields, with one position."""
        return TableLevel(FrozenArray(np.zeros((len(self.table.array), 1), np.int32)))


Level = GridLevel | TableLevel


@dataclass(frozen=True)
class Levels:
    """The levels before each operation and after the last; `branches[i]` those of each branch inside operation i."""

    levels: tuple[Level, ...]
    branches: tuple[tuple[Levels, ...], ...]


def grid_levels(ops: tuple[Op, ...], shape: tuple[int, ...]) -> Levels:
    """Levels of a program on grids; raises NoFibresError where a layer mixes fibres."""
    forward = _forward(ops, GridLevel(shape, wrap=True))
    return _with_steps(ops, forward, (1,) * len(shape))


def _forward(ops: tuple[Op, ...], level: GridLevel) -> Levels:
    levels: list[Level] = [level]
    branches: list[tuple[Levels, ...]] = []
    for op in ops:
        inner: tuple[Levels, ...] = ()
        if op.held:
            inner, level = _forward_each(op, level)
        else:
            level = level.after(op)
        levels.append(level)
        branches.append(inner)
    return Levels(tuple(levels), tuple(branches))


def _forward_each(op: Op, level: GridLevel) -> tuple[tuple[Levels, ...], GridLevel]:
    """Once a branch breaks the torus, the others begin on the broken one: fields are kept where all have them."""
    found: list[Levels] = []
    for branch in op.held:
        found.append(_forward(branch, level))
        last = found[-1].levels[-1].grid
        if found[0].levels[-1].grid.shape != last.shape:
            raise NoFibresError("branches that end on different grids mix fibres")
        level = replace(level, wrap=level.wrap and last.wrap)
    return tuple(found), replace(last, wrap=level.wrap)


def _with_steps(ops: tuple[Op, ...], levels: Levels, step: tuple[int, ...]) -> Levels:
    """Fill in the steps, from the readout backwards: a stride of s multiplies the offsets below it by s."""
    found = [replace(levels.levels[-1].grid, step=step)]
    branches: list[tuple[Levels, ...]] = []
    for op, level, inner in zip(reversed(ops), reversed(levels.levels[:-1]), reversed(levels.branches), strict=True):
        step = op.offset_before(step)
        each = tuple(_with_steps(branch, held, step) for branch, held in zip(op.held, inner, strict=True))
        if each:
            firsts = {held.levels[0].grid.step for held in each}
            if len(firsts) != 1:
                which = "branches of different strides mix" if op.residual is None else "a strided branch mixes"
                raise NoFibresError(f"{which} fibres")
            step = firsts.pop()
        found.append(replace(level.grid, step=step))
        branches.append(each)
    return Levels(tuple(reversed(found)), tuple(reversed(branches)))


def lifted_levels(ops: tuple[Op, ...], lift: GroupFibres) -> Levels:
    """Levels of a lifted program: before the first table the group acts on points, afterwards on itself."""
    levels, _ = _lifted(ops, TableLevel(lift.points), TableLevel(lift.elements), lift.folded > 1)
    return levels


def _lifted(ops: tuple[Op, ...], level: TableLevel, lifted: TableLevel, folded: bool) -> tuple[Levels, TableLevel]:
    levels: list[Level] = [level]
    branches: list[tuple[Levels, ...]] = []
    for op in ops:
        each = [_lifted(branch, level, lifted, folded) for branch in op.held]
        if any(after != each[0][1] for _, after in each):
            raise NoFibresError("branches that end on different positions mix fibres")
        level = each[0][1] if each else op.elements_after(level, lifted, folded)
        levels.append(level)
        branches.append(tuple(held for held, _ in each))
    return Levels(tuple(levels), tuple(branches)), level


def still(ops: Iterable[Op], level: Level) -> Levels:
    """Levels of operations that leave all positions where they are."""
    branches = tuple(tuple(still(held, level) for held in op.held) for op in ops)
    return Levels((level,) * (len(branches) + 1), branches)


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


def _finer(apart: np.ndarray, box: Box, level: GridLevel, axes: slice) -> np.ndarray:
    """The finer fibres' offsets along some axes, in any order."""
    shape, stride = np.array(level.shape, np.int64)[axes], np.array(box.stride, np.int64)[axes]
    inside = np.array(list(itertools.product(*(range(1 - w, w) for w in box.window[axes]))), np.int64)
    offsets = (apart[:, None] * stride + inside).reshape(-1, len(shape))
    offsets = offsets if box.wrap else offsets[(np.abs(offsets) < shape).all(axis=1)]
    return np.unique(offsets % shape if level.wrap else offsets, axis=0)


@lru_cache(maxsize=8)
def _elements(table: FrozenArray) -> np.ndarray:
    """(P, P'): which element of a group moves a position to another; row q of the table holds where q moves each."""
    rows, columns = table.array.shape
    found = np.empty((columns, columns), np.int64)
    found[np.arange(columns), table.array] = np.arange(rows)[:, None]
    return found


def collapse_total_windows(field: tuple[Op, ...], levels: Levels) -> tuple[tuple[Op, ...], Levels] | None:
    """(operations, levels) with one position after the first total window of a lifted field; None if it has none."""
    at = next((i for i, op in enumerate(field) if op.is_total), None)
    last = levels.levels[-1]
    if at is None or last.on_grid or not all(op.keeps_constants for op in field[at + 1 :]):
        return None
    after = _without_windows(field[at + 1 :])
    inner = still(after, last.at_one_position())
    found = Levels((*levels.levels[: at + 1], *inner.levels), (*levels.branches[:at], (), *inner.branches))
    return (*field[:at], field[at].at_one_position(), *after), found


def _without_windows(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    return tuple(op.with_held(_without_windows) for op in ops if not op.is_window)


@dataclass(frozen=True)
class FibrePlan(HashedOnce):
    """Run `field` along each fibre, weigh the pairs that `labels` puts into one block, then run `vector`."""

    field: tuple[Op, ...]
    levels: Levels
    fibres: FrozenArray  # int32 (F, d) offsets on grids, (F,) elements of a group
    labels: FrozenArray  # int32 (P,), blocks of the readout, -1 where dropped
    block_weight: float  # the weight of one pair of positions
    vector: tuple[Op, ...]
    any_norms: bool = False  # whether norms of inputs may differ as they like

    form: ClassVar[Literal["fibre"]] = "fibre"  # as results say it
    notes: ClassVar[tuple[str, ...]] = ()
    __hash__ = HashedOnce.__hash__

    @property
    def single(self) -> bool:
        """Whether the readout needs only the diagonal fibre."""
        return len(self.fibres.array) == 1

    @property
    def positions(self) -> int:
        """The largest field that one fibre needs."""
        return max(level.positions for level in self.levels.levels)

    @property
    def numbers(self) -> int:
        """Numbers in the largest field of two inputs: one per position."""
        return self.positions

    @property
    def parts(self) -> tuple[tuple[Op, ...], ...]:
        """All operations, of the field and on vectors."""
        return self.field, self.vector

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """The index tables that fibres need, by key."""
        own = {array.key: array.array for array in (self.labels, self.fibres)}
        return own | index_tables(self.field, self.levels.levels)


@dataclass(frozen=True)
class PairPlan:
    """Run all operations over all pairs of positions; `why` says what mixes the fibres."""

    ops: tuple[Op, ...]
    positions_in: int
    positions: int  # the largest number on the way
    why: str

    form: ClassVar[Literal["pairs"]] = "pairs"
    tables: ClassVar[dict[str, np.ndarray]] = {}

    @property
    def numbers(self) -> int:
        """Numbers in the largest field of two inputs: one per pair of positions."""
        return self.positions**2

    @property
    def parts(self) -> tuple[tuple[Op, ...], ...]:
        """All operations, over pairs of positions to the end."""
        return (self.ops,)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the result."""
        return (f"all pairs of positions: {self.why}",)


@lru_cache(maxsize=256)
def plan(program: Program) -> FibrePlan | PairPlan:
    """The cheaper exact way to run `program`."""
    field, readout, vector = split(program.ops)
    try:
        if any(op.held for op in readout):
            raise NoFibresError("a branch after partial pooling mixes fibres")
        lift = program.lift
        levels = grid_levels(field, program.shape) if lift is None else lifted_levels(field, lift)
    except NoFibresError as error:
        return over_all_pairs(program, str(error))
    labels, affine = compose_readout(readout, levels.levels[-1].positions)
    fibres = levels.levels[-1].fibres_within(labels)
    sizes = np.bincount(labels[labels >= 0])
    folded = 1 if lift is None else lift.folded
    weight = 1.0 / (len(sizes) * float(sizes[0]) ** 2 * folded)
    whole = len(fibres) == 1 or len(sizes) == 1  # each fibre that is needed joins all positions
    if (labels >= 0).all() and whole and (short := collapse_total_windows(field, levels)) is not None:
        field, levels = short
        weight *= len(labels)
        labels = np.zeros(1, np.int32)
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

    It starts after the last operation that pooling would not commute with, branches that pool among them. A program
    without positions is all vector.
    """
    first = max((i + 1 for i, op in enumerate(ops) if _reads_positions(op)), default=0)
    end = first
    for i, op in enumerate(ops):
        if op.is_diagonal or (op.is_pool and i >= first and op.positions_after(0) == 1):
            end = i + 1
            break
    # Once one position is left, further pooling and flattening change nothing.
    vector = tuple(op for op in ops[end:] if not op.is_pool)
    start = end
    while start > first and ops[start - 1].pools_commute:
        start -= 1
    # Dense layers before the first pooling belong to the field, where the distance carries them exactly.
    while start < end and not ops[start].is_pool:
        start += 1
    return ops[:start], ops[start:end], vector


def _reads_positions(op: Op) -> bool:
    inner = flat(within for held in op.held for within in held)
    return op.is_positional or any(within.is_positional or within.is_pool or within.is_diagonal for within in inner)


def compose_readout(readout: tuple[Op, ...], positions: int) -> tuple[np.ndarray, tuple[Op, ...]]:
    """Block labels of all pooling together, and the dense layers between, which commute with it."""
    labels = np.arange(positions, dtype=np.int32)
    for op in readout:
        labels = op.blocks_after(labels)
    affine = tuple(op for op in readout if not op.is_pool)
    used = np.unique(labels[labels >= 0])
    renumber = np.full(max(int(labels.max()) + 1, 1), -1, np.int32)
    renumber[used] = np.arange(len(used), dtype=np.int32)
    return np.where(labels >= 0, renumber[np.maximum(labels, 0)], -1).astype(np.int32), affine


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
