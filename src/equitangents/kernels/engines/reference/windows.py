"""Windowed means of fields whose leading axes are positions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents._types import ArrayLike
from equitangents.kernels.program import Box, Table

Axes = tuple[tuple[int, ...], ...]  # for each spatial dimension, the array axes that slide together


def pad_grid(x: ArrayLike, op: Box, axes: Axes) -> ArrayLike:
    """`x` enlarged by the window's reach: wrapped around the torus, or with zeros."""
    if not any(op.low) and not any(op.high):
        return x
    widths = [(0, 0)] * x.ndim
    for group, low, high in zip(axes, op.low, op.high, strict=True):
        for axis in group:
            widths[axis] = (low, high)
    return jnp.pad(x, widths, mode="wrap" if op.wrap else "constant")


def box_mean(x: ArrayLike, op: Box, axes: Axes) -> ArrayLike:
    """Mean over the box of the padded `x`, one spatial dimension after the other."""
    for group, n, w, s in zip(axes, op.out_shape, op.window, op.stride, strict=True):
        pieces = []
        for u in range(w):
            piece = x
            for axis in group:
                piece = lax.slice_in_dim(piece, u, u + (n - 1) * s + 1, s, axis)
            pieces.append(piece)
        x = sum(pieces[1:], pieces[0]) / w
    return x


@lru_cache(maxsize=32)
def window_averages(box: Box) -> np.ndarray:
    """The matrix (positions out, positions in) of means over the box; what lies outside the grid counts as zeros."""
    matrix: np.ndarray = np.ones((1, 1))
    for n, m, w, s, low in zip(box.in_shape, box.out_shape, box.window, box.stride, box.low, strict=True):
        reads = s * np.arange(m)[:, None] - low + np.arange(w)
        along = np.zeros((m, n))
        for out, window in enumerate(reads % n if box.wrap else reads):
            np.add.at(along[out], window[(window >= 0) & (window < n)], 1 / w)
        matrix = np.kron(matrix, along)
    return matrix


def table_mean(x: ArrayLike, op: Table, tables: dict[str, Any]) -> ArrayLike:
    """Σ_s weights[s] x[index[:, s]] over the leading axis."""
    index = tables[op.index.key]
    weights = jnp.asarray(op.weights.array, x.dtype)
    if x.shape[0] <= 8 * index.shape[1]:  # a dense window: one matrix product beats many gathers
        return jnp.tensordot(_matrix(index, weights, x), x, axes=1, precision=lax.Precision.HIGHEST)
    return _gather_mean(x, index, weights, lambda y, i: y[i])


def table_mean_pairs(x: ArrayLike, op: Table, tables: dict[str, Any]) -> ArrayLike:
    """Σ_s weights[s] x[index[:, s], index[:, s]] over the two leading axes."""
    index = tables[op.index.key]
    weights = jnp.asarray(op.weights.array, x.dtype)
    return _gather_mean(x, index, weights, lambda y, i: y[i][:, i])


def _gather_mean(x: ArrayLike, index: ArrayLike, weights: ArrayLike, gather: Any) -> ArrayLike:
    def add(total: ArrayLike, column: ArrayLike) -> tuple[Any, None]:
        i, weight = column
        return total + weight * gather(x, i), None

    first = weights[0] * gather(x, index[:, 0])
    return lax.scan(jax.checkpoint(add), first, (index[:, 1:].T, weights[1:]))[0]


def _matrix(index: ArrayLike, weights: ArrayLike, x: ArrayLike) -> ArrayLike:
    rows = jnp.arange(index.shape[0])[:, None]
    empty = jnp.zeros((index.shape[0], x.shape[0]), x.dtype)
    return empty.at[rows, index].add(jnp.broadcast_to(weights, index.shape))
