"""From the operations of layers to a program of the cheapest kind that holds them: one vocabulary of branches.

Structured operations are said in the words of field programs, wherever these have them, so that all engines run them:
a sum with an untouched branch is a residual one; sums over blocks of equal size are means times a number; a number
goes into the weights of the linear layer before or after it: W² (c² K) + b² = (cW)² K + b². Windows of one position
are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.errors import NetworkError
from equitangents.kernels.branches import Join, Parallel, residual
from equitangents.kernels.operations import Box, Pool, Standardise
from equitangents.kernels.program import GroupFibres, Op, Positions, Program
from equitangents.kernels.rotations import Sphere
from equitangents.kernels.structured import (
    BlockSums,
    Normalise,
    StructuredPositions,
    Times,
    is_structured,
    why_structured,
)

_SUM_OF_TWO = Parallel((), (Join((0, 1)),))


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
    return _absorbed(_residual(tuple(found for op in ops for found in _inside(op))))


def _in_fields(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operations with branches that are joined again, and normalisation over positions, as field programs have them."""
    found: list[Any] = []
    for op in ops:
        if isinstance(op, Normalise) and op.positions and op.centred and op.groups is None:
            op = Standardise(op.eps)
        op = op.with_held(_in_fields)
        if op.is_branching and (before := _side_by_side(found)) is not None:
            if not op.branches:
                found[-1] = Parallel(before.branches, op.joins)
                continue
            if len(before.branches) == len(op.branches):
                each = zip(before.branches, op.branches, strict=True)
                found[-1] = Parallel(tuple(a + b for a, b in each), op.joins)
                continue
        found.append(op)
    return tuple(inner for op in found for inner in _lone(op))


def _lone(op: Any) -> tuple[Any, ...]:
    """The operations of a branch that is joined with no other, in the place of the branch."""
    return op.branches[0] if op.is_branching and op.is_closed and len(op.branches) == 1 else (op,)


def _inside(op: Any) -> tuple[Any, ...]:
    if isinstance(op, BlockSums):
        sizes = np.bincount(op.labels.array[op.labels.array >= 0])
        if (sizes == sizes[0]).all():
            return Pool(op.labels, op.blocks, op.box), Times(float(sizes[0]))
    return (op.with_held(_simplified),)


def _residual(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Branches that only hand on are joined with the next; what is summed with an empty branch is residual."""
    found: list[Any] = []
    signals = [1]  # before each operation found, and after the last
    for op in ops:
        if op.is_branching and (before := _side_by_side(found)) is not None:
            if op.branches and not any(before.branches) and len(op.branches) == len(before.branches):
                found[-1] = op
                continue
            full = [branch for branch in before.branches if branch]
            if op == _SUM_OF_TWO and len(before.branches) == 2 and len(full) == 1 and signals[-2] == 1:
                found[-1], signals[-1] = residual(full[0]), 1
                continue
        found.append(op)
        signals.append(op.signals_after(signals[-1]))
    return tuple(found)


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
