"""How a program's kernel field is run: along the fibres that hold the wanted pairs of positions, or over all pairs.

A fibre of a field is a part of the result: what a readout would sum is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from equitangents.kernels.fields.part import Part
from equitangents.kernels.operation import NoFibresError
from equitangents.kernels.plans.levels import GridLevel, Level, TableLevel, grid_levels, lifted_levels
from equitangents.kernels.plans.plan import FibrePlan, PairPlan, over_all_pairs
from equitangents.kernels.plans.shorten import collapse_total_windows
from equitangents.kernels.plans.stages import StagedPlan, staged_field
from equitangents.kernels.program import FrozenArray, Program


@dataclass(frozen=True)
class FieldPlan:
    """Run `steps`, which has no readout, and keep the wanted pairs of positions of the level `last`.

    Along fibres there are values (fibres, first positions), over all pairs (positions, positions); see `places`.
    """

    steps: FibrePlan | StagedPlan | PairPlan
    part: Part
    last: Level | None  # None of a `PairPlan`

    @property
    def settled(self) -> bool:
        """Whether one number stands for a whole fibre, since its field is the same everywhere."""
        return isinstance(self.steps, FibrePlan) and self.steps.levels.levels[-1].positions < self.part.count

    @property
    def values(self) -> int:
        """How many numbers of a pair of inputs there are before the wanted ones are picked."""
        if isinstance(self.steps, PairPlan):
            return self.part.count**2
        fibres = self.steps.fibres if isinstance(self.steps, FibrePlan) else self.steps.stages[-1].fibres
        return len(fibres.array) * (1 if self.settled else self.part.count)


@lru_cache(maxsize=64)
def field_plan(program: Program, part: Part) -> FieldPlan:
    """The cheaper exact way to the wanted part of a program's field."""
    if program.form == "pairs":
        return FieldPlan(over_all_pairs(program, "asked for"), part, None)
    try:
        lift = program.lift
        levels = grid_levels(program.ops, program.shape) if lift is None else lifted_levels(program.ops, lift)
    except NoFibresError as error:
        return FieldPlan(over_all_pairs(program, str(error)), part, None)
    last = levels.levels[-1]
    fibres = FrozenArray(fibres_of(part, last))
    field = program.ops
    if (short := collapse_total_windows(field, levels)) is not None:
        field, levels = short
    labels = FrozenArray(np.full(levels.levels[-1].positions, -1, np.int32))  # no position is read out
    return FieldPlan(FibrePlan(field, levels, fibres, labels, 1.0, ()), part, last)


@lru_cache(maxsize=64)
def staged_field_plan(program: Program, part: Part) -> FieldPlan:
    """The plan of a program that pools on the way; raises NoFibresError if stages are no remedy."""
    steps = staged_field(program, lambda last: fibres_of(part, last))
    return FieldPlan(steps, part, steps.stages[-1].levels[-1])


@lru_cache(maxsize=8)
def places(plan: FieldPlan) -> np.ndarray:
    """Where each wanted pair lies among the values, one after another: int64 of the shape `part.layout.tail`."""
    first, second = plan.part.positions()
    if plan.last is None:
        return first * plan.part.count + second
    numbers = np.searchsorted(_wanted(plan.part, plan.last), _codes(plan.last, first, second))
    return numbers if plan.settled else numbers * plan.part.count + first


def fibres_of(part: Part, last: Level) -> np.ndarray:
    """The fibres that hold the wanted pairs: int32 (F, d) offsets on grids, (F,) elements of a group."""
    wanted = _wanted(part, last)
    if isinstance(last, TableLevel):
        return wanted.astype(np.int32)
    offsets = np.stack(np.unravel_index(wanted, _box(last)), axis=-1).astype(np.int32)
    return offsets if last.wrap else offsets - np.array(last.shape, np.int32) + 1


def _wanted(part: Part, last: Level) -> np.ndarray:
    """The numbers of these fibres among all, in ascending order."""
    if part.kind == "all":
        return np.arange(len(last.table.array) if isinstance(last, TableLevel) else np.prod(_box(last), dtype=np.int64))
    return np.unique(_codes(last, *part.positions()))


def _codes(last: Level, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The number of the fibre that joins each first position to the second: an offset's or an element's."""
    if isinstance(last, TableLevel):
        return _elements(last.table)[first, second]
    ones, others = np.unravel_index(first, last.shape), np.unravel_index(second, last.shape)
    gaps = [(b - a) % n if last.wrap else b - a + n - 1 for n, a, b in zip(last.shape, ones, others, strict=True)]
    return np.ravel_multi_index(tuple(gaps), _box(last))


def _box(last: GridLevel) -> tuple[int, ...]:
    """All offsets on a grid, or on a torus."""
    return last.shape if last.wrap else tuple(2 * n - 1 for n in last.shape)


@lru_cache(maxsize=8)
def _elements(table: FrozenArray) -> np.ndarray:
    """(P, P'): which element of a group moves a position to another; row q of the table holds where q moves each."""
    rows, columns = table.array.shape
    found = np.empty((columns, columns), np.int64)
    found[np.arange(columns), table.array] = np.arange(rows)[:, None]
    return found
