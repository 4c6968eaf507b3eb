"""Which code computes the kernel field of a program; networks ask these functions."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from equitangents._types import ArrayLike
from equitangents.errors import NetworkError
from equitangents.kernels.fields.compute import compute_field as compute_program
from equitangents.kernels.fields.compute import compute_field_diagonal as compute_program_diagonal
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.result import KernelField
from equitangents.kernels.fields.structured import compute_field as compute_structured
from equitangents.kernels.fields.structured import compute_field_diagonal as compute_structured_diagonal
from equitangents.kernels.program import Program
from equitangents.kernels.steerable import SteerableProgram
from equitangents.kernels.steerable.point_fields import compute_field as compute_steerable
from equitangents.kernels.steerable.point_fields import compute_field_diagonal as compute_steerable_diagonal
from equitangents.kernels.structured import StructuredProgram


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


compute_field.register(Program)(compute_program)
compute_field.register(StructuredProgram)(compute_structured)
compute_field.register(SteerableProgram)(compute_steerable)
compute_field_diagonal.register(SteerableProgram)(compute_steerable_diagonal)
compute_field_diagonal.register(StructuredProgram)(compute_structured_diagonal)
compute_field_diagonal.register(Program)(compute_program_diagonal)
