"""Activation kernel of the error function (Williams 1997), with differences of arcsines taken without cancellation.

E[φ(u)φ(v)] = (2/π) arcsin(2k / √((1+2q1)(1+2q2))),  E[φ'(u)φ'(v)] = (4/π) / √((1+2q1)(1+2q2) - 4k²).
With α, β, γ the arcsines of (q1,q1), (q2,q2), (q1,q2) and m = (α+β)/2: E[(φ(u)-φ(v))²] = (4/π)(m - γ), where
sin(m-γ) sin(m+γ) = sin²m - sin²γ has a form in d without cancellation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import arcsine, curvature, root_gap, safe_sqrt
from equitangents.kernels.duals.traits import Traits


def _self_angle(q: ArrayLike) -> ArrayLike:
    """arcsin(2q/(1+2q)), accurate also where the argument is near 1."""
    return jnp.arctan2(2 * q, jnp.sqrt(1 + 4 * q))


@dataclass(frozen=True)
class Erf(Traits):
    """Activation kernel of the error function: the arcsine kernel."""

    odd: ClassVar[bool] = True
    linear_at_zero: ClassVar[bool] = True

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        k = (q1 + q2 - d) / 2
        r = safe_sqrt(q1) * safe_sqrt(q2)
        spread = d - root_gap(q1, q2)  # 2 (√(q1 q2) - k)
        product = (1 + 2 * q1) * (1 + 2 * q2)
        radicand = 1 + 2 * (q1 + q2) + 2 * spread * (r + k)  # product - 4k²
        radicand = jnp.where(radicand < 1, 1, radicand)
        root_product, root = jnp.sqrt(product), jnp.sqrt(radicand)
        sine_gamma, cosine_gamma = 2 * k / root_product, root / root_product
        m = (_self_angle(q1) + _self_angle(q2)) / 2
        roots = jnp.sqrt(1 + 4 * q1) + jnp.sqrt(1 + 4 * q2)
        numerator = 8 * (q1 - q2) ** 2 / roots**2 + 4 * spread * (r + k)
        # Both formulas below hold around k = 0, where compiled code may take k as positive in one place and not in
        # another; so the denominator, positive unless both variances vanish, must not depend on the choice.
        positive = k > 0
        sine_sum = jnp.sin(m) * jnp.where(positive, cosine_gamma, 1) + jnp.cos(m) * jnp.where(positive, sine_gamma, 0)
        denominator = 2 * product * sine_sum
        sine = numerator / jnp.where(denominator > 0, denominator, 1)
        # Beyond these bounds lies nothing but pairs of positions that are masked later.
        sine = jnp.where(sine > 1, 1, jnp.where(sine < -0.5, -0.5, sine))
        close = positive & (sine < 0.5)  # only then do m and γ nearly cancel
        sine = jnp.where(close, sine, 0)
        difference, cosine = jnp.where(close, sine, sine_gamma), jnp.sqrt(1 - sine * sine)
        turn = arcsine(difference, jnp.where(close, cosine, cosine_gamma))
        gap = jnp.where(close, turn, m - turn)
        return (4 / math.pi) * gap, (4 / math.pi) / root

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """(4/π) [√(αβ) - γ], in the sum of what differs at θ = 0, √(αβ) - γ0, and γ0 - γ.

        sin γ0 = 2r/√N, N = (1+2q1)(1+2q2), so that sin²γ0 = sin α sin β: with n = ((α-β)/2)² and p = αβ,
        sin²√p - sin²γ0 = sin²√p + sin²√n - sin²√(n+p). And sin(γ0-γ) is a sum of positive terms over N.
        """
        r = safe_sqrt(q1) * safe_sqrt(q2)
        k, sum_ = r - e / 2, 2 * r - e / 2
        flat = 1 + 2 * (q1 + q2)  # N - 4r²
        root0, root = jnp.sqrt(flat), jnp.sqrt(flat + 2 * e * sum_)
        turn = jnp.arctan2(e * root0 + 4 * r * e * sum_ / (root0 + root), root0 * root + 4 * r * k)
        w1, w2 = jnp.sqrt(1 + 4 * q1), jnp.sqrt(1 + 4 * q2)
        alpha, beta = jnp.arctan2(2 * q1, w1), jnp.arctan2(2 * q2, w2)
        across = q1 * w2 + q2 * w1
        lean = 2 * (q1 - q2) * (q1 + q2 + 4 * q1 * q2) / jnp.where(across > 0, across, 1)
        n, p = (jnp.arctan2(lean, w1 * w2 + 4 * q1 * q2) / 2) ** 2, alpha * beta
        rest1, rest2 = jnp.arctan2(w1, 2 * q1), jnp.arctan2(w2, 2 * q2)  # of α and β to π/2
        rest = (math.pi / 2 * (rest1 + rest2) - rest1 * rest2) / (math.pi / 2 + safe_sqrt(p)) + jnp.arctan2(
            root0, 2 * r
        )
        sine = jnp.where(alpha + beta > 1.5, jnp.sin(rest), jnp.sin(safe_sqrt(p) + jnp.arctan2(2 * r, root0)))
        excess = n * p * curvature(n, p, sign=-1)
        parallel = jnp.arcsin(jnp.minimum(excess / jnp.where(sine > 0, sine, 1), 1))
        return (4 / math.pi) * (parallel + turn), (4 / math.pi) / root

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        r = safe_sqrt(q1) * safe_sqrt(q2)
        radicand = 1 + 2 * (q1 + q2) + 4 * (r - k) * (r + k)
        root = jnp.sqrt(jnp.where(radicand < 1, 1, radicand))
        root_product = jnp.sqrt(1 + 2 * q1) * jnp.sqrt(1 + 2 * q2)
        return (2 / math.pi) * arcsine(2 * k / root_product, root / root_product), (4 / math.pi) / root

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(2/π) arcsin(2q/(1+2q)) and 0."""
        return (2 / math.pi) * _self_angle(q), jnp.zeros_like(q)
