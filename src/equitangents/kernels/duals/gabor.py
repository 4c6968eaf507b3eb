"""Activation kernel of the Gabor function e^{-x²} sin x: that of the sine under a Gaussian weight.

With m = q1 q2 - k² and Δ = (1 + 2 q1)(1 + 2 q2) - 4k² = 1 + 2(q1 + q2) + 4m, the weighted variances are (q + 2m)/Δ and
the weighted covariance is k/Δ: E[φ(u)φ(v)] = e^{-h} sinh(k/Δ)/√Δ, h half the sum of these variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.exponential import Gaussian
from equitangents.kernels.duals.geometry import root_gap, safe_sqrt


@dataclass(frozen=True)
class Gabor:
    """Activation kernel of e^{-x²} sin x, in closed form."""

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ'].

        φ(u)φ(v) = e^{-u²-v²} (cos(u-v) - cos(u+v))/2, so the distance is half the difference of two others: that of
        the cosines of u - v, which is a Gaussian's and a term more, and that of the cosines of u + v.
        """
        k, r = (q1 + q2 - d) / 2, safe_sqrt(q1) * safe_sqrt(q2)
        minor = (d - root_gap(q1, q2)) / 2 * (r + k)
        minor = jnp.where(minor < 0, 0, minor)
        delta = _determinant(minor, q1, q2)
        turned = -2 * jnp.expm1(-(d + 4 * minor) / (2 * delta)) / jnp.sqrt(delta)
        differences = Gaussian().pair(d, q1, q2)[0] + turned
        return (differences - _sums(d, minor, delta, q1, q2)) / 2, _products(k, minor, q1, q2)[1]

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        r = safe_sqrt(q1) * safe_sqrt(q2)
        minor = (r - k) * (r + k)
        return _products(k, jnp.where(minor < 0, 0, minor), q1, q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(1 - e^{-2q/(1 + 4q)}) / (2 √(1 + 4q)), and 0."""
        return -jnp.expm1(-2 * q / (1 + 4 * q)) / (2 * jnp.sqrt(1 + 4 * q)), jnp.zeros_like(q)


def _determinant(minor: Any, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    return 1 + 2 * (q1 + q2) + 4 * minor


def _products(k: ArrayLike, minor: Any, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """E[φφ], and E[φ'φ'] = ∂E[φφ]/∂k, whose terms are of one sign."""
    delta, total = _determinant(minor, q1, q2), q1 + q2
    inner = k / delta
    scale = jnp.exp(-(total + 4 * minor) / (2 * delta)) / jnp.sqrt(delta)
    sine, cosine = scale * jnp.sinh(inner), scale * jnp.cosh(inner)
    return sine, (4 * inner * (1 + (1 + total) / delta) * sine) + cosine * (1 / delta + 8 * inner**2)


def _sums(d: ArrayLike, minor: Any, delta: Any, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    """E[e^{-2u²} cos 2u] + E[e^{-2v²} cos 2v] - 2 E[e^{-u²-v²} cos(u + v)], without cancellation for near-equal u, v.

    The terms are e^{-f(q1)}, e^{-f(q2)} and e^{-g}, where f(q) = log(A)/2 + (1 - 1/A)/2 with A = 1 + 4q, and
    g = log(Δ)/2 + (1 - (1 + d)/Δ)/2; so the sum is (e^{-f(q1)/2} - e^{-f(q2)/2})² - 2 e^{-f} (e^{f-g} - 1), f the mean.
    """
    low, high = jnp.minimum(q1, q2), jnp.maximum(q1, q2)
    a, b = 1 + 4 * low, 1 + 4 * high
    rise = jnp.log1p(4 * (high - low) / a) / 2 + 2 * (high - low) / (a * b)
    first = jnp.log(a) / 2 + 2 * low / a
    gap = jnp.exp(-first / 2) * jnp.expm1(-rise / 2)
    root_a, root_b = jnp.sqrt(a), jnp.sqrt(b)
    mean = root_a * root_b
    excess = 4 * (minor + (q1 - q2) ** 2 / (1 + 2 * (q1 + q2) + mean))  # Δ - √(AB)
    between = (4 * (high - low) / (mean * (root_a + root_b))) ** 2
    shift = -jnp.log1p(excess / mean) / 2 + (d / delta - excess / (delta * mean) - between / 2) / 2
    return gap**2 - 2 * jnp.exp(-first - rise / 2) * jnp.expm1(shift)
