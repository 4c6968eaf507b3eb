"""Residual branches as compiled engines run them: one list of operations, where a field is kept and added again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equitangents.kernels.levels import Level, Levels
from equitangents.kernels.program import Branch, Op


@dataclass(frozen=True)
class Fork:
    """The field is kept in `slot`, and the branch goes on with it."""

    slot: int


@dataclass(frozen=True)
class Join:
    """What operation number `fork` kept in `slot` is added."""

    slot: int
    fork: int


Step = Op | Fork | Join


def unrolled(ops: tuple[Op, ...], levels: Levels | None = None) -> tuple[list[Step], list[Level]]:
    """(operations, the levels before each and after the last, if any were given)."""
    steps: list[Step] = []
    found: list[Level] = [] if levels is None else [levels.levels[0]]
    _unroll(ops, levels, 0, steps, found)
    return steps, found


def depth(steps: Sequence[Step]) -> int:
    """How many branches lie inside each other."""
    return max((step.slot + 1 for step in steps if isinstance(step, Fork)), default=0)


def _unroll(ops: tuple[Op, ...], levels: Levels | None, slot: int, steps: list[Step], found: list[Level]) -> None:
    for i, op in enumerate(ops):
        step: Step = op
        if isinstance(op, Branch):
            inner = None if levels is None else levels.branches[i]
            fork = len(steps)
            steps.append(Fork(slot))
            if inner is not None:
                found.append(inner.levels[0])
            _unroll(op.ops, inner, slot + 1, steps, found)
            step = Join(slot, fork)
        steps.append(step)
        if levels is not None:
            found.append(levels.levels[i + 1])
