"""Activation kernel of a rectified power φ(x) = max(x, 0)ⁿ, n ≥ 2: the arc-cosine kernels of order n (Cho & Saul 2009).

E[φ(u)φ(v)] = rⁿ J_n(θ)/(2π), r = √(q1 q2), and E[φ'(u)φ'(v)] = n² rⁿ⁻¹ J_(n-1)(θ)/(2π). With c = cos θ,
J_n = π Q_n - h_n, where Q_0 = 1, Q_1 = c, h_0 = θ, h_1 = θ cos θ - sin θ, and Q and h both follow
f_(n+1) = (2n + 1) c f_n + n² sin²θ f_(n-1). So J_n(0) - J_n(θ) = π (Q_n(1) - Q_n) + h_n has no cancellation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import (
    acute_angle,
    alpha_cos_minus_sin,
    angle_of_covariance,
    half_angle,
    safe_sqrt,
)
from equitangents.kernels.duals.traits import Traits


@dataclass(frozen=True)
class RectifiedMonomial(Traits):
    """max(x, 0) to a power of at least 2; those of degrees 0 and 1 are `Heaviside` and `PiecewiseLinear`."""

    degree: int

    @property
    def homogeneity(self) -> int:
        """The power n: φ(s·x) = sⁿ φ(x) for s > 0."""
        return self.degree

    @property
    def steepness(self) -> int:
        """The power n of max(x, 0)ⁿ."""
        return self.degree

    @property
    def second_moment(self) -> float:
        """E[φ(u)²] of u ~ N(0, 1): (2n - 1)!!/2."""
        return math.prod(range(1, 2 * self.degree, 2)) / 2

    @property
    def first_moment(self) -> float:
        """E[φ(u)] of u ~ N(0, 1): 2^(n/2 - 1) Γ((n + 1)/2)/√π."""
        return 2 ** (self.degree / 2 - 1) * math.gamma((self.degree + 1) / 2) / math.sqrt(math.pi)

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        s, r, gap = half_angle(d, q1, q2)
        excess, _, before = self._angular(s)
        a, b, n = safe_sqrt(q1), safe_sqrt(q2), self.degree
        # (aⁿ - bⁿ)² from (a - b)², which keeps its digits.
        powers = gap * sum(a**i * b ** (n - 1 - i) for i in range(n)) ** 2
        return self.second_moment * powers + r**n * excess, self._slope(r, before)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        s, r = angle_of_covariance(k, q1, q2)
        _, here, before = self._angular(s)
        return r**self.degree * here / 2, self._slope(r, before)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Second moment and mean: those of variance 1, times powers of q."""
        return self.second_moment * q**self.degree, self.first_moment * safe_sqrt(q) ** self.degree

    def _slope(self, r: Any, before: Any) -> ArrayLike:
        return self.degree**2 / 2 * r ** (self.degree - 1) * before

    def _angular(self, s: Any) -> tuple[Any, Any, Any]:
        """((J_n(0) - J_n)/π, J_n/π, J_(n-1)/π) from s = sin²(θ/2)."""
        near = s <= 0.5
        m = jnp.where(near, s, 1 - s)
        cosine, sine2 = 1 - 2 * s, 4 * s * (1 - s)
        acute, lens = acute_angle(m) / math.pi, alpha_cos_minus_sin(m) / math.pi
        h0, h1 = jnp.where(near, acute, 1 - acute), jnp.where(near, lens, cosine + lens)
        q0, q1, excess = jnp.ones_like(s), cosine, 2 * s
        for n in range(1, self.degree):
            a, b = 2 * n + 1, n * n
            excess = a * (excess + 2 * s * q1) - b * sine2 * q0
            h0, h1 = h1, a * cosine * h1 + b * sine2 * h0
            q0, q1 = q1, a * cosine * q1 + b * sine2 * q0
        return excess + h1, q1 - h1, q0 - h0
