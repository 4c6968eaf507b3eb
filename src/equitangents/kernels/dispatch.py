"""Which code computes a program: field programs along fibres or over pairs of positions, rotation programs by rotation.

A kind of program registers itself here; networks ask these functions, and know neither programs nor engines.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from numpy.typing import DTypeLike

from equitangents.errors import NetworkError
from equitangents.kernels.compute import compute as compute_fields
from equitangents.kernels.compute import compute_diagonal as compute_fields_diagonal
from equitangents.kernels.cost import KernelCost, announce
from equitangents.kernels.cost import kernel_cost as field_cost
from equitangents.kernels.program import Program
from equitangents.kernels.projected import ProjectedProgram
from equitangents.kernels.projected import compute as projected
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations import RotationProgram
from equitangents.kernels.rotations import compute as rotations
from equitangents.kernels.rotations.cost import kernel_cost as rotation_cost
from equitangents.kernels.steerable import SteerableProgram
from equitangents.kernels.steerable import compute as compute_steerable
from equitangents.kernels.steerable import compute_diagonal as compute_steerable_diagonal
from equitangents.kernels.steerable import kernel_cost as steerable_cost
from equitangents.kernels.structured import StructuredProgram
from equitangents.kernels.structured.cost import kernel_cost as structured_cost
from equitangents.kernels.structured.run import compute as compute_structured
from equitangents.kernels.structured.run import compute_diagonal as compute_structured_diagonal
from equitangents.structured import Inputs


@singledispatch
def compute(program: object, x1: Inputs, x2: Inputs | None = None, engine: str | None = None) -> Kernels:
    """Kernels between x1 and x2 (None: x1 with itself), each (N1, N2)."""
    raise TypeError(f"{program!r} is not a program")


@singledispatch
def compute_diagonal(program: object, x: Inputs, engine: str | None = None) -> Kernels:
    """Kernels of each input with itself, each (N,)."""
    raise TypeError(f"{program!r} is not a program")


@singledispatch
def compute_pairs(program: object, x1: Any, x2: Any, first: Any, second: Any, engine: str | None = None) -> Kernels:
    """Kernels of the pairs (x1[first[p]], x2[second[p]]), each (P,)."""
    raise NetworkError("only networks that begin with a SphereLift have kernels of a list of pairs")


@singledispatch
def kernel_cost(
    program: object,
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: DTypeLike = "float32",
    engine: str | None = None,
) -> KernelCost:
    """What kernels between n1 and n2 inputs (None: n1 with themselves) will take, before they are computed."""
    raise TypeError(f"{program!r} is not a program")


@compute.register
def _(program: Program, x1: Any, x2: Any = None, engine: str | None = None) -> Kernels:
    announce(program, x1, x2, engine)
    return compute_fields(program, x1, x2, engine)


compute.register(RotationProgram)(rotations.compute)
compute.register(SteerableProgram)(compute_steerable)
compute_diagonal.register(SteerableProgram)(compute_steerable_diagonal)
kernel_cost.register(SteerableProgram)(steerable_cost)
compute.register(StructuredProgram)(compute_structured)
compute_diagonal.register(StructuredProgram)(compute_structured_diagonal)
kernel_cost.register(StructuredProgram)(structured_cost)
compute_diagonal.register(Program)(compute_fields_diagonal)
compute_diagonal.register(RotationProgram)(rotations.compute_diagonal)
compute_pairs.register(RotationProgram)(rotations.compute_pairs)
kernel_cost.register(Program)(field_cost)
kernel_cost.register(RotationProgram)(rotation_cost)


@compute.register
def _(program: ProjectedProgram, x1: Any, x2: Any = None, engine: str | None = None) -> Kernels:
    return projected.compute(compute, program, x1, x2, engine)


@compute_diagonal.register
def _(program: ProjectedProgram, x: Any, engine: str | None = None) -> Kernels:
    return projected.compute_diagonal(compute, program, x, engine)


@kernel_cost.register
def _(
    program: ProjectedProgram,
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: DTypeLike = "float32",
    engine: str | None = None,
) -> KernelCost:
    return projected.kernel_cost(kernel_cost, program, channels, n1, n2, dtype, engine)
