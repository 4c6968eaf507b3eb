"""Dual of φ(x) = max(x, 0) + a min(x, 0): ReLU (a = 0), leaky ReLU, absolute value (a = -1), identity (a = 1).

φ = (1+a)/2 · x + (1-a)/2 · |x|, whose parts are uncorrelated, so that with the angle θ between u and v
E[(φ(u)-φ(v))²] = ((1+a)/2)² d + ((1-a)/2)² E[(|u|-|v|)²],
E[(|u|-|v|)²] = (√q1-√q2)² + 2√(q1 q2) [2 sin²(θ/2) + (2/π)(θ cos θ - sin θ)],
E[φ'(u)φ'(v)] = ((1+a)/2)² + ((1-a)/2)² (1 - 2θ/π).   Source: Cho & Saul 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from equitangents.kernels.duals.geometry import angle, half_angle, safe_sqrt, theta_cos_minus_sin


@dataclass(frozen=True)
class PiecewiseLinear:
    """max(x, 0) + slope · min(x, 0)."""

    slope: float = 0.0

    def pair(self, d: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """Squared distance after φ, and E[φ'φ']."""
        even, odd = ((1 - self.slope) / 2) ** 2, ((1 + self.slope) / 2) ** 2
        if even == 0:
            return odd * d, jnp.full_like(d, odd)
        s, r, gap = half_angle(d, q1, q2)
        theta = angle(s)
        absolute = gap + 2 * r * (2 * s + (2 / math.pi) * theta_cos_minus_sin(s, theta))
        return odd * d + even * absolute, odd + even * (1 - (2 / math.pi) * theta)

    def moments(self, q: Any) -> tuple[Any, Any]:
        """(1+a²)/2 · q and (1-a)/2 · √(2q/π)."""
        mean = (1 - self.slope) / 2 * math.sqrt(2 / math.pi) * safe_sqrt(q)
        return (1 + self.slope**2) / 2 * q, mean
