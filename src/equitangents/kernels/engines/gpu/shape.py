"""How a plan's fibres are laid out for the GPU: cells of every level, labels of fibres, threads of a block.

Where windows do not wrap, two fibres whose offsets differ by the side of the readout's grid have, together, as many
pairs of positions as the grid has positions; they share one field (`native/src/gpu/geometry.hpp`), so that zero padding
costs what circular padding costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equitangents.kernels.plans import levels as positions
from equitangents.kernels.plans.levels import GridLevel
from equitangents.kernels.plans.plan import FibrePlan
from equitangents.kernels.plans.stages import begins_on_torus
from equitangents.kernels.plans.steps import Step, depth, unrolled, window_grid

AXES = 3
ROWS = 8  # rows of a column that one thread takes: neighbours share their sums along the row
THREADS = 512  # of a block, about
BLOCK_BYTES = 100 << 10  # of shared memory that a block takes where it can do with less than all


def three(values: tuple[int, ...], filler: int = 1) -> tuple[int, int, int]:
    """Leading axes added up to three."""
    z, y, x = (filler,) * (AXES - len(values)) + tuple(int(v) for v in values)
    return z, y, x


@dataclass(frozen=True)
class Axis:
    """One axis of a grid: positions, cells, offset a unit of the label, offset between two fibres that share."""

    side: int
    cells: int
    step: int
    period: int
    paired: bool


@dataclass(frozen=True)
class Grid:
    """Cells of a grid's pairs of positions."""

    table: ClassVar[None] = None

    axes: tuple[Axis, ...]
    torus: bool

    @property
    def is_paired(self) -> bool:
        """Whether each cell stands for two fibres along every axis."""
        return all(axis.paired for axis in self.axes)

    @property
    def sides(self) -> tuple[int, int, int]:
        """Cells along each axis."""
        return three(tuple(axis.cells for axis in self.axes))

    def written(self, table: int) -> str:
        """As a type of the source."""
        axes = [f"Axis<{a.side}, {a.cells}, {a.step}, {a.period}, {str(a.paired).lower()}>" for a in self.axes]
        axes = ["Axis<1, 1, 1, 1, true>"] * (3 - len(axes)) + axes
        return f"Grid<{', '.join(axes)}, {str(self.torus).lower()}>"


@dataclass(frozen=True)
class Orbit:
    """Positions that a group moves, in the shape on which windows around them work."""

    torus: ClassVar[bool] = True  # windows read on around it
    is_paired: ClassVar[bool] = False

    sides: tuple[int, int, int]
    table: str  # the key of the partners' table

    def written(self, table: int) -> str:
        """As a type of the source, its partners' table at this place."""
        return f"Orbit<{', '.join(map(str, self.sides))}, {table}>"


Level = Grid | Orbit


@dataclass(frozen=True, eq=False)
class Shape:
    """Everything about the layout that the kernel is generated from."""

    levels: tuple[Level, ...]
    labels: np.ndarray  # int32 (fibres, 3), or (fibres, 1) elements of a group
    rows: int
    crew: int  # threads that carry one fibre
    pairs: int  # pairs of inputs in a block
    fibres: int  # fibres of each that a block carries at once
    slots: int  # fields that residual branches keep
    itemsize: int

    @property
    def cells(self) -> int:
        """The number of positions of the largest level."""
        return max(int(np.prod(level.sides)) for level in self.levels)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.crew * self.pairs * self.fibres

    @property
    def fields_bytes(self) -> int:
        """Shared memory for a fibre's fields of (D, Θ): one is read, one written, and others kept for branches."""
        return self.pairs * self.fibres * fibre_bytes(self.cells, self.slots, self.itemsize)

    @property
    def bytes(self) -> int:
        """Shared memory of a block: its fields, and numbers of each thread for sums over threads."""
        return max(self.fields_bytes + self.threads * 2 * self.itemsize, self.threads * 16)


def fibre_bytes(cells: int, slots: int, itemsize: int) -> int:
    """Shared memory for the fields of one fibre."""
    return (2 + slots) * cells * 2 * itemsize


def shape_of(plan: FibrePlan, itemsize: int) -> Shape:
    """The layout of a plan whose field moves positions."""
    steps, levels = unrolled(plan.field, plan.levels)
    found, labels = _levels(plan, steps, levels)
    slots = depth(steps)
    rows = min(ROWS, max(level.sides[1] for level in found))
    tasks = max(level.sides[0] * level.sides[2] * -(-level.sides[1] // rows) for level in found)
    crew = min(tasks, THREADS)
    cells = max(int(np.prod(level.sides)) for level in found)
    crews = max(1, min(THREADS // crew, BLOCK_BYTES // fibre_bytes(cells, slots, itemsize)))
    fibres = min(crews, len(labels))
    return Shape(found, labels, rows, crew, crews // fibres, fibres, slots, itemsize)


def _levels(plan: FibrePlan, steps: list[Step], levels: list[positions.Level]) -> tuple[tuple[Level, ...], np.ndarray]:
    grids = [level for level in levels if level.on_grid]
    if len(grids) < len(levels):
        orbits = (Orbit(three(window_grid(steps, levels, i)), level.table.key) for i, level in enumerate(levels))  # type: ignore[union-attr]
        return tuple(orbits), plan.fibres.array.reshape(-1, 1)
    torus = [level.wrap and begins_on_torus(tuple(steps[i:])) for i, level in enumerate(grids)]
    ends = grids[-1].shape
    paired = tuple(
        not torus[-1]
        and all(not t or (n * level.step[a]) % level.shape[a] == 0 for level, t in zip(grids, torus, strict=True))
        for a, n in enumerate(ends)
    )
    found = tuple(
        Grid(tuple(_axis(level, a, ends[a], paired[a], t) for a in range(len(ends))), t)
        for level, t in zip(grids, torus, strict=True)
    )
    labels = np.where(paired, plan.fibres.array % np.maximum(ends, 1), plan.fibres.array)
    labels = np.unique(labels, axis=0) if len(ends) else labels
    return found, np.pad(labels, ((0, 0), (AXES - labels.shape[1], 0))).astype(np.int32)


def _axis(level: GridLevel, a: int, end: int, paired: bool, torus: bool) -> Axis:
    side, step = level.shape[a], level.step[a]
    period = end * step
    cells = side
    if paired and not torus:
        cells = max(max(0, side - o * step) + max(0, side - period + o * step) for o in range(end))
    return Axis(side, cells, step, period, paired)
