"""Structured operations in the words of field programs, wherever these have them, so that all engines run them.

A sum with an untouched branch is a residual one; sums over blocks of equal size are means times a number; a number
goes into the weights of the linear layer before or after it: W² (c² K) + b² = (cW)² K + b².
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from equitangents.kernels.program import (
    Affine,
    Box,
    Decouple,
    Flatten,
    Parallel,
    Pool,
    RatedAffine,
    Standardise,
    Table,
    WindowPool,
    residual,
    with_inside,
)
from equitangents.kernels.structured.program import Add, BlockSums, Concatenate, Normalise, Split, Times

_COMMUTES = (Box, Table, Pool, WindowPool, Flatten, Decouple, Times)


def simplified(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Fewer operations that do the same to inputs without masks."""
    return _absorbed(_residual(tuple(found for op in ops for found in _inside(op))))


def in_fields(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operations with branches that are joined again, and normalisation over positions, as field programs have them."""
    found: list[Any] = []
    for op in ops:
        before = found[-1] if found else None
        if isinstance(op, Split):
            branches = tuple(map(in_fields, op.branches))
            if isinstance(before, Split) and len(before.branches) == len(branches):
                found[-1] = Split(tuple(a + b for a, b in zip(before.branches, branches, strict=True)))
            else:
                found.append(Split(branches))
        elif isinstance(before, Split) and isinstance(op, Add | Concatenate) and op.groups == (_all_of(before),):
            found[-1] = Parallel(before.branches, op.shares[0] if isinstance(op, Concatenate) else None)
        elif isinstance(op, Normalise) and op.positions and op.centred and op.groups is None:
            found.append(Standardise(op.eps))
        else:
            found.append(with_inside(op, in_fields))
    return tuple(found)


def _all_of(op: Split) -> tuple[int, ...]:
    return tuple(range(len(op.branches)))


def _inside(op: Any) -> tuple[Any, ...]:
    if isinstance(op, Split):
        return (Split(tuple(map(simplified, op.branches))),)
    if isinstance(op, BlockSums):
        sizes = np.bincount(op.labels.array[op.labels.array >= 0])
        if (sizes == sizes[0]).all():
            return Pool(op.labels, op.blocks, op.box), Times(float(sizes[0]))
    return (with_inside(op, simplified),)


def _residual(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Splits that only hand on are joined with the next one; one that is summed with an empty branch is residual."""
    found: list[Any] = []
    signals = [1]  # before each operation found, and after the last
    for op in ops:
        before = found[-1] if found else None
        if isinstance(before, Split):
            handed_on = isinstance(op, Split) and not any(before.branches) and len(op.branches) == len(before.branches)
            full = [branch for branch in before.branches if branch]
            summed = isinstance(op, Add) and op.groups == ((0, 1),) and len(before.branches) == 2 and len(full) == 1
            if handed_on:
                found[-1] = op
                continue
            if summed and signals[-2] == 1:
                found[-1], signals[-1] = residual(full[0]), 1
                continue
        found.append(op)
        signals.append(_signals_after(op, signals[-1]))
    return tuple(found)


def _signals_after(op: Any, before: int) -> int:
    if isinstance(op, Split):
        return len(op.branches)
    return len(op.groups) if isinstance(op, Add | Concatenate) else before


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
        after = next((j for j in range(i + 1, len(found)) if not isinstance(found[j], _COMMUTES)), len(found))
        if i and isinstance(found[i - 1], Affine):
            found[i - 1] = _scaled(found[i - 1], square, square)
            del found[i]
        elif after < len(found) and isinstance(found[after], Affine):
            found[after] = _scaled(found[after], square, 1.0)
            del found[i]
        else:
            i += 1
    return tuple(found)


def _scaled(op: Affine, weights: float, bias: float) -> Affine:
    scaled = replace(op, W_var=op.W_var * weights, b_var=op.b_var * bias)
    if isinstance(scaled, RatedAffine):
        return replace(scaled, weight_rate=scaled.weight_rate * weights, bias_rate=scaled.bias_rate * bias)
    return scaled
