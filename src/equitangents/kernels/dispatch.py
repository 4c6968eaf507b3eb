"""Dispatch of programs to the code that computes their kernels: one module of `runs` per space.

Networks ask these functions, and know neither programs nor engines.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from numpy.typing import DTypeLike

from equitangents._types import DType
from equitangents.kernels import cost, projected
from equitangents.kernels.cost import KernelCost
from equitangents.kernels.fields import Part
from equitangents.kernels.program import Positions, Program
from equitangents.kernels.projected import EquivariantOutputs
from equitangents.kernels.rotations.program import Sphere
from equitangents.kernels.runs import programs, rotations, steerable, structured
from equitangents.kernels.steerable.program import Points
from equitangents.kernels.structured import StructuredPositions
from equitangents.structured import Inputs

_RUNS: dict[type, ModuleType] = {
    Positions: programs,
    StructuredPositions: structured,
    Points: steerable,
    Sphere: rotations,
}  # each with `compute` and `choice_of`


def compute(
    program: Program[Any],
    x1: Inputs,
    x2: Inputs | None = None,
    engine: str | None = None,
    part: Part | None = None,
    own: bool = False,
) -> Any:
    """`Kernels` between x1 and x2 (None: x1 with itself), each (N1, N2); with `part` the `KernelField` there.

    `own`: of each input of x1 with itself, each (N,), or (N, *part.layout.tail).
    """
    if isinstance(program.space, EquivariantOutputs):
        return projected.compute(compute, program, x1, x2, engine, own)
    return _RUNS[type(program.space)].compute(program, x1, x2, engine, part, own)


def kernel_cost(
    program: Program[Any],
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: DTypeLike = "float32",
    engine: str | None = None,
    part: Part | None = None,
) -> KernelCost:
    """Cost of kernels between n1 and n2 inputs (None: n1 with themselves), before they are computed.

    With `part` what the kernel field at these pairs of positions will take.
    """
    if isinstance(program.space, EquivariantOutputs):
        return projected.kernel_cost(kernel_cost, program, channels, n1, n2, dtype, engine)
    return cost.kernel_cost(program, channels, n1, n2, dtype, engine, part)


def engine_for(program: Program[Any], dtype: DType) -> str:
    """The name of the engine that will compute kernels of inputs of `dtype` here."""
    if isinstance(program.space, EquivariantOutputs):
        return engine_for(projected.numbers(program), dtype)
    name: str = _RUNS[type(program.space)].choice_of(program, None, dtype).engine.name
    return name
