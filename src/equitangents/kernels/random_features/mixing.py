"""Weights of a random network that cost little: signs and a fixed orthogonal matrix in the place of a dense one.

y = (A ⊗ B) D x with random signs D and cosine transforms A, B: orthogonal, so that |y| = |x|, each entry of y a sum of
all entries of x with random signs, nearly Gaussian; 2(a + b) operations an entry where a dense matrix takes 2ab.
Source: Le, Sarlos & Smola 2013 (Fastfood); Yu et al. 2016 (structured orthogonal random features).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.fft
from jax import lax

from equitangents.kernels.engines.reference.windows import pad_grid
from equitangents.kernels.program import Box, Table, WindowPool


@lru_cache
def factors(width: int) -> tuple[int, int]:
    """Two numbers with the product `width`, as near to each other as can be."""
    small = next(d for d in range(math.isqrt(width), 0, -1) if width % d == 0)
    return small, width // small


@lru_cache(maxsize=16)
def cosines(size: int) -> np.ndarray:
    """The orthogonal matrix of the discrete cosine transform."""
    return np.asarray(scipy.fft.dct(np.eye(size), axis=0, norm="ortho"))


def mix(x: Any, signs: Any) -> Any:
    """(A ⊗ B) D x along the last axis."""
    a, b = factors(x.shape[-1])
    y = (x * signs.astype(x.dtype)).reshape((-1, a, b))
    one, other = (jnp.asarray(cosines(n), x.dtype) for n in (a, b))
    y = jnp.matmul(y.reshape((-1, b)), other, precision="highest").reshape(y.shape)
    y = jnp.einsum("nab,ac->ncb", y, one, precision="highest")
    return y.reshape(x.shape)


def box_sum(x: Any, op: Box, signs: Any = None) -> Any:
    """Σ_u d_u x(s·p + u) / √|S| of x (B, P, m), with signs d_u a channel; without signs the mean over the window."""
    batch, width = x.shape[0], x.shape[-1]
    y: Any = pad_grid(x.reshape((batch, *op.in_shape, width)), op, tuple((i + 1,) for i in range(len(op.in_shape))))
    for axis, (n, w, s) in enumerate(zip(op.out_shape, op.window, op.stride, strict=True), start=1):
        pieces = (lax.slice_in_dim(y, u, u + (n - 1) * s + 1, s, axis) for u in range(w))
        if signs is None:
            y = sum(pieces) / w
        else:
            y = sum(piece * d.astype(x.dtype) for piece, d in zip(pieces, signs[axis - 1], strict=True)) / math.sqrt(w)
    return y.reshape((batch, -1, width))


def table_sum(x: Any, op: Table, signs: Any) -> Any:
    """Σ_s √weights[s] d_s x(index[:, s])."""
    roots = jnp.asarray(np.sqrt(op.weights.array), x.dtype)
    index = jnp.asarray(op.index.array.T)

    def add(total: Any, part: Any) -> tuple[Any, None]:
        rows, root, d = part
        return total + root * d.astype(x.dtype) * x[:, rows], None

    first = jnp.zeros((x.shape[0], op.index.array.shape[0], x.shape[-1]), x.dtype)
    return lax.scan(add, first, (index, roots, signs))[0]


def table_mean(q: Any, op: Table) -> Any:
    """Σ_s weights[s] q(index[:, s]) of numbers (B, P)."""
    weights = jnp.asarray(op.weights.array, q.dtype)
    add = lambda total, part: (total + part[1] * q[:, part[0]], None)
    first = jnp.zeros((q.shape[0], op.index.array.shape[0]), q.dtype)
    return lax.scan(add, first, (jnp.asarray(op.index.array.T), weights))[0]


def window_means(x: Any, op: WindowPool) -> Any:
    """Means over windows of positions, of x (B, P, m)."""
    return box_sum(x, op.box)


def block_means(x: Any, labels: np.ndarray, blocks: int) -> Any:
    """Means over the positions of each block, of x (B, P, m); those with label -1 are dropped."""
    kept = np.flatnonzero(labels >= 0)
    order = kept[np.argsort(labels[kept], kind="stable")]
    counts = np.bincount(labels[kept], minlength=blocks)
    if (counts == counts[0]).all():
        y = x if len(kept) == x.shape[1] and (order == kept).all() else x[:, order]
        return y.reshape((x.shape[0], blocks, counts[0], x.shape[-1])).mean(axis=2)
    weights = (labels[None, :] == np.arange(blocks)[:, None]) / counts[:, None]
    return jnp.einsum("kp,bpm->bkm", jnp.asarray(weights, x.dtype), x, precision="highest")
