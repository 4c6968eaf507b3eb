"""Activation kernel of φ(x) = max(x, 0) + a min(x, 0): ReLU (a = 0), leaky ReLU, |x| (a = -1), identity (a = 1).

φ = (1+a)/2 · x + (1-a)/2 · |x|, whose parts are uncorrelated, so that with the angle θ between u and v
E[(φ(u)-φ(v))²] = ((1+a)/2)² d + ((1-a)/2)² E[(|u|-|v|)²],
E[(|u|-|v|)²] = (√q1-√q2)² + 4√(q1 q2) [sin²(α/2) + (α cos α - sin α)/π],  α = min(θ, π-θ),
E[φ'(u)φ'(v)] = ((1+a)/2)² + ((1-a)/2)² (1 - 2θ/π).   Source: Cho & Saul 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import (
    DOUBT,
    acute_angle,
    alpha_cos_minus_sin,
    angle_of_covariance,
    half_angle,
    nearest_axis,
    nearest_axis_of,
    safe_sqrt,
)
from equitangents.kernels.duals.traits import Traits


@dataclass(frozen=True)
class PiecewiseLinear(Traits):
    """max(x, 0) + slope · min(x, 0)."""

    bent: ClassVar[bool] = True
    curved: ClassVar[bool] = False
    linear_at_zero: ClassVar[bool] = True
    slope: float = 0.0

    @property
    def homogeneity(self) -> int:
        """1: both sides of zero are multiplied by a number each."""
        return 1

    @property
    def gain(self) -> float:
        """(1 + slope²)/2: half of the variance comes from either side of zero."""
        return (1 + self.slope**2) / 2

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike, sign: Any = None) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']; with a `sign` of ±1 the distance d before it is that of u and ±v."""
        even, odd = ((1 - self.slope) / 2) ** 2, ((1 + self.slope) / 2) ** 2
        s, r, gap = half_angle(d, q1, q2)
        m = nearest_axis(s, d, q1, q2)
        if sign is not None:
            s = jnp.where(sign < 0, 1 - s, s)
            d = jnp.where(sign < 0, gap + 4 * r * s, d)
        if even == 0:
            return odd * d, jnp.full_like(d, odd)
        absolute = gap + 4 * r * (m + alpha_cos_minus_sin(m) / math.pi)
        cosine = 1 - (2 / math.pi) * acute_angle(m)
        return odd * d + even * absolute, odd + even * jnp.where(s <= 0.5, cosine, -cosine)

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, sign: Any = None) -> tuple[Any, Any]:
        """((1+a)/2)² E + ((1-a)/2)² E of absolute values, from sin²(θ/2) = E/(4√(q1 q2)); see `pair` for the `sign`."""
        even, odd = ((1 - self.slope) / 2) ** 2, ((1 + self.slope) / 2) ** 2
        r = safe_sqrt(q1) * safe_sqrt(q2)
        s = jnp.where(r > 0, e / jnp.where(r > 0, 4 * r, 1), 0.5)
        s = jnp.clip(s, 0, 1)
        m = jnp.where(s <= 0.5, s, 1 - s)
        m = jnp.where(m <= DOUBT * jnp.finfo(m.dtype).eps * s, 0, m)
        if sign is not None:
            s = jnp.where(sign < 0, 1 - s, s)
        if even == 0:
            return odd * 4 * r * s, jnp.full_like(s, odd)
        absolute = m + alpha_cos_minus_sin(m) / math.pi
        cosine = 1 - (2 / math.pi) * acute_angle(m)
        return 4 * r * (odd * s + even * absolute), odd + even * jnp.where(s <= 0.5, cosine, -cosine)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ], with E[|u||v|] = √(q1 q2) (1 - 2 [sin²(α/2) + (α cos α - sin α)/π]), and E[φ'φ']."""
        even, odd = ((1 - self.slope) / 2) ** 2, ((1 + self.slope) / 2) ** 2
        s, r = angle_of_covariance(k, q1, q2)
        m = nearest_axis_of(s, r)
        absolute = r * (1 - 2 * (m + alpha_cos_minus_sin(m) / math.pi))
        cosine = 1 - (2 / math.pi) * acute_angle(m)
        return odd * k + even * absolute, odd + even * jnp.where(s <= 0.5, cosine, -cosine)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(1+a²)/2 · q and (1-a)/2 · √(2q/π)."""
        mean = (1 - self.slope) / 2 * math.sqrt(2 / math.pi) * safe_sqrt(q)
        return (1 + self.slope**2) / 2 * q, mean
