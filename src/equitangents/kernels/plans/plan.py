"""Plans of programs: along fibres where they close, else over all pairs of positions.

field operations → readout (blocks of positions, then their mean) → operations on plain vectors. A flattening readout
needs one fibre, a global pool all of them, pooling in blocks those that join two positions of one block.

Plans are shortened after a window that holds every position alike: a fibre's field is then the same everywhere, and
one position stands for all. Later windows of a group change nothing, and nonlinearities act once a fibre in place of
once a position. Source: full windows make group convolutions depend on the relative element alone (arXiv 2406.06504,
Thm 5.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from equitangents.kernels.operations import FrozenArray, HashedOnce, NoFibresError, Operation
from equitangents.kernels.plans.levels import Level, Levels, grid_levels, lifted_levels, still
from equitangents.kernels.program import Op, Program, flat


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

    def settles(self, count: int) -> bool:
        """Whether each fibre of a field of `count` positions is constant, so that one number represents it."""
        return self.levels.levels[-1].positions < count

    def field_values(self, count: int) -> int:
        """Numbers per pair of inputs in a field of `count` positions, along the fibres."""
        return len(self.fibres.array) * (1 if self.settles(count) else count)

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

    def settles(self, count: int) -> bool:
        """Whether one number stands for several of a field of `count` positions."""
        return False

    def field_values(self, count: int) -> int:
        """Numbers per pair of inputs in a field of `count` positions: one per pair of positions."""
        return count**2

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
