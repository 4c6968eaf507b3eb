"""Plans as three arrays of numbers, read by the C++ engine (`native/src/plan.cpp`).

`code` holds the levels and operations, `reals` all factors and weights, `tables` all tables of indices; code refers to
the other two by position. Grids get leading axes of length 1 up to three.

Plans for programs on rotations have a field of one position at every relative rotation; signals are their harmonic
coefficients, one vector (B²·C,) each, scaled so that their kernel is the mean of products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from equitangents.kernels.engines.codes import AXES, DEPTH, PLAN_VERSION, DualKind, OpKind
from equitangents.kernels.engines.cpu.activations import (
    Described,
    bends_what_is_smooth,
    changes_units,
    computed_in_double,
    described,
    name_of,
)
from equitangents.kernels.levels import Level
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    FrozenArray,
    IndexTable,
    Pool,
    RatedAffine,
    Standardise,
)
from equitangents.kernels.plans import AddSaved, AnyPool, Fork, OffsetPlan, PairPlan, Restore, Stage, Step
from equitangents.kernels.scales import changes_unit, unit_bias, unit_biases


@dataclass(frozen=True)
class RelativeRotations:
    """Relative rotations of fields of one position.

    Either rings of Euler angles R_z(α) R_y(β) R_z(γ), each of azimuths² rotations of one weight: `waves`,
    (azimuths // 2 + 1, 2B - 1), hold cos kα for k ≥ 0 and sin |k|α for k < 0, and `mixing`, (rings, 2, entries), the
    factors that make a ring's spectrum of the products of degrees 1 to B - 1 (see `rotations.hpp`). Or, with
    azimuths = 0, single rotations, and `mixing` holds their Wigner matrices, degree after degree.
    """

    bandlimit: int
    azimuths: int
    waves: np.ndarray
    mixing: np.ndarray
    weights: np.ndarray

    @property
    def count(self) -> int:
        """The number of rotations."""
        return int(self.weights.size * max(1, self.azimuths) ** 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class RotationPlan(OffsetPlan):
    """Run its stage at every rotation, average with their weights, then run `vector`."""

    rotations: RelativeRotations
    single = False
    __eq__ = object.__eq__
    __hash__ = object.__hash__


_LARGEST = 2**31 - 1  # what an index of the engine can count


@dataclass(frozen=True, eq=False)
class Description:
    """The arrays, all int32; `reals` are the bits of doubles."""

    code: np.ndarray
    reals: np.ndarray
    tables: np.ndarray


class Numbers:
    """The concatenated reals and tables of a description; equal tables are stored once."""

    def __init__(self) -> None:
        self._reals: list[np.ndarray] = []
        self._tables: list[np.ndarray] = []
        self._ends = [0, 0]
        self._tables_at: dict[str, int] = {}

    def real(self, values: npt.ArrayLike) -> int:
        """Index of the first of these numbers, which are appended."""
        array = np.asarray(values, np.float64).ravel()
        self._reals.append(array)
        self._ends[0] += array.size
        return self._ends[0] - array.size

    def table(self, table: FrozenArray) -> int:
        """Index of the first entry of a table."""
        if table.key not in self._tables_at:
            self._tables_at[table.key] = self._ends[1]
            self._tables.append(table.array)
            self._ends[1] += table.array.size
        return self._tables_at[table.key]

    def coefficients(self, of: Described) -> int:
        """Index of the first coefficient of an activation kernel."""
        return self.real(of.coefficients) if of.count else 0

    def described(self, code: list[int]) -> Description:
        """The description with `code`, as arrays."""
        reals = np.concatenate(self._reals).view(np.int32)
        tables = np.concatenate([np.asarray(t, np.int32).ravel() for t in self._tables])
        return Description(np.array(code, np.int32), reals, tables)


def affine_numbers(op: Affine) -> tuple[float, float, float, float]:
    """Variances of weights and bias, and their tangent-kernel factors for other learning-rate scalings."""
    weight_rate, bias_rate = op.rates or (op.W_var, 0.0)
    return op.W_var, op.b_var, 1.0 if op.rates is None else weight_rate / op.W_var, bias_rate


@lru_cache(maxsize=256)
def obstacle(plan: OffsetPlan | PairPlan) -> str | None:
    """Why the engine cannot run `plan`, or None if it can."""
    if plan.form == "pairs":
        return f"it runs by pair offset only, and here {plan.why}"
    for op in plan.steps:
        if (phi := op.nonlinearity) is not None and described(phi) is None:
            return f"it has no dual of {name_of(phi)}"
    if any(op.moves_no_weight for op in plan.steps):
        return "it has no weights of variance 0 but in the NTK parametrisation"
    for stage in plan.stages:
        for op, before, after in zip(stage.steps, stage.levels[:-1], stage.levels[1:], strict=True):
            if not (op.stays or _fits_windows(op, before, after)):
                return f"it has no {type(op).__name__} of this kind"
    for op in plan.vector:
        if isinstance(op, Decouple) or not op.stays:
            return f"it has no {type(op).__name__} on plain vectors"
    if max((step.slot + 1 for step in plan.steps if isinstance(step, Fork)), default=0) > DEPTH:
        return f"it has at most {DEPTH} residual branches inside each other"
    if any(len(level.shape) > AXES for level in plan.levels):
        return f"its grids have at most {AXES} dimensions"
    if sum(table.size for table in plan.tables.values()) > _LARGEST or plan.positions > _LARGEST // 64:
        return "the index tables of the network are too large for it"
    return None


def _fits_windows(op: Step, before: Level, after: Level) -> bool:
    """Whether the engine supports an operation as a mean over windows between these levels."""
    if op.grids is None:
        return op.is_window and not after.on_grid
    lifted = not (before.on_grid or after.on_grid)
    return not lifted or (op.reads_around and set(map(math.prod, op.grids)) == {before.positions})


def _window_grid(steps: Sequence[Step], levels: Sequence[Level], i: int) -> tuple[int, ...]:
    """The grid of the windows around level i of a lifted program; without windows, one row."""
    row = (levels[i].positions,)
    after = next((op for op in steps[i:] if op.is_window), None)
    before = next((op for op in reversed(steps[:i]) if op.is_window), None)
    if after is not None:
        return after.grids[0] if after.grids else row
    return before.grids[1] if before is not None and before.grids else row


@lru_cache(maxsize=64)
def describe(plan: OffsetPlan, channels: int) -> Description:
    """The description of a plan that has no obstacle, for inputs with `channels` channels."""
    return _PlanWriter(plan).description(channels)


def _three(values: Any, filler: int) -> list[int]:
    numbers = [int(v) for v in values]
    return [filler] * (AXES - len(numbers)) + numbers


class _PlanWriter(Numbers):
    def __init__(self, plan: OffsetPlan) -> None:
        super().__init__()
        self.plan, self.stages, self.steps = plan, plan.stages, plan.steps
        self.bent = bends_what_is_smooth(self.steps)
        # Biases in the units behind operations that change them, in order; None: units do not change.
        self.units_behind = unit_biases(self.steps, _changes_unit) if changes_units(plan) else None
        self.code: list[int] = []

    def description(self, channels: int) -> Description:
        plan = self.plan
        self.real(plan.block_weight)
        rotations = plan.rotations if isinstance(plan, RotationPlan) else None
        in_double = rotations is None and computed_in_double(plan, channels)
        self.code += [PLAN_VERSION, channels, len(self.stages), len(plan.vector), int(in_double), int(plan.single)]
        bias = unit_bias(self.steps) if self.units_behind is None else self.units_behind.pop(0)
        self.code += [int(bias is not None), int(self.units_behind is not None), self.real(bias or 0.0)]
        self.code += [self.table(plan.labels), *self.rotations(rotations)]
        for i, stage in enumerate(self.stages):
            self.stage(stage, self.stages[:i])
        for stage in self.stages:
            for op, before, after in zip(stage.steps, stage.levels[:-1], stage.levels[1:], strict=True):
                self.operation(op, moves=before.on_grid is not after.on_grid or not after.joins(before))
        for op in plan.vector:
            self.operation(op)
        return self.described(self.code)

    def unit_behind(self, op: Any) -> tuple[bool, float]:
        """(whether an operation changes the scaling, the square that biases add to it)."""
        if self.units_behind is None or not _changes_unit(op):
            return False, 0.0
        return True, self.units_behind.pop(0)

    def stage(self, stage: Stage, before: tuple[Stage, ...]) -> None:
        """Write a stage: counts, the pool before it with the offsets that its variances need, and levels."""
        self.code += [len(stage.steps)]
        self.offsets(stage.offsets, stage.levels[0])
        if stage.pool is not None:
            self.pool(stage.pool, stage.carried)
            for offsets, earlier in zip(stage.own, before, strict=True):
                self.offsets(offsets, earlier.levels[0])
        for i, level in enumerate(stage.levels):
            self.level(level, _window_grid(stage.steps, stage.levels, i))

    def offsets(self, offsets: FrozenArray, level: Level) -> None:
        array = offsets.array
        if level.on_grid:
            array = np.pad(array, ((0, 0), (AXES - array.shape[1], 0)))
        self.code += [len(array), self.table(FrozenArray(array))]

    def pool(self, pool: AnyPool, carried: tuple[tuple[int, int], ...]) -> None:
        """Write a pool, over windows on a grid or blocks of positions, and the fields kept by branches around it."""
        box = pool.box
        if isinstance(pool, Pool) and box is None:
            labels = pool.labels.array
            size = int(np.count_nonzero(labels >= 0)) // pool.blocks
            ends = [1, 1, len(labels), 1, 1, pool.blocks]
            self.code += [0, *ends, *[1] * 2 * AXES, *[0] * AXES, 0, self.table(pool.labels)]
        else:
            assert box is not None
            size = int(np.prod(box.window))
            self.code += [1, *_three(box.in_shape, 1), *_three(box.out_shape, 1), *_three(box.window, 1)]
            self.code += [*_three(box.stride, 1), *_three(box.low, 0), int(box.wrap), 0]
        self.code += [self.real(1 / size**2), len(carried), *(number for pair in carried for number in pair)]

    def rotations(self, rotations: RelativeRotations | None) -> list[int]:
        if rotations is None:
            return [0] * 6
        found = map(self.real, (rotations.waves, rotations.mixing, rotations.weights))
        return [rotations.bandlimit, rotations.weights.size, rotations.azimuths, *found]

    def level(self, level: Level, torus: tuple[int, ...]) -> None:
        if level.on_grid:
            shape, step = _three(level.shape, 1), _three(level.step, 1)
            self.code += [1, *shape, *step, int(level.wrap), level.positions, 0, 0]
        else:
            rows = len(level.table.array)
            self.code += [0, *_three(torus, 1), *[1] * AXES, 1, level.positions, self.table(level.table), rows]

    def operation(self, op: Step, moves: bool = False) -> None:
        """Write an operation; `moves`: its input positions are not the last output's, as at the start of a branch."""
        made = _CODES[type(op)](self, op)
        flag = moves if isinstance(op, Restore) else made.flag
        self.code += [int(made.kind), *made.box, made.index, made.weights, made.count, int(flag), int(made.dual)]
        self.code += [made.slot, self.real(made.numbers)]

    def dual(self, op: Dual) -> _Code:
        found = described(op.activation, bent=self.bent)
        assert found is not None  # see `obstacle`
        changed, bias = self.unit_behind(op)
        weights, numbers = self.coefficients(found), (found.first, found.second, found.offset, bias)
        return _Code(OpKind.DUAL, weights=weights, count=found.count, flag=changed, dual=found.kind, numbers=numbers)

    def standardise(self, op: Standardise) -> _Code:
        changed, bias = self.unit_behind(op)
        return _Code(OpKind.DUAL, flag=changed, dual=DualKind.STANDARDISED, numbers=(op.eps, 0.0, 0.0, bias))


_NO_BOX = (*[1] * 4 * AXES, *[0] * AXES, 1)


@dataclass(frozen=True)
class _Code:
    """An operation as numbers for `native/src/plan.cpp`."""

    kind: OpKind
    box: tuple[int, ...] = _NO_BOX
    index: int = 0
    weights: int = 0
    count: int = 0
    flag: bool = False
    dual: int = 0
    slot: int = 0
    numbers: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)


def _changes_unit(op: object) -> bool:
    """Whether fields' scaling may change in a step; branches are rescaled to a common one before they are added."""
    return isinstance(op, AddSaved) or changes_unit(op)


def _box(to: _PlanWriter, op: Box) -> _Code:
    sides = (*_three(op.in_shape, 1), *_three(op.out_shape, 1), *_three(op.window, 1), *_three(op.stride, 1))
    return _Code(OpKind.BOX, box=(*sides, *_three(op.low, 0), int(op.wrap)))


def _table(to: _PlanWriter, op: IndexTable) -> _Code:
    index, weights = to.table(op.index), to.real(op.weights.array)
    return _Code(OpKind.TABLE, index=index, weights=weights, count=op.span, flag=op.is_total)


def _affine(to: _PlanWriter, op: Affine) -> _Code:
    return _Code(OpKind.AFFINE, flag=op.rates is not None, numbers=affine_numbers(op))


def _add_saved(to: _PlanWriter, op: AddSaved) -> _Code:
    numbers = (*(op.shares or (1.0, 1.0)), to.unit_behind(op)[1], 0.0)
    return _Code(OpKind.JOIN, slot=op.slot, flag=op.shares is not None, numbers=numbers)


_CODES: dict[type, Callable[[_PlanWriter, Any], _Code]] = {
    Box: _box,
    IndexTable: _table,
    Affine: _affine,
    RatedAffine: _affine,
    Dual: _PlanWriter.dual,
    Standardise: _PlanWriter.standardise,
    Decouple: lambda to, op: _Code(OpKind.DECOUPLE),
    Fork: lambda to, op: _Code(OpKind.FORK, slot=op.slot),
    AddSaved: _add_saved,
    Restore: lambda to, op: _Code(OpKind.BACK, slot=op.slot),
}
