"""Plans of kernel fields: along the fibres that hold the wanted pairs of positions, or over all pairs.

A fibre of a field is a part of the result: what a readout would sum is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from equitangents.kernels.fields.part import Part
from equitangents.kernels.operation import FrozenArray, NoFibresError
from equitangents.kernels.plans.levels import Level, grid_levels, lifted_levels
from equitangents.kernels.plans.plan import FibrePlan, PairPlan, over_all_pairs
from equitangents.kernels.plans.shorten import collapse_total_windows
from equitangents.kernels.plans.stages import StagedPlan, staged_field
from equitangents.kernels.program import Program


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
        """Whether the field of each fibre is constant, so that one number represents it."""
        return self.steps.settles(self.part.count)

    @property
    def values(self) -> int:
        """Numbers per pair of inputs before the wanted ones are selected."""
        return self.steps.field_values(self.part.count)


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
    """The plan of a program with pools between layers; raises NoFibresError if it has no stages."""
    steps = staged_field(program, lambda last: fibres_of(part, last))
    return FieldPlan(steps, part, steps.stages[-1].levels[-1])


@lru_cache(maxsize=8)
def places(plan: FieldPlan) -> np.ndarray:
    """Where each wanted pair lies among the values, one after another: int64 of the shape `part.layout.tail`."""
    first, second = plan.part.positions()
    if plan.last is None:
        return first * plan.part.count + second
    numbers = np.searchsorted(_wanted(plan.part, plan.last), plan.last.fibre_numbers(first, second))
    return numbers if plan.settled else numbers * plan.part.count + first


def fibres_of(part: Part, last: Level) -> np.ndarray:
    """The fibres that hold the wanted pairs: int32 (F, d) offsets on grids, (F,) elements of a group."""
    return last.fibres(_wanted(part, last))


def _wanted(part: Part, last: Level) -> np.ndarray:
    """The numbers of these fibres among all, in ascending order."""
    if part.kind == "all":
        return np.arange(last.fibre_count)
    return np.unique(last.fibre_numbers(*part.positions()))
