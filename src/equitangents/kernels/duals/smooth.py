"""Activation kernels of smooth functions in closed form.

Activation kernel of the error function (Williams 1997), with differences of arcsines taken without cancellation.

E[φ(u)φ(v)] = (2/π) arcsin(2k / √((1+2q1)(1+2q2))),  E[φ'(u)φ'(v)] = (4/π) / √((1+2q1)(1+2q2) - 4k²).
With α, β, γ the arcsines of (q1,q1), (q2,q2), (q1,q2) and m = (α+β)/2: E[(φ(u)-φ(v))²] = (4/π)(m - γ), where
sin(m-γ) sin(m+γ) = sin²m - sin²γ has a form in d without cancellation.

Activation kernel of the exact GELU φ(x) = x Φ(x), by repeated integration by parts of Gaussian expectations.

With F = E[Φ'(u)Φ'(v)] = 1/(2π√Δ), Δ = (1+q1)(1+q2) - k², P = E[Φ(u)Φ(v)] = 1/4 + arcsin(k/√((1+q1)(1+q2)))/(2π):
E[φ(u)φ(v)] = kP + F [q1 q2 - k² + k²/(1+q1) + k²/(1+q2)],
E[φ'(u)φ'(v)] = P + kF [1/(1+q1) + 1/(1+q2) + 1/Δ].

Activation kernels of sine and cosine: with d = E[(u-v)²] and S = E[(u+v)²] = 2(q1+q2) - d,

E[sin u sin v] = (e^{-d/2} - e^{-S/2})/2,  E[cos u cos v] = (e^{-d/2} + e^{-S/2})/2; each is the other's derivative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import Traits, arcsine, curvature, root_gap, safe_sqrt


def _self_angle(q: ArrayLike) -> ArrayLike:
    """arcsin(2q/(1+2q)), accurate also where the argument is near 1."""
    return jnp.arctan2(2 * q, jnp.sqrt(1 + 4 * q))


@dataclass(frozen=True)
class ErfDual(Traits):
    """Activation kernel of the error function: the arcsine kernel."""

    odd: ClassVar[bool] = True
    linear_at_zero: ClassVar[bool] = True

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        k = (q1 + q2 - d) / 2
        r = safe_sqrt(q1) * safe_sqrt(q2)
        e = d - root_gap(q1, q2)  # 2 (√(q1 q2) - k)
        product = (1 + 2 * q1) * (1 + 2 * q2)
        radicand = 1 + 2 * (q1 + q2) + 2 * e * (r + k)  # product - 4k²
        radicand = jnp.where(radicand < 1, 1, radicand)
        root_product, root = jnp.sqrt(product), jnp.sqrt(radicand)
        sine_gamma, cosine_gamma = 2 * k / root_product, root / root_product
        m = (_self_angle(q1) + _self_angle(q2)) / 2
        roots = jnp.sqrt(1 + 4 * q1) + jnp.sqrt(1 + 4 * q2)
        numerator = 8 * (q1 - q2) ** 2 / roots**2 + 4 * e * (r + k)
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
        """(4/π) [√(αβ) - γ], as the sum of √(αβ) - γ0, the value at θ = 0, and γ0 - γ.

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
        r = safe_sqrt(q1) * safe_sqrt(q2)
        radicand = 1 + 2 * (q1 + q2) + 4 * (r - k) * (r + k)
        root = jnp.sqrt(jnp.where(radicand < 1, 1, radicand))
        root_product = jnp.sqrt(1 + 2 * q1) * jnp.sqrt(1 + 2 * q2)
        return (2 / math.pi) * arcsine(2 * k / root_product, root / root_product), (4 / math.pi) / root

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(2/π) arcsin(2q/(1+2q)) and 0."""
        return (2 / math.pi) * _self_angle(q), jnp.zeros_like(q)


def _even_distance(d: ArrayLike, k: ArrayLike, minor: Any, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    """Squared distance after the even part of φ, without cancellation; minor = q1 q2 - k².

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
    """E[φφ] - k/4, the covariance after the even part of φ; minor = q1 q2 - k²."""
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
class GeluDual(Traits):
    """x Φ(x), Φ the standard normal distribution function."""

    linear_at_zero: ClassVar[bool] = True

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        k = (q1 + q2 - d) / 2
        gap = root_gap(q1, q2)
        minor = (d - gap) / 2 * (safe_sqrt(q1) * safe_sqrt(q2) + k)
        distance = d / 4 + _even_distance(d, k, jnp.where(minor < 0, 0, minor), q1, q2)
        # Compiled code may round the two sides of equal inputs differently; derivatives pass through.
        surplus = jnp.where((d == 0) & (q1 == q2), distance, 0)
        return distance - jax.lax.stop_gradient(surplus), _of_minor(k, minor, q1, q2)[1]

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """E/4, the distance of x/2, plus that of the even part of φ, which is uncorrelated; and E[φ'φ']."""
        r, gap = safe_sqrt(q1) * safe_sqrt(q2), root_gap(q1, q2)
        k, minor = r - e / 2, e / 2 * (2 * r - e / 2)
        one, other = (_even_covariance(q, jnp.zeros_like(q), q, q) for q in (q1, q2))
        linear = e + (a * safe_sqrt(q1) - safe_sqrt(q2) / a) ** 2
        near = _even_distance(e + gap, k, minor, q1, q2) + (a * a - 1) * (one - other / (a * a))
        far = a * a * one + other / (a * a) - 2 * _even_covariance(k, minor, q1, q2)
        even = jnp.where(gap > r, far, near)
        return linear / 4 + even, _of_minor(k, minor, q1, q2)[1]

    def opposite(self, e: Any, q1: Any, q2: Any, a: Any) -> Any:
        """As `angular`, for φ(u) and -φ(v): the distance of even parts of opposite signs."""
        r = safe_sqrt(q1) * safe_sqrt(q2)
        one, other = (_even_covariance(q, jnp.zeros_like(q), q, q) for q in (q1, q2))
        both = _even_covariance(e / 2 - r, e / 2 * (2 * r - e / 2), q1, q2)
        linear = e + (a * safe_sqrt(q1) - safe_sqrt(q2) / a) ** 2
        return linear / 4 + a * a * one + other / (a * a) + 2 * both

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        r = safe_sqrt(q1) * safe_sqrt(q2)
        return _of_minor(k, (r - k) * (r + k), q1, q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φ(u)²], and E[φ(u)] = q/√(2π(1+q)), for u ~ N(0, q)."""
        return _of_minor(q, jnp.zeros_like(q), q, q)[0], q / jnp.sqrt(2 * math.pi * (1 + q))


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


class _Waves(Traits):
    """sin(x + phase), with `sign` = cos(2 phase) and `sine` = sin(phase)."""

    sign: float
    sine: float

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        distance = -jnp.expm1(-d / 2) + self.sign * _sum_excess(d, q1, q2)
        return distance, (jnp.exp(-d / 2) + self.sign * jnp.exp(d / 2 - (q1 + q2))) / 2

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        sine, cosine = _products(k, q1, q2)
        odd, even = (1 + self.sign) / 2, (1 - self.sign) / 2
        return odd * sine + even * cosine, odd * cosine + even * sine

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(1 - sign · e^{-2q})/2 (without cancellation for the sine), and sine · e^{-q/2}."""
        return (1 - self.sign) / 2 - self.sign * jnp.expm1(-2 * q) / 2, self.sine * jnp.exp(-q / 2)


@dataclass(frozen=True)
class SinDual(_Waves):
    """Activation kernel of the sine, in closed form."""

    odd: ClassVar[bool] = True
    linear_at_zero: ClassVar[bool] = True
    sign = 1.0
    sine = 0.0

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


@dataclass(frozen=True)
class CosDual(_Waves):
    """Activation kernel of the cosine, in closed form."""

    even: ClassVar[bool] = True
    sign = -1.0
    sine = 1.0


@dataclass(frozen=True)
class WaveDual(_Waves):
    """Activation kernel of sin(x + phase) = cos(phase) sin x + sin(phase) cos x."""

    phase: float

    @property
    def sign(self) -> float:  # type: ignore[override]
        """cos(2 phase)."""
        return math.cos(2 * self.phase)

    @property
    def sine(self) -> float:  # type: ignore[override]
        """sin(phase)."""
        return math.sin(self.phase)
