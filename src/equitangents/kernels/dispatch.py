"""Dispatch of programs to the code that computes their kernels: one module of `runs` per space.

Networks ask these functions, and know neither programs nor engines.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from numpy.typing import DTypeLike

from equitangents._types import DType
from equitangents.errors import NetworkError
from equitangents.kernels import cost, projected
from equitangents.kernels.cost import KernelCost
from equitangents.kernels.fields import Part
from equitangents.kernels.program import Positions, Program
from equitangents.kernels.projected import EquivariantOutputs
from equitangents.kernels.rotations import Sphere
from equitangents.kernels.runs import programs, rotations, steerable, structured
from equitangents.kernels.steerable import Points
from equitangents.kernels.structured import StructuredPositions
from equitangents.structured import Inputs

_RUNS: dict[type, ModuleType] = {
    Positions: programs,
    StructuredPositions: structured,
    Points: steerable,
    Sphere: rotations,
}  # each with `compute`, `compute_diagonal` and `engine_for`


def compute(
    program: Program[Any], x1: Inputs, x2: Inputs | None = None, engine: str | None = None, part: Part | None = None
) -> Any:
    """`Kernels` between x1 and x2 (None: x1 with itself), each (N1, N2); with `part` the `KernelField` there."""
    if _is_projected(program, part):
        return projected.compute(compute, program, x1, x2, engine)
    return _RUNS[type(program.space)].compute(program, x1, x2, engine, part)


def compute_diagonal(program: Program[Any], x: Inputs, engine: str | None = None, part: Part | None = None) -> Any:
    """Kernels of each input with itself, each (N,); with `part` their field, (N, *part.layout.tail)."""
    if _is_projected(program, part):
        return projected.compute_diagonal(compute, program, x, engine)
    return _RUNS[type(program.space)].compute_diagonal(program, x, engine, part)


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
    if _is_projected(program, part):
        return projected.kernel_cost(kernel_cost, program, channels, n1, n2, dtype, engine)
    return cost.kernel_cost(program, channels, n1, n2, dtype, engine, part)


def engine_for(program: Program[Any], dtype: DType) -> str:
    """The name of the engine that will compute kernels of inputs of `dtype` here."""
    if _is_projected(program, None):
        return engine_for(projected.numbers(program), dtype)
    name: str = _RUNS[type(program.space)].engine_for(program, dtype)
    return name


def _is_projected(program: Program[Any], part: Part | None) -> bool:
    """Whether kernels are made of those of another program; raises NetworkError for their fields, which are none."""
    found = isinstance(program.space, EquivariantOutputs)
    if found and part is not None:
        raise NetworkError(
            "space", type(program.space), "a grid or a finite group, which have kernel fields", verb="is"
        )
    return found
