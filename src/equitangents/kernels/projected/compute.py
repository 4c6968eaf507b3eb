"""Kernels of projected programs: `base`, which computes kernels of numbers by some engine, is called with moved inputs.

Numbers are of any engine: for the compiled one a readout of a finite group costs what a pool over the group costs. How
finely rotations are sampled is measured on a few of the signals. A block of high degree is a small part of the kernel,
so errors are relative to the block's own diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.groups import MatrixGroup, so3
from equitangents.kernels.cost import KernelCost, repeated
from equitangents.kernels.fields import check_result
from equitangents.kernels.program import Program
from equitangents.kernels.projected.program import (
    EquivariantOutputs,
    KernelOf,
    Nodes,
    PositionMoves,
    RotationMoves,
    Sums,
    all_pairs,
    diagonal,
)
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations.sampling import AS_ASKED, LADDER, Resolution, coarser, sample, search, surrogates
from equitangents.kernels.runs.scaling import result
from equitangents.memory import check_fits
from equitangents.sphere import rotate

_FINEST = 24  # 53,016 rotations
_SMALL = 1e-6  # of the kernel of numbers: blocks below that are not resolved any further


def resolve(
    moves: RotationMoves, kernel: Callable[[Any, Any], Kernels], x1: ArrayLike, x2: ArrayLike | None
) -> Resolution:
    """The lowest resolution at which the blocks of a few signals are within the tolerance of those of a finer grid."""
    if isinstance(moves.group, MatrixGroup):
        return Resolution(0, None, None)
    traced = precision.is_traced(x1) or precision.is_traced(x2)
    note = "resolution and error are those of random signals of unit variance" if traced else None
    if traced:
        signals = surrogates(moves.bandlimit, x1.shape[-1])
    else:
        signals = sample(*(np.asarray(x, np.float64) for x in (x1, x1 if x2 is None else x2)))
    both = np.concatenate([signals, *(rotate(signals, R) for R in so3(1).random(2))])

    @cache
    def at(r: int) -> np.ndarray:
        found = all_pairs(kernel, moves.nodes(r), signals, both)
        return np.stack([found.nngp, found.ntk])

    own = kernel(signals, signals)
    size = _SMALL * np.array([np.abs(np.diagonal(k)).max() for k in (np.asarray(own.nngp), np.asarray(own.ntk))])

    def error(coarse: int, fine: int) -> float:
        scale = np.einsum("viikk->vik", at(fine)[:, :, : len(signals)]).max(axis=(1, 2))
        difference = np.abs(at(coarse) - at(fine)).reshape(2, -1).max(axis=1)
        return float(np.max(difference / np.maximum(np.maximum(scale, size), 1e-300)))

    tolerance = max(moves.accuracy.tolerance, 64 * float(np.finfo(precision.working_dtype(x1, x2)).eps))
    if (r := moves.accuracy.resolution) is not None:
        return Resolution(r, error(coarser(r), r) if coarser(r) < r else None, AS_ASKED)
    found = search([r for r in LADDER if 2 * r > moves.bandlimit and r <= _FINEST], error, tolerance)
    return found if found.note else found._replace(note=note)


_TYPICAL = 8  # the resolution that costs are given for where signals are not known

Base = Callable[..., Kernels]


def compute(
    base: Base, program: Program[EquivariantOutputs], x1: Any, x2: Any = None, engine: str | None = None
) -> Kernels:
    """NNGP and NTK between x1 and x2 (None: x1 with itself, at half the cost), each (N1, N2, d, d)."""
    return _compute(base, program, x1, x2, engine, lambda kernel, nodes: all_pairs(kernel, nodes, x1, x2))


def compute_diagonal(base: Base, program: Program[EquivariantOutputs], x: Any, engine: str | None = None) -> Kernels:
    """NNGP and NTK of each input with itself, each (N, d, d)."""
    return _compute(base, program, x, None, engine, lambda kernel, nodes: diagonal(kernel, nodes, x))


def kernel_cost(
    base_cost: Callable[..., KernelCost],
    program: Program[EquivariantOutputs],
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: DTypeLike = "float32",
    engine: str | None = None,
) -> KernelCost:
    """The cost of the kernels of numbers for every element, or for a quadrature of SO(3) at a typical resolution."""
    moves = program.space.moves
    typical = moves.accuracy.resolution if isinstance(moves, RotationMoves) else None
    one = base_cost(numbers(program), channels, n1, n2, dtype, engine)
    whole = repeated([(one, len(moves.nodes(typical or _TYPICAL)))], 0)
    return replace(whole, output_bytes=whole.output_bytes * program.space.dimension**2)


def _compute(
    base: Base,
    program: Program[EquivariantOutputs],
    x1: Any,
    x2: Any,
    engine: str | None,
    run: Callable[[KernelOf, Nodes], Sums],
) -> Kernels:
    flat = numbers(program)
    kernel = lambda a, b: base(flat, a, b, engine)
    dtype = precision.working_dtype(x1, x2)
    _check_memory(program, x1, x2)
    nodes, found = _nodes(program, kernel, x1, x2)
    sums = run(kernel, nodes)
    nngp, ntk = (k + program.space.constant.array for k in (sums.nngp, sums.ntk))
    if any(precision.is_traced(x) for x in (x1, x2)):
        with precision.scope(dtype):
            nngp, ntk = nngp.astype(dtype), ntk.astype(dtype)
    else:
        nngp, ntk = np.asarray(nngp, dtype), np.asarray(ntk, dtype)
    facts: dict[str, Any] = {"engine": sums.term.engine, "form": sums.term.form, "notes": sums.term.notes}
    if found is not None:
        facts |= {"error_estimate": found.error, "resolution": found.value or None}
        facts["notes"] += () if found.note is None else (found.note,)
    return result((x1, x2), nngp, ntk, None, 0, **facts)


@lru_cache(maxsize=64)
def numbers(program: Program[EquivariantOutputs]) -> Program[Any]:
    """The program of the kernels of numbers."""
    return Program(program.space.flat, program.ops)


def _nodes(program: Program[EquivariantOutputs], kernel: KernelOf, x1: Any, x2: Any) -> tuple[Nodes, Resolution | None]:
    moves = program.space.moves
    if isinstance(moves, PositionMoves):
        return moves.nodes(0), None
    found = resolve(moves, kernel, x1, x2)
    return moves.nodes(found.value), found


def _check_memory(program: Program[EquivariantOutputs], x1: Any, x2: Any) -> None:
    n1, n2, d = len(x1), len(x1 if x2 is None else x2), program.space.dimension
    check_result(x1, x2, precision.working_dtype(x1, x2), 0)
    check_fits(
        f"a kernel of {n1} × {n2} inputs and {d} × {d} outputs",
        4 * 8 * n1 * n2 * d * d,
        "compute fewer inputs at a time",
    )
