"""The program of layers, on the plainest space that holds their operations, and its kernels, by the code of the space.

Structured operations are said in the words of field programs, wherever these have them, so that all engines run them:
a sum with an untouched branch is a residual one; sums over blocks of equal size are means times a number; a number
goes into the weights of the linear layer before or after it: W² (c² K) + b² = (cW)² K + b². Windows of one position
are left out.

Each space has its module of `runs`; kernels of equivariant outputs are sums of others.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from equitangents import precision
from equitangents._types import DType
from equitangents.errors import NetworkError
from equitangents.kernels.engines import choose
from equitangents.kernels.operations import Box, Pool, Standardise
from equitangents.kernels.program import (
    GroupFibres,
    Op,
    Parallel,
    Positions,
    Program,
    is_structured,
    why_structured,
)
from equitangents.kernels.projected import EquivariantOutputs, RotationMoves, diagonal, numbers, one_orbit, resolve
from equitangents.kernels.result import Kernels, Part, check_result, result
from equitangents.kernels.rotations import Resolution, Sphere
from equitangents.kernels.runs import programs, rotations, steerable, structured
from equitangents.kernels.steerable import Points
from equitangents.kernels.structured import (
    BlockSums,
    Normalise,
    StructuredPositions,
    Times,
)
from equitangents.memory import check_fits
from equitangents.structured import Inputs

_RUNS: dict[type, ModuleType] = {
    Positions: programs,
    StructuredPositions: structured,
    Points: steerable,
    Sphere: rotations,
}


def compute(
    program: Program[Any],
    x1: Inputs,
    x2: Inputs | None = None,
    engine: str | None = None,
    part: Part | None = None,
    own: bool = False,
) -> Any:
    """`Kernels` between x1 and x2 (None: x1 with itself), each (N1, N2); with `part` the `KernelField` there.

    `own`: of each input of x1 with itself, each (N,), or (N, *part.tail). Of d equivariant outputs kernels are
    (N1, N2, d, d) and (N, d, d).
    """
    if isinstance(program.space, EquivariantOutputs):
        return _equivariant_outputs(program, x1, x2, engine, own)
    return _RUNS[type(program.space)].compute(program, x1, x2, engine, part, own)


def engine_for(program: Program[Any], dtype: DType) -> str:
    """The name of the engine that will compute kernels of inputs of `dtype` here."""
    if isinstance(program.space, EquivariantOutputs):
        return engine_for(numbers(program), dtype)
    if isinstance(program.space, Positions):
        return choose(program, None, dtype).engine.name
    name: str = _RUNS[type(program.space)].choice_of(program, None).engine.name
    return name


def _equivariant_outputs(
    program: Program[EquivariantOutputs], x1: Any, x2: Any, engine: str | None, own: bool
) -> Kernels:
    """NNGP and NTK between x1 and x2 (None: x1 with itself, at half the cost), each (N1, N2, d, d).

    `own`: of each input of x1 with itself, each (N, d, d).
    """
    flat, dtype, d = numbers(program), precision.working_dtype(x1, x2), program.space.dimension
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    check_result(x1, x2, dtype, 0)
    check_fits(
        f"a kernel of {n1} × {n2} inputs and {d} × {d} outputs",
        4 * 8 * n1 * n2 * d * d,
        "compute fewer inputs at a time",
    )
    kernel = lambda a, b: compute(flat, a, b, engine)
    moves, found = program.space.moves, Resolution(0, None, None)
    if isinstance(moves, RotationMoves):
        found = resolve(moves, kernel, x1, x2)
    nodes = moves.nodes(found.value)
    sums = diagonal(lambda one: one_orbit(kernel, nodes, one), x1) if own else one_orbit(kernel, nodes, x1, x2)
    nngp, ntk = (k + program.space.constant.array for k in (sums.nngp, sums.ntk))
    with precision.scope(dtype):
        nngp, ntk = nngp.astype(dtype), ntk.astype(dtype)
    return result(
        (x1, x2),
        nngp,
        ntk,
        engine=sums.term.engine,
        form=sums.term.form,
        notes=(*sums.term.notes, *(() if found.note is None else (found.note,))),
        error_estimate=found.error,
        resolution=found.value or None,
    )


def program_of(shape: tuple[int, ...], ops: tuple[Any, ...], lift: GroupFibres | Sphere | None) -> Program[Any]:
    """The program of operations on a grid of positions, some of which lift to a group or to rotations."""
    on_rotations = lift is not None and lift.on_rotations
    if is_structured(ops):
        ops = _simplified(ops)
        if not on_rotations and not is_structured(_in_fields(ops)):
            ops = _in_fields(ops)
    if is_structured(ops):
        if on_rotations:
            held = why_structured(ops).removeprefix("it holds ")
            raise NetworkError(f"after a SphereLift there is no kernel of a network that holds {held}")
        return Program(StructuredPositions(shape), ops)
    return Program(Positions(shape), _without_lone_windows(ops)) if lift is None else lift.program(shape, ops)


def _simplified(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Fewer operations that do the same to inputs without masks."""
    return _absorbed(tuple(found for op in ops for found in _inside(op)))


def _in_fields(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operations with branches that are joined again, and normalisation over positions, as field programs have them."""
    found: list[Any] = []
    for op in ops:
        if isinstance(op, Normalise) and op.positions and op.centred and op.groups is None:
            op = Standardise(op.eps)
        op = op.with_held(_in_fields)
        if op.is_branching and (before := _side_by_side(found)) is not None:
            if not op.branches:
                found[-1] = replace(op, branches=before.branches)
                continue
            if len(before.branches) == len(op.branches):
                each = zip(before.branches, op.branches, strict=True)
                found[-1] = replace(op, branches=tuple(a + b for a, b in each))
                continue
        found.append(op)
    # The operations of a branch that is joined with no other take its place.
    lone = lambda op: op.is_branching and op.is_closed and len(op.branches) == 1
    return tuple(inner for op in found for inner in (op.branches[0] if lone(op) else (op,)))


def _inside(op: Any) -> tuple[Any, ...]:
    if isinstance(op, BlockSums):
        sizes = np.bincount(op.labels.array[op.labels.array >= 0])
        if (sizes == sizes[0]).all():
            return Pool(op.labels, op.blocks, op.box), Times(float(sizes[0]))
    return (op.with_held(_simplified),)


def _side_by_side(found: list[Any]) -> Parallel | None:
    """The last operation, where that leaves fields side by side."""
    last = found[-1] if found else None
    return last if last is not None and last.is_branching and last.is_open else None


def _absorbed(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers that stand next to a linear layer, or only windows and pools away from the next one, go into it."""
    found = list(ops)
    i = 0
    while i < len(found):
        op = found[i]
        if not isinstance(op, Times):
            i += 1
            continue
        square = op.factor**2
        after = next((j for j in range(i + 1, len(found)) if not found[j].numbers_pass), len(found))
        if i and found[i - 1].affine is not None:
            found[i - 1] = found[i - 1].affine.scaled(square, square)
            del found[i]
        elif after < len(found) and found[after].affine is not None:
            found[after] = found[after].affine.scaled(square, 1.0)
            del found[i]
        else:
            i += 1
    return tuple(found)


def _without_lone_windows(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Operations without 1×…×1 windows of stride 1: whatever their padding, they read what is there."""
    lone = lambda op: isinstance(op, Box) and op.in_shape == op.out_shape and set(op.window) <= {1}
    return tuple(op.with_held(_without_lone_windows) for op in ops if not lone(op))
