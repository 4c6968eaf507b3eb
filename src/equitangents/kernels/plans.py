"""Plans of programs: by pair offset if layers keep it, in stages between pools, else over all pairs of positions.

field operations → readout (blocks of positions, then their mean) → operations on plain vectors. A flattening readout
needs one offset, a global pool all of them, pooling in blocks those that join two positions of one block. Branches
become one list of steps, with a field stored and added later.

Plans are shortened after a window that contains every position equally often: the field at an offset is then constant,
and one position represents all. Later windows of a group change nothing, and nonlinearities act once per offset instead
of once per position. Source: full windows make group convolutions depend on the relative element only (arXiv
2406.06504, Thm 5.2).

Compiled engines run one stage up to each pool, and one after the last. After a pool over windows of side w and stride
s, the offset Q of the coarse field is a sum over the fine offsets sQ + r with |r| < w along each axis, each over the
positions where both ends are in the windows. Every fine offset is run once and added to its coarse offsets, so that
only one coarse field over pairs of positions is stored. The next stage starts from it as the first one does from the
signals. Fields that residual branches around the pool add after it are stored in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np

from equitangents.kernels.levels import GridLevel, Level, TableLevel
from equitangents.kernels.operations import FrozenArray, HashedOnce, MixedOffsetsError, Operation, Pool, WindowPool
from equitangents.kernels.program import Op, Program, flat
from equitangents.kernels.result import Part


@dataclass(frozen=True)
class Fork(Operation):
    """Store the field in `slot`, and continue the branch with it."""

    stays: ClassVar[bool] = True
    keeps_constants: ClassVar[bool] = True
    slot: int


@dataclass(frozen=True)
class Restore(Operation):
    """Start the next branch: the field is again that in `slot`, which stays stored."""

    label: ClassVar[str] = "parallel branches"
    stays: ClassVar[bool] = True
    keeps_constants: ClassVar[bool] = True
    slot: int


@dataclass(frozen=True)
class AddSaved(Operation):
    """Add the field stored in `slot`.

    With `shares` (w of the stored field, w' of the other) channels are concatenated, so that no means are multiplied.
    """

    stays: ClassVar[bool] = True
    needs_variances: ClassVar[bool] = True
    keeps_constants: ClassVar[bool] = True
    slot: int
    shares: tuple[float, ...] | None = None


Step = Op | Fork | Restore | AddSaved
AnyPool = Pool | WindowPool


def unrolled(ops: tuple[Op, ...], slot: int = 0) -> tuple[Step, ...]:
    """All operations in one sequence; each of several branches starts with the field in `slot`.

    The sum of the preceding branches is stored in the next slot meanwhile.
    """
    steps: list[Step] = []
    for op in ops:
        if op.residual is not None:
            steps += [Fork(slot), *unrolled(op.residual, slot + 1), AddSaved(slot)]
        elif len(op.held) == 1:
            steps += unrolled(op.held[0], slot)
        elif op.held:
            steps += [Fork(slot), *unrolled(op.held[0], slot + 1)]
            for number, branch in enumerate(op.held[1:], 1):
                shares = op.shares and (op.shares[0] if number == 1 else 1.0, op.shares[number])
                steps += [Fork(slot + 1), Restore(slot), *unrolled(branch, slot + 2), AddSaved(slot + 1, shares)]
        else:
            steps.append(op)
    return tuple(steps)


@dataclass(frozen=True)
class Stage:
    """Run `steps` along `offsets`, from the signals, or from the stage before after its `pool`.

    `own[j]` are the offsets of stage j needed for the diagonal offset of this one: they give the variances after the
    pool. `carried` are the slots in which branches around the pool store a field, each with the level of the stage
    before at which it is stored.
    """

    steps: tuple[Step, ...]
    levels: tuple[Level, ...]  # before each step, and after the last
    offsets: FrozenArray  # int32 (F, d) on grids, (F,) elements of a group
    pool: AnyPool | None = None
    own: tuple[FrozenArray, ...] = ()
    carried: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class OffsetPlan(HashedOnce):
    """Run the stages, sum over pairs that `labels` puts into one block with weights, then run `vector`."""

    stages: tuple[Stage, ...]
    labels: FrozenArray  # int32 (P,), blocks of the readout, -1 where dropped
    block_weight: float  # the weight of one pair of positions
    vector: tuple[Step, ...]
    any_norms: bool = False  # whether norms of inputs may differ as they like

    form: ClassVar[Literal["offsets"]] = "offsets"  # as results say it
    notes: ClassVar[tuple[str, ...]] = ()
    __hash__ = HashedOnce.__hash__

    @property
    def last(self) -> Stage:
        """The stage that is read out; the only one if there is no pool between layers."""
        return self.stages[-1]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, on the fields of the stages and on vectors."""
        return (*(step for stage in self.stages for step in stage.steps), *self.vector)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels of all stages."""
        return tuple(level for stage in self.stages for level in stage.levels)

    @property
    def single(self) -> bool:
        """Whether the readout needs only the diagonal offset."""
        return len(self.last.offsets.array) == 1

    @property
    def positions(self) -> int:
        """Positions of the largest field at one offset: its number of values per pair of inputs."""
        return max(level.positions for level in self.levels)

    numbers = positions

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """The index tables that the plan needs, by key."""
        arrays = (self.labels, *(array for stage in self.stages for array in (stage.offsets, *stage.own)))
        found = {array.key: array.array for array in arrays}
        return found | {key: table for thing in (*self.steps, *self.levels) for key, table in thing.tables.items()}


@dataclass(frozen=True)
class PairPlan:
    """Run all steps over all pairs of positions; `why` names the layer that mixes pair offsets."""

    steps: tuple[Step, ...]
    sizes: tuple[int, ...]  # positions before each step, and after the last
    why: str

    form: ClassVar[Literal["pairs"]] = "pairs"

    @property
    def numbers(self) -> int:
        """Number of values in the largest field per pair of inputs: one per pair of positions."""
        return max(self.sizes) ** 2

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """The index tables that the plan needs, by key."""
        return {key: table for step in self.steps for key, table in step.tables.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the result."""
        return (f"all pairs of positions: {self.why}",)


@dataclass(frozen=True)
class _Part:
    """A stage before its offsets are known."""

    steps: tuple[Step, ...]
    levels: tuple[Level, ...]
    pool: AnyPool | None = None
    carried: tuple[tuple[int, int], ...] = ()


@lru_cache(maxsize=256)
def plan(program: Program, staged: bool = False) -> OffsetPlan | PairPlan:
    """The cheapest exact plan for `program`; `staged`: for an engine that runs stages."""
    if staged and (found := plan(program)).form == "offsets":
        return found
    field, readout, vector = split(program.ops)
    try:
        if any(op.held for op in readout):
            raise MixedOffsetsError("a branch after partial pooling mixes pair offsets")
        parts = _parts(field, program, staged)
    except MixedOffsetsError as error:
        return over_all_pairs(program, str(error))
    last = parts[-1].levels[-1]
    labels, affine = compose_readout(readout, last.positions)
    offsets, sizes = last.offsets_within(labels), np.bincount(labels[labels >= 0])
    folded = 1 if program.lift is None else program.lift.folded
    weight = 1.0 / (len(sizes) * float(sizes[0]) ** 2 * folded)
    all_positions = len(offsets) == 1 or len(sizes) == 1  # each offset that is needed joins all positions
    if len(parts) > 1:
        offsets = in_bands(offsets, _strides(parts)[-1])
    elif (labels >= 0).all() and all_positions and (short := _shortened(field, parts[0])) is not None:
        parts = [short]
        weight *= len(labels)
        labels = np.zeros(1, np.int32)
    return OffsetPlan(_stages(parts, offsets), FrozenArray(labels), weight, unrolled(affine + vector))


@dataclass(frozen=True)
class FieldPlan:
    """Run `plan`, which has no readout, and keep the wanted pairs of positions of the level `last`.

    Values are (offsets, first positions) by pair offset, or (positions, positions) over all pairs; see `places`.
    """

    plan: OffsetPlan | PairPlan
    part: Part
    last: Level | None  # None of a `PairPlan`

    @property
    def values(self) -> int:
        """Number of values per pair of inputs before the wanted ones are selected."""
        count = self.part.count
        return count * (count if self.last is None else len(_wanted(self.part, self.last)))


@lru_cache(maxsize=64)
def field_plan(program: Program, part: Part, staged: bool = False) -> FieldPlan:
    """The cheapest exact plan for the wanted part of a program's field; `staged`: for an engine that runs stages.

    Pairs are kept instead of summed by a readout: no position has a label.
    """
    if staged and (found := field_plan(program, part)).plan.form == "offsets":
        return found
    try:
        parts = _parts(program.ops, program, staged)
    except MixedOffsetsError as error:
        return FieldPlan(over_all_pairs(program, str(error)), part, None)
    last = parts[-1].levels[-1]
    labels = FrozenArray(np.full(last.positions, -1, np.int32))
    return FieldPlan(OffsetPlan(_stages(parts, last.offsets(_wanted(part, last))), labels, 1.0, ()), part, last)


@lru_cache(maxsize=8)
def places(plan: FieldPlan) -> np.ndarray:
    """The index of each wanted pair among the flattened values: int64 of the shape `part.tail`."""
    first, second = plan.part.positions()
    if plan.last is None:
        return first * plan.part.count + second
    numbers = np.searchsorted(_wanted(plan.part, plan.last), plan.last.offset_numbers(first, second))
    return numbers * plan.part.count + first


def _wanted(part: Part, last: Level) -> np.ndarray:
    """The indices of the wanted pair offsets, in ascending order."""
    if part.kind == "all":
        return np.arange(last.offset_count)
    return np.unique(last.offset_numbers(*part.positions()))


def split(ops: tuple[Op, ...]) -> tuple[tuple[Op, ...], tuple[Op, ...], tuple[Op, ...]]:
    """(operations on the field, readout, operations on vectors): the readout ends where only one position remains.

    It starts after the last operation that does not commute with pooling, including branches that pool. A program
    without positions consists of vector operations.
    """
    first = 0
    for i, op in enumerate(ops):
        inner = flat(within for held in op.held for within in held)
        if op.is_positional or any(within.is_positional or within.is_pool or within.is_diagonal for within in inner):
            first = i + 1
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


def compose_readout(readout: tuple[Op, ...], positions: int) -> tuple[np.ndarray, tuple[Op, ...]]:
    """Block labels of the combined pooling, and the dense layers between the pools, which commute with it."""
    labels = np.arange(positions, dtype=np.int32)
    for op in readout:
        labels = op.blocks_after(labels)
    affine = tuple(op for op in readout if not op.is_pool)
    used = np.unique(labels[labels >= 0])
    renumber = np.full(max(int(labels.max()) + 1, 1), -1, np.int32)
    renumber[used] = np.arange(len(used), dtype=np.int32)
    return np.where(labels >= 0, renumber[np.maximum(labels, 0)], -1).astype(np.int32), affine


def has_dual(steps: tuple[Any, ...]) -> bool:
    """Whether any step needs variances: a nonlinearity or a sum of branches."""
    return any(step.needs_variances for step in steps)


def over_all_pairs(program: Program, why: str) -> PairPlan:
    """The plan over all pairs of positions; `why` is the reason."""
    if program.lift is not None and program.lift.folded > 1:
        raise ValueError("a folded program holds no pairs of positions of different rotations")
    steps, sizes = unrolled(program.ops), [int(np.prod(program.shape, dtype=np.int64))]
    kept: dict[int, int] = {}
    for step in steps:
        if isinstance(step, Fork):
            kept[step.slot] = sizes[-1]
        sizes.append(kept[step.slot] if isinstance(step, Restore) else step.positions_after(sizes[-1]))
    return PairPlan(steps, tuple(sizes), why)


def _parts(field: tuple[Op, ...], program: Program, staged: bool) -> list[_Part]:
    """The operations between pools, if `staged`; raises MixedOffsetsError if the remaining operations mix offsets.

    On a group, layers, pools over cosets, and layers at each coset may come in any order.
    """
    lift = program.lift
    if lift is None:
        return _on_grids(unrolled(field), program.shape, staged)
    lifted, folded = TableLevel(lift.elements), lift.folded > 1
    at = next((i for i, op in enumerate(field) if staged and isinstance(op, Pool)), len(field))
    steps, levels, kept = unrolled(field[:at]), [TableLevel(lift.points)], dict[int, int]()
    for step in steps:
        _go_on(step, levels, kept, lambda level, op: op.elements_after(level, lifted, folded))
    parts = [_Part(steps, tuple(levels))]
    if at < len(field):
        pool = field[at]
        assert isinstance(pool, Pool)
        if pool.box is not None:
            raise MixedOffsetsError("pooling before the lift mixes pair offsets")
        (after,) = _on_grids(unrolled(field[at + 1 :]), (pool.blocks,), staged=False)
        parts.append(replace(after, pool=pool))
    return parts


def _go_on(step: Step, levels: list[Any], kept: dict[int, int], move: Callable[[Any, Any], Any]) -> None:
    """Append the level after a step; `kept` maps each slot to the index of the level at which its field is stored."""
    level = levels[-1]
    if isinstance(step, Fork):
        kept[step.slot] = len(levels) - 1
    elif isinstance(step, Restore):
        level = levels[kept[step.slot]].common(level)
    elif isinstance(step, AddSaved):
        other = levels[kept.pop(step.slot)]
        if not level.joins(other):
            raise MixedOffsetsError("branches that end on different positions mix pair offsets")
        level = level.common(other)
    else:
        level = move(level, step)
    levels.append(level)


def _on_grids(steps: tuple[Step, ...], shape: tuple[int, ...], staged: bool) -> list[_Part]:
    """The steps between pools. After a pool all pairs of positions are stored: each part starts on a torus."""
    staged = staged and any(isinstance(step, AnyPool) for step in steps)
    parts: list[_Part] = []
    now, pool, levels = list[Step](), None, [GridLevel(shape, wrap=True)]
    kept: dict[int, int] = {}
    carried: tuple[tuple[int, int], ...] = ()
    for step in steps:
        if staged and isinstance(step, Restore):
            raise MixedOffsetsError("parallel branches and pools between layers mix pair offsets")
        if not (staged and isinstance(step, AnyPool)):
            _go_on(step, levels, kept, GridLevel.after)
            now.append(step)
            continue
        parts.append(_with_offsets(now, levels, pool, carried, kept))
        carried = tuple(kept.items())
        start = GridLevel(_pooled_shape(step, levels[-1]), wrap=True)
        if any(levels[at].shape != start.shape for at in kept.values()):
            raise MixedOffsetsError("branches of different strides mix pair offsets")
        kept = dict.fromkeys(kept, 0)
        now, pool, levels = [], step, [start]
    return [*parts, _with_offsets(now, levels, pool, carried, {})]


def _pooled_shape(pool: AnyPool, level: GridLevel) -> tuple[int, ...]:
    box = pool.box
    if box is None or box.in_shape != level.shape:
        raise MixedOffsetsError("pooling in blocks that are not windows of the grid mixes pair offsets")
    if box.wrap and not level.wrap:
        raise MixedOffsetsError("circular padding after a layer that breaks the torus mixes pair offsets")
    return box.out_shape


def _with_offsets(
    steps: list[Step],
    levels: list[GridLevel],
    pool: AnyPool | None,
    carried: tuple[tuple[int, int], ...],
    kept: dict[int, int],
) -> _Part:
    """Fill in the step of an offset on each level, backwards from the readout or the next pool.

    A stride of s multiplies the offsets before it by s. Branches that meet must start with the same offsets; fields
    still in `kept` are joined in a later part.
    """
    offset = (1,) * len(levels[-1].shape)
    found = [replace(levels[-1], step=offset)]
    ends = dict.fromkeys(kept, offset)  # the offset with which what a slot keeps goes on
    for step, level in zip(reversed(steps), reversed(levels[:-1]), strict=True):
        offset = step.offset_before(offset)
        if isinstance(step, AddSaved):
            ends[step.slot] = offset
        elif isinstance(step, Fork | Restore):
            if ends.setdefault(step.slot, offset) != offset:
                raise MixedOffsetsError("branches of different strides mix pair offsets")
            if isinstance(step, Restore):
                offset = ends[step.slot + 1]
            else:
                del ends[step.slot]
        found.insert(0, replace(level, step=offset))
    if any(end != offset for end in ends.values()):
        raise MixedOffsetsError("branches of different strides mix pair offsets")
    return _Part(tuple(steps), tuple(found), pool, carried)


def _shortened(field: tuple[Op, ...], part: _Part) -> _Part | None:
    """The part with one position after the first total window of a lifted field; None if it has none."""
    top = next((i for i, op in enumerate(field) if op.is_total), None)
    last = part.levels[-1]
    if top is None or last.on_grid:
        return None
    at = len(unrolled(field[:top]))
    after = part.steps[at + 1 :]
    if not all(step.keeps_constants for step in after):
        return None
    steps = (*part.steps[:at], part.steps[at].at_one_position(), *(step for step in after if not step.is_window))
    levels = (*part.levels[: at + 1], *[last.at_one_position()] * (len(steps) - at))
    return _Part(steps, levels)


_BAND = 8  # pair offsets of the first stage along the last axis but one


def _stages(parts: list[_Part], last: np.ndarray) -> tuple[Stage, ...]:
    """The stages; the last one runs the offsets `last`."""
    offsets = _offsets(parts, last)
    stages = []
    for k, part in enumerate(parts):
        own: tuple[FrozenArray, ...] = ()
        if k:
            diagonal = np.zeros((1, len(part.levels[0].grid.shape)), np.int32)
            own = tuple(map(FrozenArray, _offsets(parts[: k + 1], diagonal)[:-1]))
        stages.append(Stage(part.steps, part.levels, FrozenArray(offsets[k]), part.pool, own, part.carried))
    return tuple(stages)


def _offsets(parts: list[_Part], last: np.ndarray) -> list[np.ndarray]:
    """The offsets of each part, in order, if the last one runs `last`."""
    found = [last]
    for before, part in zip(reversed(parts[:-1]), reversed(parts[1:]), strict=True):
        assert part.pool is not None
        deltas = _differences(part.steps, part.levels[0].grid, found[0])
        found.insert(0, before.levels[-1].finer(part.pool, deltas))
    return [*(in_bands(each, n) for each, n in zip(found[:-1], _strides(parts), strict=False)), last]


def _strides(parts: list[_Part]) -> list[int]:
    """The product of the strides of all pools before each part, along the second-to-last axis."""
    each = [1 if part.pool is None or part.pool.box is None else part.pool.box.stride[-2:][0] for part in parts]
    return [prod(each[: k + 1]) for k in range(len(each))]


def _differences(steps: tuple[Step, ...], start: GridLevel, offsets: np.ndarray) -> np.ndarray:
    """Second minus first position of the pairs at these offsets of a stage, int64 (K, d)."""
    shape = np.array(start.shape, np.int64)
    offsets = np.unique(offsets.astype(np.int64) * np.array(start.step, np.int64), axis=0)
    first = next((op for op in steps if op.is_window), None)
    if first is None or first.reads_around:  # on around the torus; a stage without windows may as well
        offsets = np.unique(offsets % shape, axis=0)
        turns = np.array(list(itertools.product((0, 1), repeat=len(shape))), np.int64)
        offsets = (offsets[:, None] - turns * shape).reshape(-1, len(shape))
    return offsets[(np.abs(offsets) < shape).all(axis=1)]


def in_bands(offsets: np.ndarray, strides: int) -> np.ndarray:
    """Pair offsets sorted in bands of the second-to-last axis, from one end of the last axis to the other.

    A pool adds few neighbouring offsets to one coarse offset. The bands of a stage after pools with total stride
    `strides` match those of the first stage: coarse offsets are complete, and still in the cache, when they are read.
    """
    if offsets.ndim < 2 or offsets.shape[1] < 2:
        return offsets
    *before, row, column = offsets.T
    return offsets[np.lexsort([row, column, row // max(1, _BAND // strides), *reversed(before)])]
