"""What a kernel field takes, before it is computed: the work of its fibres, and the memory of the result."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from equitangents.errors import NetworkError
from equitangents.kernels.cost import KernelCost, check_dtype, forecast
from equitangents.kernels.counting import count
from equitangents.kernels.fields.compute import choose_for_field
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.size import field_bytes
from equitangents.kernels.plan import PairPlan
from equitangents.kernels.program import Program
from equitangents.kernels.structured import StructuredProgram
from equitangents.kernels.structured import kernel_cost as structured_cost
from equitangents.validation import check_whole


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
    n1 = check_whole("n1", n1, 1)
    n2 = None if n2 is None else check_whole("n2", n2, 1)
    name = check_dtype(dtype)
    chosen, notes = choose_for_field(program, part, engine, name)
    steps = chosen.field_steps(program, part).steps
    work = count(steps)
    columns = n1 if n2 is None else n2
    pairs = n1 * (n1 + 1) // 2 if n2 is None and part.mirrors else n1 * columns
    seconds, factor = forecast(work, channels, pairs, chosen, chosen.computed_in(program, channels, name))
    itemsize = np.dtype(name).itemsize
    return KernelCost(
        fibres=work.fibres,
        field_size=work.field,
        layers=work.depth,
        pairs=pairs,
        element_layers=pairs * work.element_layers,
        multiply_adds=pairs * work.products * channels,
        seconds=seconds,
        uncertainty=factor,
        output_bytes=field_bytes(part, n1, columns, itemsize),
        working_bytes=chosen.field_working_bytes(program, part, channels, n1, columns, itemsize),
        engine=chosen.name,
        form="pairs" if isinstance(steps, PairPlan) else "fibre",
        dtype=name,
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
    found = structured_cost(program, channels, n1, n2, dtype, engine)
    columns = n1 if n2 is None else n2
    return replace(found, output_bytes=field_bytes(part, n1, columns, np.dtype(found.dtype).itemsize))
