"""Which code computes a program: field programs along fibres or over pairs of positions, rotation programs by rotation.

A kind of program registers itself here; networks ask these functions, and know neither programs nor engines.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from numpy.typing import DTypeLike

from equitangents._types import ArrayLike
from equitangents.errors import NetworkError
from equitangents.kernels.cost import KernelCost, announce
from equitangents.kernels.cost import fields as cost_of_fields
from equitangents.kernels.cost import forecast as cost_of_programs
from equitangents.kernels.cost import rotations as cost_of_rotations
from equitangents.kernels.cost import steerable as cost_of_steerable
from equitangents.kernels.cost import structured as cost_of_structured
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.result import KernelField
from equitangents.kernels.program import Program
from equitangents.kernels.projected import ProjectedProgram
from equitangents.kernels.projected import compute as projected
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations import RotationProgram
from equitangents.kernels.runs import (
    program_fields,
    programs,
    rotations,
    steerable,
    steerable_fields,
    structured,
    structured_fields,
)
from equitangents.kernels.steerable import SteerableProgram
from equitangents.kernels.structured import StructuredProgram
from equitangents.structured import Inputs

field_cost = cost_of_fields.field_cost


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
    return programs.compute(program, x1, x2, engine)


compute.register(RotationProgram)(rotations.compute)
compute.register(SteerableProgram)(steerable.compute)
compute.register(StructuredProgram)(structured.compute)
compute_diagonal.register(Program)(programs.compute_diagonal)
compute_diagonal.register(RotationProgram)(rotations.compute_diagonal)
compute_diagonal.register(SteerableProgram)(steerable.compute_diagonal)
compute_diagonal.register(StructuredProgram)(structured.compute_diagonal)
compute_pairs.register(RotationProgram)(rotations.compute_pairs)
kernel_cost.register(Program)(cost_of_programs.kernel_cost)
kernel_cost.register(RotationProgram)(cost_of_rotations.kernel_cost)
kernel_cost.register(SteerableProgram)(cost_of_steerable.kernel_cost)
kernel_cost.register(StructuredProgram)(cost_of_structured.kernel_cost)


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


@singledispatch
def compute_field(
    program: Any, x1: ArrayLike, x2: ArrayLike | None, part: Part, engine: str | None = None
) -> KernelField:
    """The field between x1 and x2 (None: x1 with itself) at a part of the pairs of positions."""
    raise NetworkError(_missing(program))


@singledispatch
def compute_field_diagonal(program: Any, x: ArrayLike, part: Part, engine: str | None = None) -> KernelField:
    """The field of each input with itself."""
    raise NetworkError(_missing(program))


def _missing(program: Any) -> str:
    return f"there are kernel fields of networks on grids and on finite groups, and none of a {type(program).__name__}"


compute_field.register(Program)(program_fields.compute_field)
compute_field.register(SteerableProgram)(steerable_fields.compute_field)
compute_field.register(StructuredProgram)(structured_fields.compute_field)
compute_field_diagonal.register(Program)(program_fields.compute_field_diagonal)
compute_field_diagonal.register(SteerableProgram)(steerable_fields.compute_field_diagonal)
compute_field_diagonal.register(StructuredProgram)(structured_fields.compute_field_diagonal)
