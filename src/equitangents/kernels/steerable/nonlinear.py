"""Nonlinear operations of steerable programs, from the covariances of jointly Gaussian vectors at two points.

Gates: E[σ(g)σ(g')] K and E[σσ'] Θ + E[σ̇σ̇'] Θ_0 ∘ K, the gates g being copies of the irrep of numbers, independent of
what they multiply. Sampled signals: s(x) = Σ_l h_l(x) · f_l is Gaussian, with covariance Σ_l h_l(x)ᵀ K_l h_l(x').

Norms, u ↦ u Σ_a c_a exp(-t_a |u|²), in closed form: under exp(-t|u|² - t'|v|²) a Gaussian stays one. With its blocks
Q, K, Q' and M = 1 + 2tQ, S = 1 + 2t'(Q' - 2t Kᵀ M⁻¹ K), its mass is (det M det S)^(-1/2), and its covariances
K~ = M⁻¹ K S⁻¹, Q~' = S⁻¹(Q' - 2t Kᵀ M⁻¹ K), Q~ = M⁻¹ Q - 2t' M⁻¹ K K~ᵀ. So E[φ(u)φ(v)ᵀ] = Σ c c' mass K~, and with
Dφ = e^(-t|u|²)(1 - 2t u uᵀ)
E[Dφ(u) Θ Dφ(v)ᵀ] = Σ c c' mass (Θ - 2t Q~Θ - 2t' ΘQ~' + 4tt' (Q~ΘQ~' + K~ΘᵀK~ + K~ tr(ΘᵀK~))).
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.kernels.steerable.fields import Field, Fields, Variances
from equitangents.kernels.steerable.program import Gate, Norm, Sampled
from equitangents.steerable.harmonics import samples
from equitangents.steerable.irrep import SPACES, trivial


def gated(op: Gate, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Gate`."""
    number = trivial(op.into.group)
    k, theta = (f[:, 0, :, 0] for f in fields[number])
    q1, q2 = v1[number][:, 0, 0][:, None], v2[number][:, 0, 0][None, :]
    after: Fields = {}
    value, slope = (f[:, None, :, None] for f in op.gate.covariance(k, q1, q2))
    for kind in op.out.irreps:
        if kind == number:
            assert op.scalars is not None
            moved, rise = op.scalars.covariance(k, q1, q2)
            after[kind] = Field(moved[:, None, :, None], (rise * theta)[:, None, :, None])
        else:
            own, tangent = fields[kind]
            after[kind] = Field(value * own, value * tangent + slope * theta[:, None, :, None] * own)
    return after


def sampled(op: Sampled, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Sampled` nonlinearity."""
    dtype = fields[op.irreps[0]].k.dtype
    largest = max(kind.degree for kind in op.irreps)
    grid = samples(SPACES[op.irreps[0].group], op.resolution, largest)
    synthesis = {kind: jnp.asarray(grid.harmonics[kind.degree], dtype) for kind in op.irreps}
    analysis = {kind: jnp.asarray(grid.analysis[kind.degree], dtype) for kind in op.irreps}
    k, theta = (
        sum(
            jnp.einsum("sa,iajb,tb->isjt", h, fields[kind][part], h, precision="highest")
            for kind, h in synthesis.items()
        )
        for part in range(2)
    )
    q1, q2 = (
        sum(jnp.einsum("sa,iab,sb->is", h, v[kind], h, precision="highest") for kind, h in synthesis.items())
        for v in (v1, v2)
    )
    value, slope = op.activation.covariance(k, q1[:, :, None, None], q2[None, None])  # type: ignore[index]
    return {
        kind: Field(*(jnp.einsum("as,isjt,bt->iajb", a, f, a, precision="highest") for f in (value, slope * theta)))
        for kind, a in analysis.items()
    }


def normed(op: Norm, fields: Fields, v1: Variances, v2: Variances) -> Fields:
    """The kernels after a `Norm`."""
    after: Fields = {}
    for kind, (k, theta) in fields.items():
        by_pair = (jnp.swapaxes(f, 1, 2) for f in (k, theta))
        moved = gaussian_sums(op.coefficients, op.rates, v1[kind], v2[kind], *by_pair)
        after[kind] = Field(*(_by_point(f) for f in moved))
    return after


def _by_point(f: ArrayLike) -> ArrayLike:
    return jnp.swapaxes(f, 1, 2)


def gaussian_sums(
    coefficients: tuple[float, ...],
    rates: tuple[float, ...],
    q1: jax.Array,
    q2: jax.Array,
    k: jax.Array,
    theta: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """(E[φφᵀ], E[Dφ Θ Dφᵀ]) of covariances q1 (P, d, d), q2 (P', d, d), k and Θ (P, P', d, d)."""
    pairs = list(itertools.product(zip(coefficients, rates, strict=True), repeat=2))
    nodes = np.array([(c1 * c2, t1, t2) for (c1, t1), (c2, t2) in pairs])

    def add(sums: tuple[jax.Array, jax.Array], node: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        moved, derivative = _one(node[1], node[2], q1, q2, k, theta)
        return (sums[0] + node[0] * moved, sums[1] + node[0] * derivative), None

    zero = jnp.zeros_like(k)
    return jax.lax.scan(jax.checkpoint(add), (zero, zero), jnp.asarray(nodes, k.dtype))[0]


def _one(
    t1: jax.Array, t2: jax.Array, q1: jax.Array, q2: jax.Array, k: jax.Array, theta: jax.Array
) -> tuple[jax.Array, jax.Array]:
    one = jnp.eye(k.shape[-1], dtype=k.dtype)
    size = k.shape[-1]
    tilted, det_m = _solve(one + 2 * t1 * q1[:, None], jnp.concatenate(jnp.broadcast_arrays(k, q1[:, None]), axis=-1))
    k_t, q1_t = tilted[..., :size], tilted[..., size:]
    q2_t = q2[None] - 2 * t1 * jnp.einsum("...ca,...cb->...ab", k, k_t)
    solved, det_s = _solve(one + 2 * t2 * q2_t, jnp.concatenate([jnp.swapaxes(k_t, -1, -2), q2_t], axis=-1))
    cross, after2 = jnp.swapaxes(solved[..., :size], -1, -2), solved[..., size:]
    after1 = q1_t - 2 * t2 * jnp.einsum("...ac,...bc->...ab", k_t, cross)
    mass = 1 / jnp.sqrt(det_m * det_s)[..., None, None]
    left, right = after1 @ theta, theta @ after2
    trace = jnp.sum(theta * cross, axis=(-1, -2))[..., None, None]
    fourth = left @ after2 + cross @ jnp.swapaxes(theta, -1, -2) @ cross + cross * trace
    return mass * cross, mass * (theta - 2 * t1 * left - 2 * t2 * right + 4 * t1 * t2 * fourth)


def _solve(matrix: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(matrix⁻¹ right, determinant) of symmetric matrices that are at least the unit, by elimination in place."""
    size = matrix.shape[-1]
    batch = jnp.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    rows = jnp.concatenate([jnp.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (matrix, right)], axis=-1)
    determinant = jnp.ones(batch, rows.dtype)
    for i in range(size):
        pivot = rows[..., i, i]
        determinant = determinant * pivot
        row = rows[..., i, :] / pivot[..., None]
        rows = rows - rows[..., :, i, None] * row[..., None, :]
        rows = rows.at[..., i, :].set(row)
    return rows[..., size:], determinant
