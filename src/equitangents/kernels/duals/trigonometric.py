"""Activation kernels of sine and cosine: with d = E[(u-v)²] and S = E[(u+v)²] = 2(q1+q2) - d,

E[sin u sin v] = (e^{-d/2} - e^{-S/2})/2,  E[cos u cos v] = (e^{-d/2} + e^{-S/2})/2; each is the other's derivative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import curvature, root_gap, safe_sqrt
from equitangents.kernels.duals.traits import Traits


def _sum_excess(d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    """e^{-S/2} - (e^{-2 q1} + e^{-2 q2})/2, without cancellation for near-equal u, v and without overflow."""
    near = d < 1
    gap = jnp.exp(-jnp.minimum(q1, q2)) * jnp.expm1(-jnp.abs(q1 - q2))
    base = jnp.exp(-(q1 + q2))
    grown = jnp.where(near, base * jnp.expm1(jnp.where(near, d, 0) / 2), jnp.exp(d / 2 - (q1 + q2)) - base)
    return grown - gap**2 / 2


def _products(k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """(E[sin u sin v], E[cos u cos v]) = e^{-(q1+q2)/2} (sinh k, cosh k), without overflow."""
    h = (q1 + q2) / 2
    up, down = jnp.exp(k - h), jnp.exp(-k - h)
    small = jnp.abs(k) < 1
    sine = jnp.where(small, jnp.exp(-h) * jnp.sinh(jnp.where(small, k, 0)), (up - down) / 2)
    return sine, (up + down) / 2


@dataclass(frozen=True)
class Sin(Traits):
    """Activation kernel of the sine, in closed form."""

    odd: ClassVar[bool] = True
    linear_at_zero: ClassVar[bool] = True

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        return -jnp.expm1(-d / 2) + _sum_excess(d, q1, q2), (jnp.exp(-d / 2) + jnp.exp(d / 2 - (q1 + q2))) / 2

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """2 e^{-h} [(√(sinh q1 sinh q2) - sinh r) + (sinh r - sinh k)], h = (q1+q2)/2, r = √(q1 q2).

        With n = ((q1-q2)/2)² and p = q1 q2 the first is [sinh²√(n+p) - sinh²√n - sinh²√p] over the sum of both.
        """
        r, h, gap = safe_sqrt(q1) * safe_sqrt(q2), (q1 + q2) / 2, root_gap(q1, q2)
        k = r - e / 2
        along = jnp.exp(-gap / 2)  # e^{r-h}
        turned = -jnp.expm1(-e / 2) * (along + jnp.exp(-k - h))
        n, p = jnp.minimum(((q1 - q2) / 2) ** 2, 3), jnp.minimum(q1 * q2, 3)
        low = jnp.minimum(h, 2)
        total = safe_sqrt(jnp.sinh(jnp.minimum(q1, 4))) * safe_sqrt(jnp.sinh(jnp.minimum(q2, 4))) + jnp.sinh(
            jnp.minimum(r, 2)
        )
        small = 2 * jnp.exp(-low) * n * p * curvature(n, p, sign=1) / jnp.where(total > 0, total, 1)
        one, other = self.moments(q1)[0], self.moments(q2)[0]
        near = self.pair(gap, q1, q2)[0] - root_gap(one, other)
        large = jnp.where(gap > r, 2 * (safe_sqrt(one) * safe_sqrt(other) - _products(r, q1, q2)[0]), near)
        parallel = jnp.where(h < 1.5, small, large)
        # e^{k-h} as a product, since k - h has lost its digits where both are large.
        return parallel + turned, (along * jnp.exp(-e / 2) + jnp.exp(-k - h)) / 2

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        return _products(k, q1, q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(1 - e^{-2q})/2 and 0."""
        return -jnp.expm1(-2 * q) / 2, jnp.zeros_like(q)


@dataclass(frozen=True)
class Cos(Traits):
    """Activation kernel of the cosine, in closed form."""

    even: ClassVar[bool] = True

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        derivative = (jnp.exp(-d / 2) - jnp.exp(d / 2 - (q1 + q2))) / 2
        return -jnp.expm1(-d / 2) - _sum_excess(d, q1, q2), derivative

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        sine, cosine = _products(k, q1, q2)
        return cosine, sine

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(1 + e^{-2q})/2 and e^{-q/2}."""
        return (1 + jnp.exp(-2 * q)) / 2, jnp.exp(-q / 2)


@dataclass(frozen=True)
class Wave:
    """Activation kernel of sin(x + phase) = cos(phase) sin x + sin(phase) cos x."""

    phase: float

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        return self._mean(Sin().pair(d, q1, q2), Cos().pair(d, q1, q2))

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        return self._mean(Sin().covariance(k, q1, q2), Cos().covariance(k, q1, q2))

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(1 - cos(2 phase) e^{-2q})/2 and sin(phase) e^{-q/2}."""
        square = self._mean(Sin().moments(q), Cos().moments(q))[0]
        return square, math.sin(self.phase) * jnp.exp(-q / 2)

    def _mean(self, of_sine: tuple[Any, Any], of_cosine: tuple[Any, Any]) -> tuple[ArrayLike, ArrayLike]:
        share = math.sin(self.phase) ** 2
        value, slope = ((1 - share) * s + share * c for s, c in zip(of_sine, of_cosine, strict=True))
        return value, slope
