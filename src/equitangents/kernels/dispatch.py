"""Dispatch of programs to the code that computes and costs them: one entry per space.

Networks ask these functions, and know neither programs nor engines.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from numpy.typing import DTypeLike

from equitangents._types import DType
from equitangents.errors import NetworkError
from equitangents.kernels import cost
from equitangents.kernels.cost import KernelCost
from equitangents.kernels.engines import REFERENCE, choose
from equitangents.kernels.fields import Part
from equitangents.kernels.program import Positions, Program
from equitangents.kernels.projected import compute as projected
from equitangents.kernels.projected.program import EquivariantOutputs
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations.program import Sphere, sections
from equitangents.kernels.runs import programs, rotations, steerable, structured
from equitangents.kernels.steerable.program import Points
from equitangents.kernels.structured import StructuredPositions
from equitangents.structured import Inputs


class _Kind(NamedTuple):
    """The code of programs on one space; those of kernels take a part of a field, if it `has_fields`."""

    compute: Callable[..., Any]
    diagonal: Callable[..., Any]
    cost: Callable[..., KernelCost]
    engine: Callable[[Program[Any], DType], str]  # which runs it in a precision
    has_fields: bool = True
    pairs: Callable[..., Kernels] | None = None


def compute(
    program: Program[Any], x1: Inputs, x2: Inputs | None = None, engine: str | None = None, part: Part | None = None
) -> Any:
    """`Kernels` between x1 and x2 (None: x1 with itself), each (N1, N2); with `part` the `KernelField` there."""
    run = _kind(program, part).compute
    return run(program, x1, x2, engine) if part is None else run(program, x1, x2, engine, part)


def compute_diagonal(program: Program[Any], x: Inputs, engine: str | None = None, part: Part | None = None) -> Any:
    """Kernels of each input with itself, each (N,); with `part` their field, (N, *part.layout.tail)."""
    return _kind(program, part).diagonal(program, x, engine, *_given(part))


def compute_pairs(
    program: Program[Any], x1: Any, x2: Any, first: Any, second: Any, engine: str | None = None
) -> Kernels:
    """Kernels of the pairs (x1[first[p]], x2[second[p]]), each (P,)."""
    run = _kind(program, None).pairs
    if run is None:
        raise NetworkError("only networks that begin with a SphereLift have kernels of a list of pairs")
    return run(program, x1, x2, first, second, engine)


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
    return _kind(program, part).cost(program, channels, n1, n2, dtype, engine, *_given(part))


def engine_for(program: Program[Any], dtype: DType) -> str:
    """The name of the engine that will compute kernels of inputs of `dtype` here."""
    return _kind(program, None).engine(program, dtype)


def _kind(program: Program[Any], part: Part | None) -> _Kind:
    found = _KINDS[type(program.space)]
    if part is not None and not found.has_fields:
        raise NetworkError(
            "space", type(program.space), "a grid or a finite group, which have kernel fields", verb="is"
        )
    return found


def _given(part: Part | None) -> tuple[Part, ...]:
    return () if part is None else (part,)


def _in_sections(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda program, *given: run(sections(program), *given)


_KINDS: dict[type, _Kind] = {
    Positions: _Kind(
        programs.compute,
        programs.compute_diagonal,
        partial(cost.kernel_cost, cost.of_positions),
        lambda program, dtype: choose(program, None, dtype).engine.name,
    ),
    StructuredPositions: _Kind(
        structured.compute,
        structured.compute_diagonal,
        partial(cost.kernel_cost, cost.of_structured),
        lambda program, dtype: structured.choice_of(program, None)[0].name,
    ),
    Points: _Kind(
        steerable.compute,
        steerable.compute_diagonal,
        partial(cost.kernel_cost, cost.of_points),
        lambda program, dtype: REFERENCE.name,
    ),
    Sphere: _Kind(
        _in_sections(rotations.compute),
        _in_sections(rotations.compute_diagonal),
        _in_sections(partial(cost.kernel_cost, cost.of_rotations)),
        lambda program, dtype: rotations.choose_engine(sections(program), None).engine.name,
        pairs=_in_sections(rotations.compute_pairs),
    ),
    EquivariantOutputs: _Kind(
        lambda *given: projected.compute(compute, *given),
        lambda *given: projected.compute_diagonal(compute, *given),
        lambda *given: projected.kernel_cost(kernel_cost, *given),
        lambda program, dtype: engine_for(projected.numbers(program), dtype),
        has_fields=False,
    ),
}
