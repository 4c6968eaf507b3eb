"""Activation kernel of the exact GELU φ(x) = x Φ(x), by repeated integration by parts of Gaussian expectations.

With F = E[Φ'(u)Φ'(v)] = 1/(2π√Δ), Δ = (1+q1)(1+q2) - k², P = E[Φ(u)Φ(v)] = 1/4 + arcsin(k/√((1+q1)(1+q2)))/(2π):
E[φ(u)φ(v)] = kP + F [q1 q2 - k² + k²/(1+q1) + k²/(1+q2)],
E[φ'(u)φ'(v)] = P + kF [1/(1+q1) + 1/(1+q2) + 1/Δ].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import root_gap, safe_sqrt
from equitangents.kernels.duals.traits import Traits


def _covariance(d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    k = (q1 + q2 - d) / 2
    r = safe_sqrt(q1) * safe_sqrt(q2)
    return _of_minor(k, (d - root_gap(q1, q2)) / 2 * (r + k), q1, q2)


def _even_distance(d: ArrayLike, k: ArrayLike, minor: Any, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    """Squared distance after the even part of φ, every term of which is of its order; minor = q1 q2 - k².

    With α, β the arcsines of q/(1+q), γ that of k/√N, N = (1+q1)(1+q2), w = √(1+2q), ω = √Δ and m = (α+β)/2 it is
    1/(2π) of D m + (q1-q2)(α-β)/2 + 2k(m-γ), the distance of kγ, and of that of the rest,
    (c1-c2)² + 2 q1 q2 [√(g1 g2) - g]/N + 2 minor/(Nω), where g = ω + 1/ω (g1 of w1) and c = q √g/(1+q).
    """
    n, delta = (1 + q1) * (1 + q2), 1 + q1 + q2 + minor
    w1, w2, root = jnp.sqrt(1 + 2 * q1), jnp.sqrt(1 + 2 * q2), jnp.sqrt(delta)
    alpha, beta = jnp.arctan2(q1, w1), jnp.arctan2(q2, w2)
    m, square, both = (alpha + beta) / 2, ((q1 - q2) / (w1 + w2)) ** 2, w1 * w2
    near = k > 0  # else kγ is not near the mean of its own
    sine, cosine = jnp.sin(m), jnp.cos(m)
    below = (sine * root + k * cosine) * (jnp.sqrt(n) + cosine * root + k * sine)
    turn = jnp.arctan2(jnp.where(near, square + minor, k), jnp.where(near, below, root))  # (m-γ)/2, or γ
    across = (q1 * w2 + q2 * w1) * (both + q1 * q2)
    lean = jnp.arctan2(jnp.where(near, (q1 - q2) * (q1 + q2 + 2 * q1 * q2), 0), jnp.where(near, across, 1))  # α-β
    close = d * m + (q1 - q2) * lean / 2 + 4 * k * turn
    angles = jnp.where(near, close, q1 * alpha + q2 * beta - 2 * k * turn)
    # g1 g2 - g², with Δ - w1 w2 = 2 square + minor
    excess = 4 * square / both - (2 * square + minor) * (1 - 1 / (both * delta))
    g1, g2 = w1 + 1 / w1, w2 + 1 / w2
    c = q1 / (1 + q1) * jnp.sqrt(g1) - q2 / (1 + q2) * jnp.sqrt(g2)
    rest = c**2 + 2 * (q1 * q2 / n * excess / (jnp.sqrt(g1 * g2) + root + 1 / root) + minor / n / root)
    return (angles + rest) / (2 * math.pi)


def _even_covariance(k: ArrayLike, minor: Any, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    """E[φφ] - k/4, that of the even part of φ; minor = q1 q2 - k²."""
    root = jnp.sqrt(1 + q1 + q2 + minor)
    inverse = 1 / (1 + q1) + 1 / (1 + q2)
    return (k * jnp.arctan2(k, root) + (minor + k * k * inverse) / root) / (2 * math.pi)


def _of_minor(k: ArrayLike, minor: Any, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """(E[φφ], E[φ'φ']); minor = q1 q2 - k²."""
    minor = jnp.where(minor < 0, 0, minor)
    delta = 1 + q1 + q2 + minor
    f = 1 / (2 * math.pi * jnp.sqrt(delta))
    p = 0.25 + jnp.arctan2(k, jnp.sqrt(delta)) / (2 * math.pi)
    inverse = 1 / (1 + q1) + 1 / (1 + q2)
    return k * p + f * (minor + k * k * inverse), p + k * f * (inverse + 1 / delta)


@dataclass(frozen=True)
class Gelu(Traits):
    """x Φ(x), Φ the normal distribution function."""

    linear_at_zero: ClassVar[bool] = True

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        k = (q1 + q2 - d) / 2
        gap = root_gap(q1, q2)
        minor = (d - gap) / 2 * (safe_sqrt(q1) * safe_sqrt(q2) + k)
        distance = d / 4 + _even_distance(d, k, jnp.where(minor < 0, 0, minor), q1, q2)
        # Compiled code may round the two sides of equal inputs apart; derivatives pass through.
        surplus = jnp.where((d == 0) & (q1 == q2), distance, 0)
        return distance - jax.lax.stop_gradient(surplus), _of_minor(k, minor, q1, q2)[1]

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """The distance of x/2, E/4, and that of the even part of φ, which are uncorrelated; and E[φ'φ']."""
        r, gap = safe_sqrt(q1) * safe_sqrt(q2), root_gap(q1, q2)
        k, minor = r - e / 2, e / 2 * (2 * r - e / 2)
        one, other = _even_covariance(q1, jnp.zeros_like(q1), q1, q1), _even_covariance(q2, jnp.zeros_like(q2), q2, q2)
        linear = e + (a * safe_sqrt(q1) - safe_sqrt(q2) / a) ** 2
        near = _even_distance(e + gap, k, minor, q1, q2) + (a * a - 1) * (one - other / (a * a))
        far = a * a * one + other / (a * a) - 2 * _even_covariance(k, minor, q1, q2)
        even = jnp.where(gap > r, far, near)
        return linear / 4 + even, _of_minor(k, minor, q1, q2)[1]

    def opposite(self, e: Any, q1: Any, q2: Any, a: Any) -> Any:
        """As `angular`, of φ(u) and -φ(v): the distances of even parts of unlike sign."""
        r = safe_sqrt(q1) * safe_sqrt(q2)
        one, other = _even_covariance(q1, jnp.zeros_like(q1), q1, q1), _even_covariance(q2, jnp.zeros_like(q2), q2, q2)
        both = _even_covariance(e / 2 - r, e / 2 * (2 * r - e / 2), q1, q2)
        linear = e + (a * safe_sqrt(q1) - safe_sqrt(q2) / a) ** 2
        return linear / 4 + a * a * one + other / (a * a) + 2 * both

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        r = safe_sqrt(q1) * safe_sqrt(q2)
        return _of_minor(k, (r - k) * (r + k), q1, q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φ(u)²] and E[φ(u)] of u ~ N(0, q), the latter q/√(2π(1+q))."""
        return _covariance(jnp.zeros_like(q), q, q)[0], q / jnp.sqrt(2 * math.pi * (1 + q))
