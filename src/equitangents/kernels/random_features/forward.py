"""One pass of a random network that carries its kernel and its tangent kernel as features of every position.

f(p), (m,), with mean_j f_j(p) f'_j(p') → K(p, p'), is what a network of m channels computes. t(p) has mean_j t_j t'_j →
Θ(p, p') by the recursion of Θ: Θ·E[φ'φ'] are products t_j φ'(f_j), since channels are independent; K + W²Θ is
W t_j ± f_π(j), windows are sums with random signs, pools means. No pair of inputs or of positions is ever formed.
Sources: Zandieh et al. 2021 (arXiv 2106.07880: features of the NTK by its recursion); there with sketches of tensor
products, here with products of independent channels.
Up to the first pool the diagonals K(p, p) and Θ(p, p) are known exactly, and features are scaled to them.

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
from equitangents.kernels.engines.reference.execute import deviation
from equitangents.kernels.engines.reference.windows import pad_grid
from equitangents.kernels.program import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flatten,
    Op,
    Parallel,
    Pool,
    RatedAffine,
    Standardise,
    Table,
    WindowPool,
)
from equitangents.kernels.random_features.activations import value_and_slope


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
    """Features f and t, (B, P, m), and the exact K(p, p), Θ(p, p) and E f(p), each (B, P)."""

    f: jax.Array
    t: jax.Array
    q: jax.Array
    theta: jax.Array
    mean: jax.Array


def start(x: jax.Array, embedding: ArrayLike) -> Field:
    """The field of inputs x (B, P, C)."""
    f = jnp.matmul(x, embedding.astype(x.dtype), precision="highest")
    q = jnp.mean(x * x, axis=-1)
    return Field(f, jnp.zeros_like(f), q, jnp.zeros_like(q), jnp.zeros_like(q))


def run(ops: tuple[Op, ...], field: Field, drawn: list[Any]) -> Field:
    """The field after `ops`."""
    for op, own in zip(ops, drawn, strict=True):
        field = _RULES[type(op)](op, field, own)
    return field


def _affine(op: Affine, x: Field, own: dict[str, ArrayLike]) -> Field:
    """K ← W²K + b², Θ ← K + W²Θ, or in another parametrisation w K + b + W²Θ with the old K."""
    dtype = x.f.dtype
    gain, bias = op.W_var**0.5, op.b_var**0.5
    f = gain * mix(x.f, own["signs"])
    if op.b_var:
        f = f + bias * own["bias"].astype(dtype)
    q = op.W_var * x.q + op.b_var
    f = _scaled(f, q)
    turned = own["tangent"].astype(dtype)
    if op.rates is None:
        added, theta = turned * jnp.roll(f, own["shift"], axis=-1), q
    else:
        w, b = op.rates
        added = w**0.5 * turned * jnp.roll(x.f, own["shift"], axis=-1) + b**0.5 * own["rate"].astype(dtype)
        theta = w * x.q + b
    theta = theta + op.W_var * x.theta
    t = gain * own["through"].astype(dtype) * x.t + added
    return Field(f, _scaled(t, theta), q, theta, jnp.zeros_like(q))


def _scaled(f: jax.Array, q: jax.Array) -> jax.Array:
    """Features with the mean square that is known."""
    found = jnp.mean(f * f, axis=-1)
    factor = jnp.sqrt(jnp.where(found > 0, q, 0) / jnp.where(found > 0, found, 1))
    return f * factor[..., None]


def _dual(op: Dual, x: Field, own: None) -> Field:
    value, slope = value_and_slope(op.activation, x.f, x.q[..., None])
    q, mean = op.activation.moments(x.q)
    steep = op.activation.pair(jnp.zeros_like(x.q), x.q, x.q)[1]
    return Field(value, x.t * slope, q, x.theta * steep, mean + jnp.zeros_like(q))


def _box(op: Box, x: Field, own: list[tuple[ArrayLike, ArrayLike]]) -> Field:
    f, t = (box_sum(v, op, [pair[i] for pair in own]) for i, v in enumerate((x.f, x.t)))
    q, theta = (box_sum(v[..., None], op)[..., 0] for v in (x.q, x.theta))
    return Field(f, t, q, theta, jnp.zeros_like(q))


def _table(op: Table, x: Field, own: list[ArrayLike]) -> Field:
    f, t = (table_sum(v, op, signs) for v, signs in zip((x.f, x.t), own, strict=True))
    q, theta = table_mean(x.q, op), table_mean(x.theta, op)
    return Field(f, t, q, theta, jnp.zeros_like(q))


def _measured(f: jax.Array, t: jax.Array, mean: jax.Array) -> Field:
    """Behind a pool no diagonal is known: it is that of the features."""
    return Field(f, t, jnp.mean(f * f, axis=-1), jnp.mean(t * t, axis=-1), mean)


def _pool(op: Pool, x: Field, own: None) -> Field:
    means = (block_means(v, op.labels.array, op.blocks) for v in (x.f, x.t, x.mean[..., None]))
    f, t, mean = means
    return _measured(f, t, mean[..., 0])


def _window_pool(op: WindowPool, x: Field, own: None) -> Field:
    f, t, mean = (box_sum(v, op.box) for v in (x.f, x.t, x.mean[..., None]))
    return _measured(f, t, mean[..., 0])


def _flatten(op: Flatten, x: Field, own: list[ArrayLike]) -> Field:
    root = x.f.shape[1] ** 0.5
    f, t = (jnp.sum(v * d.astype(v.dtype), axis=1, keepdims=True) / root for v, d in zip((x.f, x.t), own, strict=True))
    q, theta = (v.mean(axis=1, keepdims=True) for v in (x.q, x.theta))
    return Field(f, t, q, theta, jnp.zeros_like(q))


def _decouple(op: Decouple, x: Field, own: list[ArrayLike]) -> Field:
    f, t = (v * d.astype(v.dtype) for v, d in zip((x.f, x.t), own, strict=True))
    return x._replace(f=f, t=t)


def _parallel(op: Parallel, x: Field, own: Any) -> Field:
    if op.shares is None:
        each = [run(branch, x, drawn) for branch, drawn in zip(op.branches, own, strict=True)]
        f, t, theta, mean = (sum(getattr(y, name) for y in each) for name in ("f", "t", "theta", "mean"))
        q = sum(y.q - y.mean**2 for y in each) + mean**2
        return Field(f, t, q, theta, mean)
    each = [run(branch, x, drawn) for branch, drawn in zip(op.branches, own["branches"], strict=True)]
    weighed = list(zip(op.shares, each, own["signs"], strict=True))
    f = sum(w**0.5 * d[0].astype(y.f.dtype) * y.f for w, y, d in weighed)
    t = sum(w**0.5 * d[1].astype(y.t.dtype) * y.t for w, y, d in weighed)
    q, theta, mean = (sum(w * getattr(y, name) for w, y, _ in weighed) for name in ("q", "theta", "mean"))
    return Field(f, t, q, theta, mean)


def _standardise(op: Standardise, x: Field, own: None) -> Field:
    factor = 1 / deviation(op, x.q.T).T
    f, t = (v * factor[..., None] for v in (x.f, x.t))
    return Field(f, t, x.q * factor**2, x.theta * factor**2, jnp.zeros_like(x.q))


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
