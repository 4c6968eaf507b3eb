"""Where the second input's position lies along a fibre, at every depth of a program.

A fibre q joins each position p of the first input to one position p' of the second: on grids p' = p + m·q, with m the
product of the strides still to come (wrapped on a torus, or nowhere outside the grid); on a group p' = q·g.
Source: theory of relative positions, arXiv 2406.06504; fibres are closed under every layer of the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn

import numpy as np

from equitangents.kernels.operation import NoFibresError, Operation
from equitangents.kernels.program import FrozenArray, GroupFibres, Op, Parallel


@dataclass(frozen=True)
class GridLevel:
    """A grid of positions; `step` turns a fibre's label into an offset on this grid."""

    on_grid: ClassVar[bool] = True
    tables: ClassVar[dict[str, np.ndarray]] = {}

    shape: tuple[int, ...]
    wrap: bool
    step: tuple[int, ...] = ()

    @property
    def positions(self) -> int:
        """How many positions there are."""
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


@dataclass(frozen=True)
class TableLevel:
    """Positions moved by a group; row q of the table holds the partners of all positions."""

    on_grid: ClassVar[bool] = False
    shape: ClassVar[tuple[int, ...]] = ()

    table: FrozenArray

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """Where the group moves positions, by key."""
        return {self.table.key: self.table.array}

    @property
    def positions(self) -> int:
        """How many positions there are."""
        return int(self.table.array.shape[1])

    @property
    def grid(self) -> NoReturn:
        """None, where a group moves the positions."""
        raise TypeError("a level whose positions a group moves is no grid")


Level = GridLevel | TableLevel


@dataclass(frozen=True)
class Levels:
    """The levels before each operation and after the last; `branches[i]` those inside operation i, of a `Parallel`.

    The latter have no levels, but branches of their own: one for each of its branches.
    """

    levels: tuple[Level, ...]
    branches: tuple[Levels | None, ...]


def grid_levels(ops: tuple[Op, ...], shape: tuple[int, ...]) -> Levels:
    """Levels of a program on grids; raises NoFibresError where a layer mixes fibres."""
    forward = _forward(ops, GridLevel(shape, wrap=True))
    return _with_steps(ops, forward, (1,) * len(shape))


def _forward(ops: tuple[Op, ...], level: GridLevel) -> Levels:
    levels: list[Level] = [level]
    branches: list[Levels | None] = []
    for op in ops:
        inner = None
        if op.held:
            inner, level = _forward_each(op, level)
        else:
            level = level.after(op)
        levels.append(level)
        branches.append(inner)
    return Levels(tuple(levels), tuple(branches))


def _forward_each(op: Op, level: GridLevel) -> tuple[Levels, GridLevel]:
    """Once a branch breaks the torus, the others begin on the broken one: fields are kept where all have them."""
    found: list[Levels] = []
    for branch in op.held:
        found.append(_forward(branch, level))
        last = found[-1].levels[-1].grid
        if found[0].levels[-1].grid.shape != last.shape:
            raise NoFibresError("branches that end on different grids mix fibres")
        level = replace(level, wrap=level.wrap and last.wrap)
    return Levels((), tuple(found)), replace(last, wrap=level.wrap)


def _with_steps(ops: tuple[Op, ...], levels: Levels, step: tuple[int, ...]) -> Levels:
    """Fill in the steps, from the readout backwards: a stride of s multiplies the offsets below it by s."""
    found = [replace(levels.levels[-1].grid, step=step)]
    branches: list[Levels | None] = []
    for op, level, inner in zip(reversed(ops), reversed(levels.levels[:-1]), reversed(levels.branches), strict=True):
        step = op.offset_before(step)
        if isinstance(op, Parallel) and inner is not None:
            each = [_with_steps(b, held, step) for b, held in zip(op.branches, inner.branches, strict=True) if held]
            firsts = {held.levels[0].grid.step for held in each}
            if len(firsts) != 1:
                which = "branches of different strides mix" if op.residual is None else "a strided branch mixes"
                raise NoFibresError(f"{which} fibres")
            inner, step = Levels((), tuple(each)), firsts.pop()
        found.append(replace(level.grid, step=step))
        branches.append(inner)
    return Levels(tuple(reversed(found)), tuple(reversed(branches)))


def lifted_levels(ops: tuple[Op, ...], lift: GroupFibres) -> Levels:
    """Levels of a lifted program: before the first table the group acts on points, afterwards on itself."""
    levels, _ = _lifted(ops, TableLevel(lift.points), TableLevel(lift.elements), lift.folded > 1)
    return levels


def _lifted(ops: tuple[Op, ...], level: TableLevel, lifted: TableLevel, folded: bool) -> tuple[Levels, TableLevel]:
    levels: list[Level] = [level]
    branches: list[Levels | None] = []
    for op in ops:
        inner = None
        if op.held:
            each = [_lifted(branch, level, lifted, folded) for branch in op.held]
            if any(after != each[0][1] for _, after in each):
                raise NoFibresError("branches that end on different positions mix fibres")
            inner, level = Levels((), tuple(held for held, _ in each)), each[0][1]
        else:
            level = op.elements_after(level, lifted, folded)
        levels.append(level)
        branches.append(inner)
    return Levels(tuple(levels), tuple(branches)), level


def still(ops: Iterable[Op], level: Level) -> Levels:
    """Levels of operations that leave all positions where they are."""
    branches = tuple(Levels((), tuple(still(held, level) for held in op.held)) if op.held else None for op in ops)
    return Levels((level,) * (len(branches) + 1), branches)
