"""A random network of m channels, one pass over an input: what it computes are features of its kernel.

f(p), (m,), of every position has mean_j f_j(p) f'_j(p') → K(p, p'): windows are sums with random signs, pools means. No
pair of inputs or of positions is ever formed. Up to the first pool the diagonal K(p, p) is known exactly, and features
are scaled to it.

Weights cost little: y = (A ⊗ B) D x with random signs D and cosine transforms A, B stands in for a dense matrix. It is
orthogonal, so that |y| = |x|, each entry of y a sum of all entries of x with random signs, nearly Gaussian; 2(a + b)
operations an entry where a dense matrix takes 2ab. Sources: Le, Sarlos & Smola 2013 (Fastfood); Yu et al. 2016
(structured orthogonal random features).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft
from jax import lax

from equitangents._types import ArrayLike
from equitangents.kernels.branches import Parallel
from equitangents.kernels.engines.reference.execute import deviation
from equitangents.kernels.engines.reference.windows import pad_grid
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flatten,
    Pool,
    RatedAffine,
    Standardise,
    Table,
    WindowPool,
)
from equitangents.kernels.program import Op
from equitangents.kernels.random_features.activations import function_of


@lru_cache
def factors(width: int) -> tuple[int, int]:
    """Two numbers with the product `width`, as near to each other as can be."""
    small = next(d for d in range(math.isqrt(width), 0, -1) if width % d == 0)
    return small, width // small


@lru_cache(maxsize=16)
def cosines(size: int) -> np.ndarray:
    """The orthogonal matrix of the discrete cosine transform."""
    return np.asarray(scipy.fft.dct(np.eye(size), axis=0, norm="ortho"))


def mix(x: jax.Array, signs: ArrayLike) -> jax.Array:
    """(A ⊗ B) D x along the last axis."""
    a, b = factors(x.shape[-1])
    y = (x * signs.astype(x.dtype)).reshape((-1, a, b))
    one, other = (jnp.asarray(cosines(n), x.dtype) for n in (a, b))
    y = jnp.matmul(y.reshape((-1, b)), other, precision="highest").reshape(y.shape)
    y = jnp.einsum("nab,ac->ncb", y, one, precision="highest")
    return y.reshape(x.shape)


def box_sum(x: jax.Array, op: Box, signs: Sequence[ArrayLike] | None = None) -> jax.Array:
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


def table_sum(x: jax.Array, op: Table, signs: ArrayLike) -> jax.Array:
    """Σ_s √weights[s] d_s x(index[:, s])."""
    roots = jnp.asarray(np.sqrt(op.weights.array), x.dtype)
    index = jnp.asarray(op.index.array.T)

    def add(total: jax.Array, part: tuple[jax.Array, jax.Array, ArrayLike]) -> tuple[jax.Array, None]:
        rows, root, d = part
        return total + root * d.astype(x.dtype) * x[:, rows], None

    first = jnp.zeros((x.shape[0], op.index.array.shape[0], x.shape[-1]), x.dtype)
    return lax.scan(add, first, (index, roots, signs))[0]


def table_mean(q: jax.Array, op: Table) -> jax.Array:
    """Σ_s weights[s] q(index[:, s]) of numbers (B, P)."""
    weights = jnp.asarray(op.weights.array, q.dtype)
    add = lambda total, part: (total + part[1] * q[:, part[0]], None)
    first = jnp.zeros((q.shape[0], op.index.array.shape[0]), q.dtype)
    return lax.scan(add, first, (jnp.asarray(op.index.array.T), weights))[0]


def block_means(x: jax.Array, labels: np.ndarray, blocks: int) -> jax.Array:
    """Means over the positions of each block, of x (B, P, m); those with label -1 are dropped."""
    kept = np.flatnonzero(labels >= 0)
    order = kept[np.argsort(labels[kept], kind="stable")]
    counts = np.bincount(labels[kept], minlength=blocks)
    if (counts == counts[0]).all():
        y = x if len(kept) == x.shape[1] and (order == kept).all() else x[:, order]
        return y.reshape((x.shape[0], blocks, counts[0], x.shape[-1])).mean(axis=2)
    weights = (labels[None, :] == np.arange(blocks)[:, None]) / counts[:, None]
    return jnp.einsum("kp,bpm->bkm", jnp.asarray(weights, x.dtype), x, precision="highest")


class Field(NamedTuple):
    """Features f, (B, P, m), and the exact K(p, p) and E f(p), each (B, P)."""

    f: jax.Array
    q: jax.Array
    mean: jax.Array


Shift = Callable[[jax.Array], jax.Array]  # what an affine map takes -> what is added to its result


def start(x: jax.Array, embedding: ArrayLike) -> Field:
    """The field of inputs x (B, P, C)."""
    f = jnp.matmul(x, embedding.astype(x.dtype), precision="highest")
    q = jnp.mean(x * x, axis=-1)
    return Field(f, q, jnp.zeros_like(q))


def run(ops: tuple[Op, ...], field: Field, drawn: list[Any], shift: Shift = jnp.zeros_like) -> Field:
    """The field after `ops`; every affine map calls `shift`, in the order of `flat`."""
    for op, own in zip(ops, drawn, strict=True):
        field = _RULES[type(op)](op, field, own, shift)
    return field


def _affine(op: Affine, x: Field, own: dict[str, ArrayLike], shift: Shift) -> Field:
    """K ← W²K + b²."""
    before = _scaled(x.f, x.q)
    q = op.W_var * x.q + op.b_var
    f = op.W_var**0.5 * mix(before, own["signs"])
    if op.b_var:
        f = _scaled(f + op.b_var**0.5 * own["bias"].astype(f.dtype), q)
    return Field(f + shift(before), q, jnp.zeros_like(q))


def _scaled(f: jax.Array, q: jax.Array) -> jax.Array:
    """Features with the mean square that is known: by a factor that is none of the network's own."""
    found = jnp.mean(f * f, axis=-1)
    factor = jnp.sqrt(jnp.where(found > 0, q, 0) / jnp.where(found > 0, found, 1))
    return f * lax.stop_gradient(factor)[..., None]


def _dual(op: Dual, x: Field, own: None, shift: Shift) -> Field:
    q, mean = op.activation.moments(x.q)
    return Field(function_of(op.activation)(x.f, x.q[..., None]), q, mean + jnp.zeros_like(q))


def _box(op: Box, x: Field, own: list[ArrayLike], shift: Shift) -> Field:
    q = box_sum(x.q[..., None], op)[..., 0]
    return Field(box_sum(x.f, op, own), q, jnp.zeros_like(q))


def _table(op: Table, x: Field, own: ArrayLike, shift: Shift) -> Field:
    q = table_mean(x.q, op)
    return Field(table_sum(x.f, op, own), q, jnp.zeros_like(q))


def _measured(f: jax.Array, mean: jax.Array) -> Field:
    """Behind a pool no diagonal is known: it is that of the features."""
    return Field(f, lax.stop_gradient(jnp.mean(f * f, axis=-1)), mean)


def _pool(op: Pool, x: Field, own: None, shift: Shift) -> Field:
    f, mean = (block_means(v, op.labels.array, op.blocks) for v in (x.f, x.mean[..., None]))
    return _measured(f, mean[..., 0])


def _window_pool(op: WindowPool, x: Field, own: None, shift: Shift) -> Field:
    f, mean = (box_sum(v, op.box) for v in (x.f, x.mean[..., None]))
    return _measured(f, mean[..., 0])


def _flatten(op: Flatten, x: Field, own: ArrayLike, shift: Shift) -> Field:
    f = jnp.sum(x.f * own.astype(x.f.dtype), axis=1, keepdims=True) / x.f.shape[1] ** 0.5
    q = x.q.mean(axis=1, keepdims=True)
    return Field(f, q, jnp.zeros_like(q))


def _decouple(op: Decouple, x: Field, own: ArrayLike, shift: Shift) -> Field:
    return x._replace(f=x.f * own.astype(x.f.dtype))


def _parallel(op: Parallel, x: Field, own: Any, shift: Shift) -> Field:
    branches = own if op.shares is None else own["branches"]
    each = [run(branch, x, drawn, shift) for branch, drawn in zip(op.branches, branches, strict=True)]
    if op.shares is None:
        f, mean = (sum(getattr(y, name) for y in each) for name in ("f", "mean"))
        return Field(f, sum(y.q - y.mean**2 for y in each) + mean**2, mean)
    weighed = list(zip(op.shares, each, own["signs"], strict=True))
    f = sum(w**0.5 * d.astype(y.f.dtype) * y.f for w, y, d in weighed)
    q, mean = (sum(w * getattr(y, name) for w, y, _ in weighed) for name in ("q", "mean"))
    return Field(f, q, mean)


def _standardise(op: Standardise, x: Field, own: None, shift: Shift) -> Field:
    factor = 1 / deviation(op, x.q.T).T
    return Field(x.f * factor[..., None], x.q * factor**2, jnp.zeros_like(x.q))


_RULES: dict[type, Callable[..., Field]] = {
    Affine: _affine,
    RatedAffine: _affine,
    Box: _box,
    Table: _table,
    Dual: _dual,
    Decouple: _decouple,
    Pool: _pool,
    WindowPool: _window_pool,
    Flatten: _flatten,
    Parallel: _parallel,
    Standardise: _standardise,
}
