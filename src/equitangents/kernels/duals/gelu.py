"""Dual of the exact GELU φ(x) = x Φ(x), by repeated integration by parts of Gaussian expectations.

With F = E[Φ'(u)Φ'(v)] = 1/(2π√Δ), Δ = (1+q1)(1+q2) - k², P = E[Φ(u)Φ(v)] = 1/4 + arcsin(k/√((1+q1)(1+q2)))/(2π):
E[φ(u)φ(v)] = kP + F [q1 q2 - k² + k²/(1+q1) + k²/(1+q2)],
E[φ'(u)φ'(v)] = P + kF [1/(1+q1) + 1/(1+q2) + 1/Δ].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import root_gap, safe_sqrt


def _covariance(d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    k = (q1 + q2 - d) / 2
    r = safe_sqrt(q1) * safe_sqrt(q2)
    return _of_minor(k, (d - root_gap(q1, q2)) / 2 * (r + k), q1, q2)


def _of_minor(k: ArrayLike, minor: Any, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """(E[φφ], E[φ'φ']); minor = q1 q2 - k²."""
    minor = jnp.where(minor < 0, 0, minor)
    delta = 1 + q1 + q2 + minor
    f = 1 / (2 * math.pi * jnp.sqrt(delta))
    p = 0.25 + jnp.arctan2(k, jnp.sqrt(delta)) / (2 * math.pi)
    inverse = 1 / (1 + q1) + 1 / (1 + q2)
    return k * p + f * (minor + k * k * inverse), p + k * f * (inverse + 1 / delta)


@dataclass(frozen=True)
class Gelu:
    """x Φ(x), Φ the normal distribution function."""

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']; the distance is good to rounding of the variances."""
        covariance, derivative = _covariance(d, q1, q2)
        distance = self.moments(q1)[0] + self.moments(q2)[0] - 2 * covariance
        # Equal inputs stay at distance zero exactly, and a negative distance is rounding; derivatives pass through.
        surplus = jnp.where(((d == 0) & (q1 == q2)) | (distance < 0), distance, 0)
        return distance - jax.lax.stop_gradient(surplus), derivative

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        r = safe_sqrt(q1) * safe_sqrt(q2)
        return _of_minor(k, (r - k) * (r + k), q1, q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φ(u)²] and E[φ(u)] of u ~ N(0, q), the latter q/√(2π(1+q))."""
        return _covariance(jnp.zeros_like(q), q, q)[0], q / jnp.sqrt(2 * math.pi * (1 + q))
