"""Random networks: one pass over an input, and sketches of its Jacobian, are features of the kernels.

Where φ depends on the field's own variance, as a normalisation does, that variance q is given with the values.

Signs, biases and the input's embedding are drawn once from a seed. Everything is drawn by NumPy in the order of the
operations, so that it is the same in every process; the shapes depend on the program and the width alone, never on the
inputs.

Features of a network of m channels: f(p), (m,), of every position has mean_j f_j(p) f'_j(p') → K(p, p'): windows are
sums with random signs, pools means. No pair of inputs or of positions is ever formed. Up to the first pool the diagonal
K(p, p) is known exactly, and features are scaled to it.

Weights cost little: y = (A ⊗ B) D x with random signs D and cosine transforms A, B stands in for a dense matrix. It is
orthogonal, so that |y| = |x|, each entry of y a sum of all entries of x with random signs, nearly Gaussian; 2(a + b)
operations an entry where a dense matrix takes 2ab. Sources: Le, Sarlos & Smola 2013 (Fastfood); Yu et al. 2016
(structured orthogonal random features).

Sketches of a random network's Jacobian: features of its neural tangent kernel.

Of an affine map that takes h(p) and whose results change the output by δ(p), the Jacobian by the weights is
G = Σ_p h(p) ⊗ δ(p), and by the bias Σ_p δ(p); ⟨G, G'⟩ = Σ_pp' K(p, p') D(p, p') is the map's part of Θ. Two things make
it cheap. Of the C × C weights only those within blocks of `BLOCK` channels count, times C / BLOCK: each block is an
estimate of K·D of its own, so that this costs little in accuracy, and C · BLOCK products a position in place of C². And
the numbers are added into `count` features with random signs, which keeps products of vectors in expectation, with a
relative spread of 1/√count (Charikar, Chen & Farach-Colton 2002).
The output is the sum of all channels with random signs. Source: arXiv 2106.07880 for features of the NTK by its
recursion; here derivatives come by one pass backwards.
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
from equitangents.errors import NetworkError
from equitangents.kernels.duals import (
    Cos,
    Erf,
    Exp,
    Gabor,
    Gaussian,
    Gelu,
    Heaviside,
    Normalised,
    NormalisedExponential,
    PiecewiseLinear,
    Polynomial,
    Quadrature,
    Rbf,
    RectifiedMonomial,
    Shifted,
    Sign,
    Sin,
    Wave,
)
from equitangents.kernels.engines.reference.execute import deviation, field_moments, joined
from equitangents.kernels.engines.reference.windows import pad_grid
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    DualActivation,
    Flatten,
    Pool,
    Standardise,
    Table,
    WindowPool,
)
from equitangents.kernels.program import Op, Parallel, Program, flat

Function = Callable[[jax.Array, jax.Array], jax.Array]  # (values, their variance) to values


def _polynomial(dual: Polynomial) -> Function:
    return lambda u, q: jnp.polyval(jnp.asarray(dual.coefficients[::-1], u.dtype), u)


def _normalised_exponential(dual: NormalisedExponential) -> Function:
    def value(u: jax.Array, q: jax.Array) -> jax.Array:
        s = jnp.sqrt(jnp.where(q > 0, q, 1))
        return jnp.where(q > 0, s * jnp.exp(math.sqrt(dual.gamma) * u / s - dual.gamma), 0)

    return value


def _shifted(dual: Shifted) -> Function:
    function = function_of(dual.of)
    return lambda u, q: function(u, q) + dual.offset


_MADE: dict[type, Callable[[Any], Function]] = {
    PiecewiseLinear: lambda dual: lambda u, q: jnp.where(u > 0, u, dual.slope * u),
    Erf: lambda dual: lambda u, q: jax.lax.erf(u),
    Gelu: lambda dual: lambda u, q: jax.nn.gelu(u, approximate=False),
    Sin: lambda dual: lambda u, q: jnp.sin(u),
    Cos: lambda dual: lambda u, q: jnp.cos(u),
    Wave: lambda dual: lambda u, q: jnp.sin(u + dual.phase),
    Gabor: lambda dual: lambda u, q: jnp.exp(-u * u) * jnp.sin(u),
    Exp: lambda dual: lambda u, q: dual.a * jnp.exp(dual.b * u),
    Gaussian: lambda dual: lambda u, q: dual.a * jnp.exp(dual.b * u * u),
    Rbf: lambda dual: lambda u, q: math.sqrt(2) * jnp.sin(math.sqrt(2 * dual.gamma) * u + math.pi / 4),
    NormalisedExponential: _normalised_exponential,
    Normalised: lambda dual: lambda u, q: u / jnp.sqrt(q + dual.eps),
    Polynomial: _polynomial,
    RectifiedMonomial: lambda dual: lambda u, q: jnp.maximum(u, 0) ** dual.degree,
    Quadrature: lambda dual: lambda u, q: dual.function(u),
    Sign: lambda dual: lambda u, q: jnp.sign(u),
    Heaviside: lambda dual: lambda u, q: jnp.where(u > 0, 1.0, 0.0).astype(u.dtype),
    Shifted: _shifted,
}


def function_of(dual: DualActivation) -> Function:
    """φ as a function of values and their variance, entry by entry; NetworkError where only its moments are known."""
    make = _MADE.get(type(dual))
    if make is None:
        raise NetworkError(
            f"random features need the function of a nonlinearity, and of {dual!r} only moments are known; use "
            "nn.Elementwise(function), or kernel(x1, x2) for the exact kernel"
        )
    return make(dual)


_KNOWN = (Pool, WindowPool, Dual, Standardise)


def draws(program: Program, channels: int, width: int, seed: int) -> tuple[np.ndarray, list[Any]]:
    """(the input's embedding (channels, width), what each operation needs), for a network of `width` channels."""
    rng = np.random.default_rng(seed)
    return _embedding(rng, channels, width), _of_ops(program.ops, int(np.prod(program.shape)), width, rng)[0]


def sketch_draws(program: Program, width: int, block: int, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """(signs of the outputs, signs of the derivatives by each affine map): `block` + 1 numbers a channel."""
    rng = np.random.default_rng([seed, 1])
    affine = [op for op in flat(program.ops) if isinstance(op, Affine)]
    return _signs(rng, width), [_signs(rng, width * (block + 1)) for _ in affine]


def _embedding(rng: np.random.Generator, channels: int, width: int) -> np.ndarray:
    """E with E Eᵀ/width = 1/channels where that can be, else on average: f = x E has the input's covariance."""
    embedding = rng.standard_normal((width, channels))
    if channels <= width:
        embedding = np.linalg.qr(embedding)[0] * np.sqrt(width)
    return np.ascontiguousarray(embedding.T) / np.sqrt(channels)


def _signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (2 * rng.integers(0, 2, shape, dtype=np.int8) - 1).astype(np.int8)


def _of_ops(ops: tuple[Op, ...], positions: int, width: int, rng: np.random.Generator) -> tuple[list[Any], int]:
    """(draws of each operation, how many positions come out)."""
    found: list[Any] = []
    for op in ops:
        drawn: Any = None
        if isinstance(op, Affine):
            drawn = {"signs": _signs(rng, width), "bias": rng.standard_normal(width)}
        elif isinstance(op, Box):
            # signs of rows times signs of columns are still uncorrelated, and windows go one dimension at a time
            drawn = [_signs(rng, w, width) for w in op.window]
        elif isinstance(op, Table):
            drawn = _signs(rng, op.span, width)
        elif isinstance(op, Flatten | Decouple):
            drawn = _signs(rng, positions, width)
        elif op.held:
            each = [_of_ops(branch, positions, width, rng) for branch in op.held]
            drawn, positions = [made for made, _ in each], each[-1][1]
            if isinstance(op, Parallel) and op.shares is not None:
                drawn = {"branches": drawn, "signs": [_signs(rng, width) for _ in op.branches]}
        elif not isinstance(op, _KNOWN):
            raise NetworkError(f"random features do not know the operation {type(op).__name__}; use the exact kernel")
        positions = op.positions_after(positions)
        found.append(drawn)
    return found, positions


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
        if isinstance(op, Affine):
            field = _affine(op, field, own, shift)
        elif isinstance(op, Parallel):
            field = _parallel(op, field, own, shift)
        elif op.is_diagonal:
            field = _flatten(field, own)
        elif op.is_pool:
            field = _pooled(op, field)
        else:
            field = _moments_after(op, field)._replace(f=_FEATURES[type(op)](op, field, own))
    return field


def _moments_after(op: Op, x: Field) -> Field:
    """The field with the variances and means after an operation that leaves positions apart."""
    step = field_moments((op,), x.q.T, x.mean.T, dict(op.tables))
    return Field(x.f, step.q[-1].T, step.mean[-1].T)


def _affine(op: Affine, x: Field, own: dict[str, ArrayLike], shift: Shift) -> Field:
    """K ← W²K + b²."""
    before, after = _scaled(x.f, x.q), _moments_after(op, x)
    f = op.W_var**0.5 * mix(before, own["signs"])
    if op.b_var:
        f = _scaled(f + op.b_var**0.5 * own["bias"].astype(f.dtype), after.q)
    return after._replace(f=f + shift(before))


def _scaled(f: jax.Array, q: jax.Array) -> jax.Array:
    """Features with the mean square that is known: by a factor that is none of the network's own."""
    found = jnp.mean(f * f, axis=-1)
    factor = jnp.sqrt(jnp.where(found > 0, q, 0) / jnp.where(found > 0, found, 1))
    return f * lax.stop_gradient(factor)[..., None]


def _pooled(op: Any, x: Field) -> Field:
    """Behind a pool no diagonal is known: it is that of the features."""
    both = (x.f, x.mean[..., None])
    if isinstance(op, WindowPool):
        f, mean = (box_sum(v, op.box) for v in both)
    else:
        f, mean = (block_means(v, op.labels.array, op.blocks) for v in both)
    return Field(f, lax.stop_gradient(jnp.mean(f * f, axis=-1)), mean[..., 0])


def _flatten(x: Field, own: ArrayLike) -> Field:
    f = jnp.sum(x.f * own.astype(x.f.dtype), axis=1, keepdims=True) / x.f.shape[1] ** 0.5
    q = x.q.mean(axis=1, keepdims=True)
    return Field(f, q, jnp.zeros_like(q))


def _parallel(op: Parallel, x: Field, own: Any, shift: Shift) -> Field:
    branches = own if op.shares is None else own["branches"]
    each = [run(branch, x, drawn, shift) for branch, drawn in zip(op.branches, branches, strict=True)]
    fs = [y.f for y in each]
    if op.shares is not None:
        fs = [w**0.5 * d.astype(f.dtype) * f for w, f, d in zip(op.shares, fs, own["signs"], strict=True)]
    return Field(sum(fs[1:], fs[0]), *joined(op.shares, [y.q for y in each], [y.mean for y in each]))


# The features after an operation that leaves positions apart, from the field before and what was drawn.
_FEATURES: dict[type, Callable[[Any, Field, Any], jax.Array]] = {
    Box: lambda op, x, own: box_sum(x.f, op, own),
    Table: lambda op, x, own: table_sum(x.f, op, own),
    Dual: lambda op, x, own: function_of(op.activation)(x.f, x.q[..., None]),
    Decouple: lambda op, x, own: x.f * own.astype(x.f.dtype),
    Standardise: lambda op, x, own: x.f / deviation(op, x.q.T).T[..., None],
}


BLOCK = 64  # channels whose weights count with each other


def sketch(
    program: Program, field: Field, drawn: list[object], signs: tuple[ArrayLike, list[ArrayLike]], count: int
) -> jax.Array:
    """Features (B, count) of Θ, for the field of inputs at the program's start."""
    affine = [op for op in flat(program.ops) if isinstance(op, Affine)]
    readout, own = signs

    def output(shifts: list[jax.Array] | None) -> tuple[jax.Array, list[jax.Array]]:
        taken: list[jax.Array] = []

        def shift(h: jax.Array) -> jax.Array:
            taken.append(h)
            return jnp.zeros_like(h) if shifts is None else shifts[len(taken) - 1]

        return run(program.ops, field, drawn, shift).f[:, 0], taken

    shapes = jax.eval_shape(lambda: output(None)[1])
    f, back, taken = jax.vjp(output, [jnp.zeros(h.shape, h.dtype) for h in shapes], has_aux=True)
    (slopes,) = back(jnp.broadcast_to(readout.astype(f.dtype) / f.shape[-1] ** 0.5, f.shape))
    each = zip(affine, taken, slopes, own, strict=True)
    return sum((_added(_jacobian(*part), d, count) for *part, d in each), jnp.zeros((f.shape[0], count), f.dtype))


def _jacobian(op: Affine, h: jax.Array, slope: jax.Array) -> jax.Array:
    """(B, m · BLOCK + m): derivatives by the weights within blocks, and by the biases."""
    weights, biases = op.rates or (op.W_var, op.b_var)
    one, other = (v.reshape((*v.shape[:2], -1, BLOCK)) for v in (h, slope))
    by_weights = jnp.einsum("bpgi,bpgj->bgij", one, other, precision="highest") * (weights / BLOCK) ** 0.5
    return jnp.concatenate([by_weights.reshape((len(h), -1)), biases**0.5 * slope.sum(axis=1)], axis=1)


def _added(x: jax.Array, signs: ArrayLike, count: int) -> jax.Array:
    """Numbers (B, n) with signs, added in turn to `count` ones."""
    signed = jnp.pad(x * signs.astype(x.dtype), ((0, 0), (0, -x.shape[1] % count)))
    return signed.reshape((len(x), -1, count)).sum(axis=1)
