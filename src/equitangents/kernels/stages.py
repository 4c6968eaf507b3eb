"""Networks as compiled engines run them along fibres: one stage up to each pool, and one after the last.

Branches are one list of operations, where a field is kept and added again.

After a pool over windows of side w and stride s, the fibre Q of the coarse field is a sum over the fine fibres sQ + r
with |r| < w along each axis, each over the positions where both ends fall into the windows. Every fine fibre is run
once and added into the coarse fibres that it falls into, so that what is held is one coarse field over pairs of
positions. The next stage begins with it as the first one does with the signals. What residual branches around the pool
add after it is held in the same way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np

from equitangents.kernels.operations import FrozenArray, HashedOnce, NoFibresError, Operation, Pool, WindowPool
from equitangents.kernels.plans import (
    FibrePlan,
    GridLevel,
    Level,
    Levels,
    compose_readout,
    grid_levels,
    lifted_levels,
    split,
    still,
)
from equitangents.kernels.program import Op, Program


@dataclass(frozen=True)
class Fork(Operation):
    """The field is kept in `slot`, and the branch goes on with it."""

    stays: ClassVar[bool] = True
    ends_layer: ClassVar[bool] = True
    slot: int


@dataclass(frozen=True)
class Restore(Operation):
    """The next of several branches begins: the field is again what was kept in `slot`, and stays there.

    `moves`: the positions are others than those of the branch before.
    """

    said: ClassVar[str] = "parallel branches"
    stays: ClassVar[bool] = True
    slot: int
    moves: bool = False


@dataclass(frozen=True)
class AddSaved(Operation):
    """Add the field that operation `fork` kept in `slot`.

    With `shares` (w of what was kept, w' of the other) channels are put side by side, so that no means are multiplied.
    """

    stays: ClassVar[bool] = True
    ends_layer: ClassVar[bool] = True
    slot: int
    fork: int
    shares: tuple[float, float] | None = None


Step = Op | Fork | Restore | AddSaved


def unrolled(ops: tuple[Op, ...], levels: Levels | None = None) -> tuple[list[Step], list[Level]]:
    """(operations, the levels before each and after the last); without levels those of one position."""
    levels = still(ops, GridLevel((), wrap=True)) if levels is None else levels
    steps, found = list[Step](), [levels.levels[0]]
    _unroll(ops, levels, 0, steps, found)
    return steps, found


def depth(steps: Sequence[Step]) -> int:
    """Depth of nested branches."""
    return max((step.slot + 1 for step in steps if isinstance(step, Fork)), default=0)


def _open_forks(forks: dict[int, int], step: Step, at: int) -> dict[int, int]:
    """Where fields are kept that are not added yet, by slot, after step number `at`; before it `forks`."""
    if isinstance(step, Fork):
        return forks | {step.slot: at}
    return {slot: begun for slot, begun in forks.items() if not (isinstance(step, AddSaved) and slot == step.slot)}


def _unroll(ops: tuple[Op, ...], levels: Levels, slot: int, steps: list[Step], found: list[Level]) -> None:
    for op, after, inner in zip(ops, levels.levels[1:], levels.branches, strict=True):
        if op.residual is not None:
            fork = len(steps)
            steps.append(Fork(slot))
            found.append(inner[1].levels[0])
            _unroll(op.residual, inner[1], slot + 1, steps, found)
            steps.append(AddSaved(slot, fork))
            found.append(after)
        elif inner:
            _side_by_side(op, inner, slot, steps, found)
            found[-1] = after
        else:
            steps.append(op)
            found.append(after)


def _side_by_side(op: Op, inner: tuple[Levels, ...], slot: int, steps: list[Step], found: list[Level]) -> None:
    """One branch after another: the field is kept in `slot`, and what the branches before have made in the next one."""
    for number, (branch, own) in enumerate(zip(op.held, inner, strict=True)):
        made, first = len(steps), own.levels[0]
        if number:
            steps += [Fork(slot + 1), Restore(slot, _differ(found[-1], first))]
            found += [found[-1], first]
        else:
            steps.append(Fork(slot))
            found.append(first)
        _unroll(branch, own, slot + 1 + (number > 0), steps, found)
        if number:
            shares = None
            if op.shares is not None:
                shares = (op.shares[0] if number == 1 else 1.0, op.shares[number])
            steps.append(AddSaved(slot + 1, made, shares))
            found.append(own.levels[-1])


def _differ(before: Level, after: Level) -> bool:
    return before.shape != after.shape if before.on_grid and after.on_grid else before != after


def fits_windows(op: Step, before: Level, after: Level) -> bool:
    """Whether an operation is a mean over windows that compiled engines have between these levels."""
    if op.grids is None:
        return op.is_window and not after.on_grid
    lifted = not (before.on_grid or after.on_grid)
    return not lifted or (op.reads_around and set(map(math.prod, op.grids)) == {before.positions})


def window_grid(steps: Sequence[Step], levels: Sequence[Level], i: int) -> tuple[int, ...]:
    """The grid on which the windows around level i of a lifted program work; without windows, one row."""
    row = (levels[i].positions,)
    after = next((op for op in steps[i:] if op.is_window), None)
    before = next((op for op in reversed(steps[:i]) if op.is_window), None)
    if after is not None:
        return after.grids[0] if after.grids else row
    return before.grids[1] if before is not None and before.grids else row


AnyPool = Pool | WindowPool
_BAND = 8  # fibres of the first stage along the last axis but one


@dataclass(frozen=True)
class Stage:
    """Run `steps` along `fibres`, from the signals, or from the stage before after its `pool`.

    `own[j]` are the fibres of stage j that the diagonal fibre of this one needs: they give the variances after the
    pool. `carried` are the slots in which branches around the pool keep a field, each with the level of the stage
    before at which it is kept.
    """

    steps: tuple[Step, ...]
    levels: tuple[Level, ...]  # before each step, and after the last
    fibres: FrozenArray  # int32 (F, d) offsets on grids, (F,) elements of a group
    pool: AnyPool | None = None
    own: tuple[FrozenArray, ...] = ()
    carried: tuple[tuple[int, int], ...] = ()

    @property
    def pairs_of_positions(self) -> int:
        """Numbers in the field over pairs of positions with which the stage begins."""
        start = self.levels[0].grid
        offsets = self.fibres.array.astype(np.int64) * np.array(start.step, np.int64)
        shape = np.array(start.shape, np.int64)
        if begins_on_torus(self.steps):
            return len(np.unique(offsets % shape, axis=0)) * prod(start.shape)
        return int(np.maximum(shape - np.abs(np.unique(offsets, axis=0)), 0).prod(axis=1).sum())


@dataclass(frozen=True)
class StagedPlan(HashedOnce):
    """Run the stages, weigh the pairs that `labels` puts into one block, then run `vector`."""

    stages: tuple[Stage, ...]
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
        return len(self.stages[-1].fibres.array) == 1

    @property
    def positions(self) -> int:
        """The largest field that one fibre needs."""
        return max(level.positions for stage in self.stages for level in stage.levels)

    @property
    def pairs_of_positions(self) -> int:
        """Numbers over pairs of positions, in all fields between stages."""
        return sum(stage.pairs_of_positions * (1 + len(stage.carried)) for stage in self.stages[1:])


AlongFibres = FibrePlan | StagedPlan  # what compiled engines may run


def stages_of(plan: Any) -> tuple[Stage, ...]:
    """The stages of a plan; any other than a StagedPlan is of one."""
    if isinstance(plan, StagedPlan):
        return plan.stages
    steps, levels = unrolled(plan.field, plan.levels)
    return (Stage(tuple(steps), tuple(levels), plan.fibres),)


@dataclass(frozen=True)
class _Part:
    """A stage before its fibres are known."""

    steps: tuple[Step, ...]
    levels: tuple[Level, ...]
    pool: AnyPool | None
    carried: tuple[tuple[int, int], ...]


@lru_cache(maxsize=256)
def staged(program: Program) -> StagedPlan:
    """The stages of a program that pools before a later layer; raises NoFibresError if these are no remedy."""
    field, readout, vector = split(program.ops)
    if any(op.held for op in readout):
        raise NoFibresError("a branch after partial pooling mixes fibres")
    parts = _lifted(field, program) if program.lift is not None else _on_grids(field, program.shape)
    labels, affine = compose_readout(readout, parts[-1].levels[-1].positions)
    stages = _stages(parts, in_bands(parts[-1].levels[-1].fibres_within(labels), _strides(parts)[-1]))
    sizes = np.bincount(labels[labels >= 0])
    weight = 1.0 / (len(sizes) * float(sizes[0]) ** 2)
    return StagedPlan(stages, FrozenArray(labels), weight, affine + vector)


def staged_field(program: Program, fibres_of: Callable[[Level], np.ndarray]) -> StagedPlan:
    """The stages of a program without a readout; `fibres_of` says which fibres of the last level are wanted.

    No position has a label, since none is read out.
    """
    parts = _lifted(program.ops, program) if program.lift is not None else _on_grids(program.ops, program.shape)
    last = parts[-1].levels[-1]
    labels = FrozenArray(np.full(last.positions, -1, np.int32))
    return StagedPlan(_stages(parts, fibres_of(last)), labels, 1.0, ())


def _stages(parts: list[_Part], last: np.ndarray) -> tuple[Stage, ...]:
    """The stages, of which the last runs the fibres `last`."""
    fibres = _fibres(parts, last)
    stages = []
    for k, part in enumerate(parts):
        own: tuple[FrozenArray, ...] = ()
        if k:
            diagonal = np.zeros((1, len(part.levels[0].grid.shape)), np.int32)
            own = tuple(map(FrozenArray, _fibres(parts[: k + 1], diagonal)[:-1]))
        stages.append(Stage(part.steps, part.levels, FrozenArray(fibres[k]), part.pool, own, part.carried))
    return tuple(stages)


def _fibres(parts: list[_Part], last: np.ndarray) -> list[np.ndarray]:
    """The fibres of each part, where the last one runs `last`, in their order."""
    found = [last]
    for before, part in zip(reversed(parts[:-1]), reversed(parts[1:]), strict=True):
        assert part.pool is not None
        apart = differences(part.steps, part.levels[0].grid, found[0])
        found.insert(0, before.levels[-1].finer(part.pool, apart))
    return [*(in_bands(each, n) for each, n in zip(found[:-1], _strides(parts), strict=False)), last]


def _strides(parts: list[_Part]) -> list[int]:
    """The product of the strides of all pools before each part, along the last axis but one."""
    each = [1 if part.pool is None or part.pool.box is None else part.pool.box.stride[-2:][0] for part in parts]
    return [prod(each[: k + 1]) for k in range(len(each))]


def _lifted(field: tuple[Op, ...], program: Program) -> list[_Part]:
    """Layers on a group, a pool over cosets, and layers at each coset alone: any order of these will do."""
    assert program.lift is not None
    at = next((i for i, op in enumerate(field) if isinstance(op, Pool)), None)
    if at is None:
        raise NoFibresError("a convolution before the lift, or a pool inside a residual branch, mixes fibres")
    steps, levels = unrolled(field[:at], lifted_levels(field[:at], program.lift))
    pool = field[at]
    if not isinstance(pool, Pool) or pool.box is not None or levels[-1].on_grid:
        raise NoFibresError("pooling before the lift mixes fibres")
    after = field[at + 1 :]
    found = grid_levels(after, (pool.blocks,))
    later_steps, later_levels = unrolled(after, found)
    return [
        _Part(tuple(steps), tuple(levels), None, ()),
        _Part(tuple(later_steps), tuple(later_levels), pool, ()),
    ]


def _on_grids(field: tuple[Op, ...], shape: tuple[int, ...]) -> list[_Part]:
    """The operations between pools. After a pool all pairs of positions are there: each part begins on a torus anew."""
    steps, _ = unrolled(field)
    parts: list[_Part] = []
    level, pool = GridLevel(shape, wrap=True), None
    now: list[Step] = []
    levels: list[GridLevel] = [level]
    forks: dict[int, int] = {}  # open ones: in which slot, and at which level of the part
    carried: tuple[tuple[int, int], ...] = ()
    for step in steps:
        if isinstance(step, Restore):
            raise NoFibresError("parallel branches and pools between layers mix fibres")
        if isinstance(step, Pool | WindowPool):
            parts.append(_with_offsets(now, levels, pool, carried))
            carried = tuple(forks.items())
            if any(levels[at].shape != _pooled_shape(step, level) for _, at in carried):
                raise NoFibresError("a strided branch mixes fibres")
            forks = dict.fromkeys(forks, 0)
            pool, level = step, GridLevel(_pooled_shape(step, level), wrap=True)
            now, levels = [], [level]
            continue
        forks = _open_forks(forks, step, len(now))
        level = level.after(step)
        now.append(step)
        levels.append(level)
    if not parts:
        grid_levels(field, shape)  # says what mixes the fibres of layers without pools
        raise NoFibresError("pooling after the last layer mixes fibres")
    return [*parts, _with_offsets(now, levels, pool, carried)]


def _pooled_shape(pool: AnyPool, level: GridLevel) -> tuple[int, ...]:
    box = pool.box
    if box is None or box.in_shape != level.shape:
        raise NoFibresError("pooling in blocks that are not windows of the grid mixes fibres")
    if box.wrap and not level.wrap:
        raise NoFibresError("circular padding after a layer that breaks the torus mixes fibres")
    return box.out_shape


def _with_offsets(
    steps: list[Step], levels: list[GridLevel], pool: AnyPool | None, carried: tuple[tuple[int, int], ...]
) -> _Part:
    """Fill in how far a fibre's label reaches on each level; a branch must begin with the offsets that it ends with."""
    one = (1,) * len(levels[-1].shape)
    found = [replace(levels[-1], step=one)]
    forks = dict(carried)
    for step in steps:
        forks = _open_forks(forks, step, 0)
    joined = dict.fromkeys(forks, one)  # those that a later part joins
    for step, level in zip(reversed(steps), reversed(levels[:-1]), strict=True):
        offset = found[0].step
        offset = step.offset_before(offset)
        if isinstance(step, AddSaved):
            joined[step.slot] = offset
        elif isinstance(step, Fork) and joined.pop(step.slot) != offset:
            raise NoFibresError("a strided branch mixes fibres")
        found.insert(0, replace(level, step=offset))
    if any(offset != found[0].step for offset in joined.values()):
        raise NoFibresError("a strided branch mixes fibres")
    return _Part(tuple(steps), tuple(found), pool, carried)


def begins_on_torus(steps: tuple[Step, ...]) -> bool:
    """Whether a stage's first window reads on around the torus; a stage without windows may as well."""
    first = next((op for op in steps if op.is_window), None)
    return first is None or first.reads_around


def differences(steps: tuple[Step, ...], start: GridLevel, fibres: np.ndarray) -> np.ndarray:
    """(K, d): second less first position of the pairs that a stage's fibres begin with."""
    shape = np.array(start.shape, np.int64)
    offsets = np.unique(fibres.astype(np.int64) * np.array(start.step, np.int64), axis=0)
    if begins_on_torus(steps):
        offsets = np.unique(offsets % shape, axis=0)
        turns = np.array(list(itertools.product((0, 1), repeat=len(shape))), np.int64)
        offsets = (offsets[:, None] - turns * shape).reshape(-1, len(shape))
    return offsets[(np.abs(offsets) < shape).all(axis=1)]


def in_bands(fibres: np.ndarray, strides: int) -> np.ndarray:
    """Fibres in bands of the last axis but one, from one end of the last axis to the other.

    A pool adds few neighbours to one coarse fibre. The bands of a stage that follows pools of `strides` together are
    those of the first: coarse fibres are complete, and still in the cache, when it is their turn.
    """
    if fibres.ndim < 2 or fibres.shape[1] < 2:
        return fibres
    *before, row, column = fibres.T
    return fibres[np.lexsort([row, column, row // max(1, _BAND // strides), *reversed(before)])]
