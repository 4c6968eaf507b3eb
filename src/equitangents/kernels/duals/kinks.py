"""Activation kernels of functions with a kink or a jump.

Activation kernel of φ(x) = max(x, 0) + a min(x, 0): ReLU (a = 0), leaky ReLU, |x| (a = -1), identity (a = 1).

φ = (1+a)/2 · x + (1-a)/2 · |x|, whose parts are uncorrelated, so that with the angle θ between u and v
E[(φ(u)-φ(v))²] = ((1+a)/2)² d + ((1-a)/2)² E[(|u|-|v|)²],
E[(|u|-|v|)²] = (√q1-√q2)² + 4√(q1 q2) [sin²(α/2) + (α cos α - sin α)/π],  α = min(θ, π-θ),
E[φ'(u)φ'(v)] = ((1+a)/2)² + ((1-a)/2)² (1 - 2θ/π).   Source: Cho & Saul 2009.

Activation kernel of a rectified power φ(x) = max(x, 0)ⁿ, n ≥ 2: the arc-cosine kernels of order n (Cho & Saul 2009).

E[φ(u)φ(v)] = rⁿ J_n(θ)/(2π), r = √(q1 q2), and E[φ'(u)φ'(v)] = n² rⁿ⁻¹ J_(n-1)(θ)/(2π). With c = cos θ,
J_n = π Q_n - h_n, where Q_0 = 1, Q_1 = c, h_0 = θ, h_1 = θ cos θ - sin θ, and Q and h both satisfy
f_(n+1) = (2n + 1) c f_n + n² sin²θ f_(n-1). So J_n(0) - J_n(θ) = π (Q_n(1) - Q_n) + h_n has no cancellation.

Activation kernels of functions with a jump: sign and step. With the angle θ between u and v,

E[sign(u) sign(v)] = 1 - 2θ/π and E[step(u) step(v)] = (1 - θ/π)/2. Their derivative is a delta at 0, and
E[φ'(u)φ'(v)] = c/√(q1 q2 - k²) is infinite at equal inputs: there is no NTK, and the slope below is a placeholder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import (
    DOUBT,
    Traits,
    acute_angle,
    alpha_cos_minus_sin,
    angle_of_covariance,
    half_angle,
    nearest_axis,
    nearest_axis_of,
    safe_sqrt,
)


@dataclass(frozen=True)
class PiecewiseLinearDual(Traits):
    """max(x, 0) + slope · min(x, 0)."""

    bent: ClassVar[bool] = True
    curved: ClassVar[bool] = False
    linear_at_zero: ClassVar[bool] = True
    homogeneity: ClassVar[int] = 1
    slope: float = 0.0

    @property
    def gain(self) -> float:  # type: ignore[override]
        """(1 + slope²)/2: each side of zero contributes half of the variance."""
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
        """((1+a)/2)² E + ((1-a)/2)² E of absolute values, from sin²(θ/2) = E/(4√(q1 q2)); `sign` as in `pair`."""
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


@dataclass(frozen=True)
class RectifiedMonomialDual(Traits):
    """max(x, 0) to a power ≥ 2; degrees 0 and 1 are `HeavisideDual` and `PiecewiseLinearDual`."""

    degree: int

    @property
    def vanishes(self) -> bool:
        """True: max(0, 0)ⁿ is zero."""
        return True

    @property
    def homogeneity(self) -> int:  # type: ignore[override]
        """The power n: φ(s·x) = sⁿ φ(x) for s > 0."""
        return self.degree

    steepness = homogeneity

    @property
    def second_moment(self) -> float:
        """E[φ(u)²] for u ~ N(0, 1): (2n - 1)!!/2."""
        return math.prod(range(1, 2 * self.degree, 2)) / 2

    @property
    def first_moment(self) -> float:
        """E[φ(u)] for u ~ N(0, 1): 2^(n/2 - 1) Γ((n + 1)/2)/√π."""
        return 2 ** (self.degree / 2 - 1) * math.gamma((self.degree + 1) / 2) / math.sqrt(math.pi)

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        s, r, gap = half_angle(d, q1, q2)
        excess, _, before = self._angular(s)
        a, b, n = safe_sqrt(q1), safe_sqrt(q2), self.degree
        # (aⁿ - bⁿ)² from (a - b)², which keeps its digits.
        powers = gap * sum(a**i * b ** (n - 1 - i) for i in range(n)) ** 2
        return self.second_moment * powers + r**n * excess, self._slope(r, before)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        s, r = angle_of_covariance(k, q1, q2)
        _, here, before = self._angular(s)
        return r**self.degree * here / 2, self._slope(r, before)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Second moment and mean: those at variance 1, times powers of q."""
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


NO_NTK = (
    "a function with a jump has no neural tangent kernel: the kernel of its derivative is infinite between equal "
    "inputs; use the NNGP (kernel='nngp'), or a smooth function such as Erf(), Gelu() or Elementwise(jax.nn.sigmoid)"
)


def _share(s: ArrayLike, m: ArrayLike) -> ArrayLike:
    """θ/π from s = sin²(θ/2) and m = min(s, 1 - s)."""
    acute = acute_angle(m) / jnp.pi
    return jnp.where(s <= 0.5, acute, 1 - acute)


class _Step(Traits):
    """A function of the sign: it jumps by `gap` at 0; E[φ(u)²] is `square` unless u has zero variance."""

    bent: ClassVar[bool] = True
    curved: ClassVar[bool] = False
    no_ntk: ClassVar[str | None] = NO_NTK
    homogeneity: ClassVar[int] = 0
    gap: ClassVar[float]
    square: ClassVar[float]

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and zeros as a placeholder for the missing derivative."""
        s, _, _ = half_angle(d, q1, q2)
        both = self.gap**2 * _share(s, nearest_axis(s, d, q1, q2))
        one = (jnp.where(q1 > 0, 1.0, 0.0) + jnp.where(q2 > 0, 1.0, 0.0)) * self.square
        return jnp.where((q1 > 0) & (q2 > 0), both, one.astype(both.dtype)), jnp.zeros_like(both)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        s, r = angle_of_covariance(k, q1, q2)
        both = self.square * (1 - self.gap * _share(s, nearest_axis_of(s, r)))
        return jnp.where(r > 0, both, 0), jnp.zeros_like(both)


@dataclass(frozen=True)
class SignDual(_Step):
    """The sign of x, -1, 0 or 1."""

    gap: ClassVar[float] = 2.0
    square: ClassVar[float] = 1.0

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """1 (0 for zero variance) and 0."""
        return jnp.where(q > 0, 1, 0).astype(q.dtype), jnp.zeros_like(q)


@dataclass(frozen=True)
class HeavisideDual(_Step):
    """1 where x > 0, else 0."""

    gap: ClassVar[float] = 1.0
    square: ClassVar[float] = 0.5

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """1/2 and 1/2 (0 for zero variance)."""
        half = jnp.where(q > 0, 0.5, 0).astype(q.dtype)
        return half, half
