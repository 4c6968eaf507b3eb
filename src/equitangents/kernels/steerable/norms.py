"""Dual of u ↦ u Σ_a c_a exp(-t_a |u|²) for jointly Gaussian vectors u, v of any covariance, in closed form.

Under exp(-t|u|² - t'|v|²) a Gaussian stays one. With its blocks Q, K, Q' and M = 1 + 2tQ,
S = 1 + 2t'(Q' - 2t Kᵀ M⁻¹ K), its mass is (det M det S)^(-1/2), and its covariances K~ = M⁻¹ K S⁻¹,
Q~' = S⁻¹(Q' - 2t Kᵀ M⁻¹ K), Q~ = M⁻¹ Q - 2t' M⁻¹ K K~ᵀ. So E[φ(u)φ(v)ᵀ] = Σ c c' mass K~, and with
Dφ = e^(-t|u|²)(1 - 2t u uᵀ)
E[Dφ(u) Θ Dφ(v)ᵀ] = Σ c c' mass (Θ - 2t Q~Θ - 2t' ΘQ~' + 4tt' (Q~ΘQ~' + K~ΘᵀK~ + K~ tr(ΘᵀK~))).
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def gaussian_sums(
    coefficients: tuple[float, ...], rates: tuple[float, ...], q1: Any, q2: Any, k: Any, theta: Any
) -> tuple[Any, Any]:
    """(E[φφᵀ], E[Dφ Θ Dφᵀ]) of covariances q1 (P, d, d), q2 (P', d, d), k and Θ (P, P', d, d)."""
    pairs = list(itertools.product(zip(coefficients, rates, strict=True), repeat=2))
    nodes = np.array([(c1 * c2, t1, t2) for (c1, t1), (c2, t2) in pairs])

    def add(sums: tuple[Any, Any], node: Any) -> tuple[tuple[Any, Any], None]:
        moved, derivative = _one(node[1], node[2], q1, q2, k, theta)
        return (sums[0] + node[0] * moved, sums[1] + node[0] * derivative), None

    zero = jnp.zeros_like(k)
    return jax.lax.scan(jax.checkpoint(add), (zero, zero), jnp.asarray(nodes, k.dtype))[0]


def _one(t1: Any, t2: Any, q1: Any, q2: Any, k: Any, theta: Any) -> tuple[Any, Any]:
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


def _solve(matrix: Any, right: Any) -> tuple[Any, Any]:
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
