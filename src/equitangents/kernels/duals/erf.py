"""Dual of the error function (Williams 1997), with differences of arcsines taken without cancellation.

E[φ(u)φ(v)] = (2/π) arcsin(2k / √((1+2q1)(1+2q2))),  E[φ'(u)φ'(v)] = (4/π) / √((1+2q1)(1+2q2) - 4k²).
With α, β, γ the arcsines of (q1,q1), (q2,q2), (q1,q2) and m = (α+β)/2: E[(φ(u)-φ(v))²] = (4/π)(m - γ), where
sin(m-γ) sin(m+γ) = sin²m - sin²γ has a form in d without cancellation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import arcsine, root_gap, safe_sqrt
from equitangents.kernels.duals.traits import Traits


def _self_angle(q: ArrayLike) -> ArrayLike:
    """arcsin(2q/(1+2q)), accurate also where the argument is near 1."""
    return jnp.arctan2(2 * q, jnp.sqrt(1 + 4 * q))


@dataclass(frozen=True)
class Erf(Traits):
    """The dual of the error function: the arcsine kernel."""

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
