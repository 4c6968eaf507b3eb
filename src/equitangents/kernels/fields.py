"""Kernel fields, between all or some positions of two inputs: which pairs, their layout, plans and memory.

Pairs are all, or those of the same position. Inside, results are (N1, N2, *tail). A field over all pairs of
positions is (N1, P, N2, P') in memory and in public, so that inside it is a view with its axes moved. Plans run along
the fibres that hold the wanted pairs, or over all pairs; what a readout would sum is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import jax
import numpy as np

from equitangents._types import DType
from equitangents.errors import InvalidArgumentError
from equitangents.formatting import memory_size
from equitangents.kernels.levels import Level
from equitangents.kernels.operations import NoFibresError
from equitangents.kernels.plans import FibrePlan, PairPlan, over_all_pairs, plan_of_field
from equitangents.kernels.program import Program
from equitangents.memory import check_fits
from equitangents.precision import is_traced


@dataclass(frozen=True)
class Layout:
    """`tail` are the axes of a pair of inputs; `crossed` if they are (P, P'), of the first input and of the second."""

    tail: tuple[int, ...] = ()
    crossed: bool = False

    @property
    def numbers(self) -> int:
        """Numbers per pair of inputs."""
        return int(np.prod(self.tail, dtype=np.int64))

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Zeros (N1, N2, *tail) in the memory order of the public result."""
        if not self.crossed:
            return np.zeros((*shape, *self.tail), dtype)
        return np.zeros((shape[0], self.tail[0], shape[1], self.tail[1]), dtype).transpose(0, 2, 1, 3)

    def public(self, values: Any) -> Any:
        """The public layout: (N1, P, N2, P') if `crossed`, else (N1, N2, *tail)."""
        return values.transpose(0, 2, 1, 3) if self.crossed else values

    def mirrored(self, values: Any) -> Any:
        """Kernels of x2 with x1 from those of x1 with x2."""
        return values.transpose(1, 0, 3, 2) if self.crossed else values.swapaxes(0, 1)

    def write(self, out: np.ndarray, rows: slice, columns: slice, values: Any, symmetric: bool) -> None:
        """Write a tile, cut to size; of a symmetric result the other half too, and its diagonal exactly symmetric."""
        found = np.asarray(values)[: rows.stop - rows.start, : columns.stop - columns.start]
        if symmetric and rows == columns:
            found = (found + self.mirrored(found)) / 2
        out[rows, columns] = found
        if symmetric and rows != columns:
            out[columns, rows] = self.mirrored(found)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values of inputs or pairs, with the axes `tail` added for broadcasting."""
        return values.reshape(values.shape + (1,) * len(self.tail))


MATRIX = Layout()


@dataclass(frozen=True)
class Part:
    """All pairs of `count` positions, or those of the same position."""

    kind: Literal["all", "same"]
    count: int

    @property
    def layout(self) -> Layout:
        """The axes of one pair of inputs: (P, P') or (P,)."""
        return Layout((self.count, self.count), crossed=True) if self.kind == "all" else Layout((self.count,))

    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """First and second positions, each of the shape `layout.tail`."""
        here = np.arange(self.count)
        if self.kind == "same":
            return here, here
        first, second = np.broadcast_arrays(here[:, None], here)
        return first, second

    def __str__(self) -> str:
        return f"all pairs of {self.count:,} positions" if self.kind == "all" else f"{self.count:,} positions"


def part_of(positions: str, count: int) -> Part:
    """The part of a field over `count` positions for `positions`: "all" or "same"; raises InvalidArgumentError."""
    if positions not in ("all", "same"):
        raise InvalidArgumentError("positions", positions, "'all' or 'same'")
    return Part("all" if positions == "all" else "same", count)


@dataclass(frozen=True)
class FieldPlan:
    """Run `plan`, which has no readout, and keep the wanted pairs of positions of the level `last`.

    Along fibres there are values (fibres, first positions), over all pairs (positions, positions); see `places`.
    """

    plan: FibrePlan | PairPlan
    part: Part
    last: Level | None  # None of a `PairPlan`

    @property
    def settled(self) -> bool:
        """Whether the field of each fibre is constant, so that one number represents it."""
        return self.plan.form == "fibre" and self.plan.levels[-1].positions < self.part.count

    @property
    def values(self) -> int:
        """Numbers per pair of inputs before the wanted ones are selected."""
        count = self.part.count
        if self.last is None:
            return count**2
        return len(_wanted(self.part, self.last)) * (1 if self.settled else count)


@lru_cache(maxsize=64)
def field_plan(program: Program, part: Part, staged: bool = False) -> FieldPlan:
    """The cheaper exact way to the wanted part of a program's field; `staged`: of an engine that runs stages."""
    if staged and (found := field_plan(program, part)).plan.form == "fibre":
        return found
    try:
        plan, last = plan_of_field(program, lambda last: last.fibres(_wanted(part, last)), staged)
    except NoFibresError as error:
        return FieldPlan(over_all_pairs(program, str(error)), part, None)
    return FieldPlan(plan, part, last)


@lru_cache(maxsize=8)
def places(plan: FieldPlan) -> np.ndarray:
    """Where each wanted pair lies among the values, one after another: int64 of the shape `part.layout.tail`."""
    first, second = plan.part.positions()
    if plan.last is None:
        return first * plan.part.count + second
    numbers = np.searchsorted(_wanted(plan.part, plan.last), plan.last.fibre_numbers(first, second))
    return numbers if plan.settled else numbers * plan.part.count + first


def _wanted(part: Part, last: Level) -> np.ndarray:
    """The numbers of these fibres among all, in ascending order."""
    if part.kind == "all":
        return np.arange(last.fibre_count)
    return np.unique(last.fibre_numbers(*part.positions()))


def result_bytes(n1: int, n2: int, itemsize: int) -> int:
    """Bytes of the two matrices between n1 and n2 inputs."""
    return 2 * n1 * n2 * itemsize


def check_result(x1: Any, x2: Any, dtype: DType, working: int) -> None:
    """Raise MemoryLimitError where the kernels of x1 and x2 (None: x1 with itself) cannot fit in memory.

    `working`: bytes held beyond the two matrices while they are computed. What is traced for another device than the
    CPU is left to that device.
    """
    if any(is_traced(x) for x in (x1, x2)) and jax.default_backend() != "cpu":
        return
    n1, n2, dtype = len(x1), len(x1 if x2 is None else x2), np.dtype(dtype)
    results = result_bytes(n1, n2, dtype.itemsize)
    # Engines fill NumPy arrays, which are copied where JAX arrays are wanted.
    copies = 2 if any(isinstance(x, jax.Array) for x in (x1, x2)) else 1
    task = f"a kernel of {n1} × {n2} inputs (NNGP and NTK in {dtype.name}, {memory_size(results)})"
    check_fits(task, copies * results + working, "compute fewer inputs at a time, or give float32 inputs")


def field_bytes(part: Part, n1: int, n2: int, itemsize: int) -> int:
    """Bytes of NNGP and NTK between n1 and n2 inputs, at the wanted pairs of positions."""
    return 2 * n1 * n2 * part.layout.numbers * itemsize


def check_field(part: Part, n1: int, n2: int, dtype: DType, working: int, copied: bool = False) -> int:
    """Bytes beyond the inputs, at most; raises MemoryLimitError where these cannot fit in memory.

    `working`: bytes held beyond the results while they are computed; `copied`: results are copied to JAX arrays.
    """
    dtype = np.dtype(dtype)
    results = field_bytes(part, n1, n2, dtype.itemsize)
    needed = (2 if copied else 1) * results + working
    task = f"a kernel field of {n1} × {n2} inputs at {part} (NNGP and NTK in {dtype.name}, {memory_size(results)})"
    check_fits(task, needed, "ask for positions='same', or compute fewer inputs at a time")
    return needed
