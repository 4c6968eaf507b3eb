"""Branches as compiled engines run them: one list of operations, where a field is kept and added again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from equitangents.kernels.branches import Parallel
from equitangents.kernels.operation import NoFibresError, Operation
from equitangents.kernels.plans.levels import Level, Levels
from equitangents.kernels.program import Op


class Kept(Operation):
    """A step between branches, which leaves all positions where they are."""

    stays: ClassVar[bool] = True
    slot: int


@dataclass(frozen=True)
class Fork(Kept):
    """The field is kept in `slot`, and the branch goes on with it."""

    ends_layer: ClassVar[bool] = True
    slot: int

    def forks_after(self, forks: dict[int, int], at: int) -> dict[int, int]:
        """One more is open."""
        return forks | {self.slot: at}

    @property
    def slots(self) -> int:
        """Its own, and those before it."""
        return self.slot + 1

    def join_offsets(self, joined: dict[int, tuple[int, ...]], offset: tuple[int, ...]) -> None:
        """The branch begins here."""
        if joined.pop(self.slot) != offset:
            raise NoFibresError("a strided branch mixes fibres")


@dataclass(frozen=True)
class Restore(Kept):
    """The next of several branches begins: the field is again what was kept in `slot`, and stays there.

    `moves`: the positions are others than those of the branch before.
    """

    said: ClassVar[str] = "parallel branches"
    slot: int
    moves: bool = False


@dataclass(frozen=True)
class AddSaved(Kept):
    """Add the field that operation `fork` kept in `slot`.

    With `shares` (w of what was kept, w' of the other) channels are put side by side, so that no means are multiplied.
    """

    ends_layer: ClassVar[bool] = True
    slot: int
    fork: int
    shares: tuple[float, float] | None = None

    def forks_after(self, forks: dict[int, int], at: int) -> dict[int, int]:
        """The one in its slot is not open any more."""
        return {slot: begun for slot, begun in forks.items() if slot != self.slot}

    def join_offsets(self, joined: dict[int, tuple[int, ...]], offset: tuple[int, ...]) -> None:
        """The branch ends here."""
        joined[self.slot] = offset


Step = Op | Fork | Restore | AddSaved


def unrolled(ops: tuple[Op, ...], levels: Levels | None = None) -> tuple[list[Step], list[Level]]:
    """(operations, the levels before each and after the last, if any were given)."""
    steps: list[Step] = []
    found: list[Level] = [] if levels is None else [levels.levels[0]]
    _unroll(ops, levels, 0, steps, found)
    return steps, found


def depth(steps: Sequence[Step]) -> int:
    """Depth of nested branches."""
    return max((step.slots for step in steps), default=0)


def _unroll(ops: tuple[Op, ...], levels: Levels | None, slot: int, steps: list[Step], found: list[Level]) -> None:
    for i, op in enumerate(ops):
        step: Step = op
        held = None if levels is None else levels.branches[i]
        if isinstance(op, Parallel) and op.residual is None:
            _side_by_side(op, held, slot, steps, found)
            if levels is not None:
                found[-1] = levels.levels[i + 1]
            continue
        if op.residual is not None:
            inner = None if held is None else held.branches[1]
            fork = len(steps)
            steps.append(Fork(slot))
            if inner is not None:
                found.append(inner.levels[0])
            _unroll(op.residual, inner, slot + 1, steps, found)
            step = AddSaved(slot, fork)
        steps.append(step)
        if levels is not None:
            found.append(levels.levels[i + 1])


def _side_by_side(op: Parallel, inner: Levels | None, slot: int, steps: list[Step], found: list[Level]) -> None:
    """One branch after another: the field is kept in `slot`, and what the branches before have made in the next one."""

    def add(step: Step, level: Level | None) -> None:
        steps.append(step)
        if level is not None:
            found.append(level)

    levels = [None] * len(op.branches) if inner is None else list(inner.branches)
    made = 0
    for number, (branch, own) in enumerate(zip(op.branches, levels, strict=True)):
        first, last = (None, None) if own is None else (own.levels[0], own.levels[-1])
        if number == 0:
            add(Fork(slot), first)
        else:
            made = len(steps)
            add(Fork(slot + 1), None if not found else found[-1])
            add(Restore(slot, _differ(found[-1], first) if first is not None else False), first)
        _unroll(branch, own, slot + 1 + (number > 0), steps, found)
        if number:
            shares = None
            if op.shares is not None:
                shares = (op.shares[0] if number == 1 else 1.0, op.shares[number])
            add(AddSaved(slot + 1, made, shares), last)


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
