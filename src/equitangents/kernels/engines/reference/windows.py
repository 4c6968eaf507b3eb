"""Windowed means of fields whose leading axes are positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents._types import ArrayLike
from equitangents.kernels.angular import Both, angle_left, both, distance_by, moved, valued, vanishing
from equitangents.kernels.operations import Box, IndexTable

Axes = tuple[tuple[int, ...], ...]  # for each spatial dimension, the array axes that slide together


def pad_grid(x: ArrayLike, op: Box, axes: Axes) -> ArrayLike:
    """`x` padded by the window's reach: wrapped around the torus, or with zeros."""
    if not any(op.low) and not any(op.high):
        return x
    widths = [(0, 0)] * x.ndim
    for group, low, high in zip(axes, op.low, op.high, strict=True):
        for axis in group:
            widths[axis] = (low, high)
    return jnp.pad(x, widths, mode="wrap" if op.wrap else "constant")


def box_mean(x: ArrayLike, op: Box, axes: Axes) -> ArrayLike:
    """Mean over the box of the padded `x`, one spatial dimension after another."""
    for dimension in range(len(axes)):
        pieces = _pieces(x, op, axes, dimension)
        x = sum(pieces[1:], pieces[0]) / len(pieces)
    return x


def box_variances(at: Both, op: Box, axes: Axes) -> list[Both]:
    """The variances at the padded grid, and after each dimension of the box."""
    found = [at]
    for dimension in range(len(axes)):
        pieces = [_pieces(q, op, axes, dimension) for q in (at.q1, at.q2)]
        at = both(*(sum(p[1:], p[0]) / len(p) for p in pieces))
        found.append(at)
    return found


def box_mean_of_angles(e: ArrayLike, variances: list[Both], op: Box, axes: Axes) -> ArrayLike:
    """The distance E of means over the box: dimension by dimension, means of distances with the a of its variances."""
    for dimension, (before, after) in enumerate(pairwise(variances)):
        if op.window[dimension] == 1:
            (e,) = _pieces(e, op, axes, dimension)
            continue

        slid = partial(_pieces, op=op, axes=axes, dimension=dimension)
        e = vanishing(valued(partial(_mean, slid), partial(_mean_by, slid), e, before, after), after)
    return e


def _mean(slid: Callable[[Any], list[Any]], e: Any, before: Both, after: Both) -> Any:
    # The roots are all that distances read.
    each = [
        x + after.gap(one, other) ** 2
        for x, one, other in zip(*map(slid, (e, before.root1, before.root2)), strict=True)
    ]
    return sum(each[1:], each[0]) / len(each)


def _mean_by(slid: Callable[[Any], list[Any]], e: Any, before: Both, after: Both) -> Any:
    each = [distance_by(x, Both(*at), after.to) for x, *at in zip(*map(slid, (e, *before)), strict=True)]
    return sum(each[1:], each[0]) / len(each)


def _pieces(x: ArrayLike, op: Box, axes: Axes, dimension: int) -> list[ArrayLike]:
    """The window's reads along a dimension, one per shift; axes of length 1 broadcast."""
    n, w, s = (numbers[dimension] for numbers in (op.out_shape, op.window, op.stride))
    pieces = []
    for u in range(w):
        piece = x
        for axis in axes[dimension]:
            if x.shape[axis] > 1:
                piece = lax.slice_in_dim(piece, u, u + (n - 1) * s + 1, s, axis)
        pieces.append(piece)
    return pieces


@lru_cache(maxsize=32)
def window_averages(box: Box) -> np.ndarray:
    """The matrix (positions out, positions in) of means over the box, with zeros outside the grid."""
    table = box.table
    present, rows = table >= 0, np.broadcast_to(np.arange(len(table))[:, None], table.shape)
    matrix = np.zeros((len(table), math.prod(box.in_shape)))
    np.add.at(matrix, (rows[present], table[present]), 1 / table.shape[1])
    return matrix


def table_mean(x: ArrayLike, op: IndexTable, tables: dict[str, Any], pairs: bool = False) -> ArrayLike:
    """Σ_s weights[s] x[index[:, s]] over the leading axis; for `pairs` x[index[:, s], index[:, s]] over two axes."""
    index = tables[op.index.key]
    weights = jnp.asarray(op.weights.array, x.dtype)
    if not pairs and x.shape[0] <= 8 * index.shape[1]:  # a dense window: one matrix product beats many gathers
        return jnp.tensordot(_matrix(index, weights, x), x, axes=1, precision=lax.Precision.HIGHEST)
    return _gather_mean(x, index, weights, lambda y, i: y[i][:, i] if pairs else y[i])


def table_mean_of_angles(
    e: ArrayLike, before: Both, after: Both, op: IndexTable, tables: dict[str, Any], pairs: bool = False
) -> ArrayLike:
    """The distance E of the means in `table_mean`; for pairs, variances are (P, 1, ...) and (1, P, ...).

    If one matrix product computes them, every pair of inputs has one a.
    """
    index = tables[op.index.key]
    if not pairs and e.shape[0] <= 8 * index.shape[1]:
        common = both(jnp.mean(before.q1, axis=0), jnp.mean(before.q2, axis=0)).to
        return angle_left(table_mean(moved(e, before, common), op, tables), after, common)

    def gather(v: Any, i: ArrayLike) -> ArrayLike:
        e, second = (v[0][i][:, i], v[2][:, i]) if pairs else (v[0][i], v[2][i])
        return moved(e, both(v[1][i], second), after.to)

    weights = jnp.asarray(op.weights.array, e.dtype)
    return vanishing(_gather_mean((e, before.q1, before.q2), index, weights, gather), after)


def _gather_mean(x: Any, index: ArrayLike, weights: ArrayLike, gather: Any) -> ArrayLike:
    def add(total: ArrayLike, column: ArrayLike) -> tuple[Any, None]:
        i, weight = column
        return total + weight * gather(x, i), None

    first = weights[0] * gather(x, index[:, 0])
    return lax.scan(jax.checkpoint(add), first, (index[:, 1:].T, weights[1:]))[0]


def _matrix(index: ArrayLike, weights: ArrayLike, x: ArrayLike) -> ArrayLike:
    rows = jnp.arange(index.shape[0])[:, None]
    empty = jnp.zeros((index.shape[0], x.shape[0]), x.dtype)
    return empty.at[rows, index].add(jnp.broadcast_to(weights, index.shape))
