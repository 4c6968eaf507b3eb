"""Graphs of neural-tangents, `pattern=`: edges from tails to heads, among all positions or along some axes.

pattern[n, tail, head] is the weight with which the head receives the tail, so that it is transposed into the
adjacency matrix of `Graphs`, which says what a node receives. Along some of the axes alone, all else being equal, the
matrix is a product with the identity along the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike, Tree
from equitangents.errors import InvalidTypeError, ShapeError


@dataclass(frozen=True)
class Pattern:
    """Axes (None: all) and form of the pattern of an `Aggregate`."""

    axes: tuple[int, ...] | None = None
    batch_axis: int = 0
    channel_axis: int = -1
    to_dense: Callable[[Tree], ArrayLike] | None = None
    sparse: bool = False

    def adjacency(self, pattern: Tree, grid: tuple[int, ...]) -> ArrayLike:
        """(N, P, P) of positions of a grid: entry (n, p, r) is what p receives of r in input n."""
        if self.to_dense is not None and not self.sparse:
            pattern = self.to_dense(pattern)
        if not hasattr(pattern, "shape"):
            pattern = np.asarray(pattern)
        xp = jnp if isinstance(pattern, jax.Array) else np
        along = self._along(len(grid))
        sizes = [grid[d] for d in along]
        count = math.prod(sizes)
        if self.sparse:
            edges = _of_edges(pattern, sizes)
        elif np.size(pattern) != len(pattern) * count**2:
            raise ShapeError("pattern", pattern.shape, ("N", count, count), "as many as nodes")
        else:
            edges = pattern.reshape((len(pattern), count, count))
        others = [d for d in range(len(grid)) if d not in along]
        kept = xp.eye(math.prod(grid[d] for d in others), dtype=edges.dtype)
        product = edges[:, :, None, :, None] * kept[None, None, :, None]
        split = [grid[d] for d in (*along, *others)]
        order = [(*along, *others).index(d) for d in range(len(grid))]
        tails, heads = [1 + i for i in order], [1 + len(grid) + i for i in order]
        moved = xp.transpose(product.reshape((len(edges), *split, *split)), (0, *heads, *tails))
        total = math.prod(grid)
        return moved.reshape((len(edges), total, total))

    def _along(self, dimensions: int) -> list[int]:
        """Which dimensions of the grid the axes are."""
        rank = dimensions + 2
        batch, channel = self.batch_axis % rank, self.channel_axis % rank
        spatial = [axis for axis in range(rank) if axis not in (batch, channel)]
        if self.axes is None:
            return list(range(dimensions))
        named = sorted({axis % rank for axis in self.axes})
        if not set(named) <= set(spatial):
            raise ShapeError("aggregate_axis", self.axes, list(spatial), "axes of positions", verb="is")
        return [spatial.index(axis) for axis in named]


def _of_edges(pattern: ArrayLike, sizes: list[int]) -> jax.Array:
    """Numbers of edges (N, tails, heads) from lists of them, (N, edges, dimensions, 2); negative ones are none."""
    given, expected = pattern.shape, ["N", "edges", len(sizes), 2]
    if pattern.ndim == 3 and len(sizes) == 1:
        pattern = pattern[:, :, None]
        del expected[2]
    if pattern.ndim != 4 or pattern.shape[2:] != (len(sizes), 2):
        raise ShapeError("pattern", given, tuple(expected))
    if pattern.dtype.kind not in "iu":
        raise InvalidTypeError(
            "pattern", pattern.dtype, "whole numbers, the positions of edges' ends", verb="has dtype"
        )
    there = (pattern >= 0).all(axis=(2, 3))
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1].reshape((1, 1, -1, 1))
    ends = (pattern % np.reshape(sizes, (1, 1, -1, 1)) * strides).sum(axis=2)
    count = math.prod(sizes)
    rows = jnp.arange(len(pattern))[:, None]
    return jnp.zeros((len(pattern), count, count)).at[rows, ends[..., 0], ends[..., 1]].add(there)
