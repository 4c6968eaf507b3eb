"""What a kernel field takes, before it is computed: the work of its fibres, and the memory of the result."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from equitangents.errors import NetworkError
from equitangents.kernels.cost.forecast import KernelCost, asked, cost_of_steps
from equitangents.kernels.cost.steerable import kernel_cost as steerable_cost
from equitangents.kernels.cost.structured import field_cost as structured_cost
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.size import field_bytes
from equitangents.kernels.program import Program
from equitangents.kernels.runs.program_fields import choose_for_field
from equitangents.kernels.steerable import SteerableProgram
from equitangents.kernels.structured import StructuredProgram


@singledispatch
def field_cost(
    program: Any, channels: int, n1: int, n2: int | None, part: Part, dtype: DTypeLike, engine: str | None = None
) -> KernelCost:
    """What a part of a field between n1 and n2 inputs (None: n1 with themselves, at half the work) will take."""
    raise NetworkError("the cost of kernel fields is known of networks along fibres or over pairs of positions alone")


@field_cost.register
def _(
    program: Program, channels: int, n1: int, n2: int | None, part: Part, dtype: DTypeLike, engine: str | None = None
) -> KernelCost:
    wanted = asked(n1, n2, dtype, part.mirrors)
    chosen, notes = choose_for_field(program, part, engine, wanted.dtype)
    sizes = wanted.rows, wanted.columns, wanted.itemsize
    return cost_of_steps(
        chosen.field_steps(program, part).steps,
        channels,
        wanted,
        chosen,
        chosen.computed_in(program, channels, wanted.dtype),
        output_bytes=field_bytes(part, *sizes),
        working_bytes=chosen.field_working_bytes(program, part, channels, *sizes),
        notes=notes,
    )


@field_cost.register
def _(
    program: StructuredProgram,
    channels: int,
    n1: int,
    n2: int | None,
    part: Part,
    dtype: DTypeLike,
    engine: str | None = None,
) -> KernelCost:
    return _of_field(structured_cost(program, channels, n1, n2, dtype, engine), part, n1, n2)


@field_cost.register
def _(
    program: SteerableProgram,
    channels: int,
    n1: int,
    n2: int | None,
    part: Part,
    dtype: DTypeLike,
    engine: str | None = None,
) -> KernelCost:
    return _of_field(steerable_cost(program, channels, n1, n2, dtype, engine), part, n1, n2)


def _of_field(pooled: KernelCost, part: Part, n1: int, n2: int | None) -> KernelCost:
    """The cost of the pooled kernel, with the bytes of the field."""
    columns = n1 if n2 is None else n2
    return replace(pooled, output_bytes=field_bytes(part, n1, columns, np.dtype(pooled.dtype).itemsize))
