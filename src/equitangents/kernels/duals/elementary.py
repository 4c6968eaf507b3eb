"""Activation kernels of exponentials, polynomials and normalisations, and of functions plus a constant.

Exponentials: a·exp(b x), a·exp(b x²), √2 sin(√(2γ) x + π/4), and the normalised exponential; each distance is a sum of
terms of one sign, so that nearly equal inputs keep their digits.

The Gabor function e^{-x²} sin x is the sine under a Gaussian weight. With m = q1 q2 - k² and
Δ = (1 + 2 q1)(1 + 2 q2) - 4k² = 1 + 2(q1 + q2) + 4m, the weighted variances are (q + 2m)/Δ and the weighted covariance
is k/Δ: E[φ(u)φ(v)] = e^{-h} sinh(k/Δ)/√Δ, h half the sum of these variances.

A polynomial φ(x) = Σ_j c_j x^j, in finite sums (Mehler's formula): with a_n(q) = E[φ⁽ⁿ⁾(u)] for u ~ N(0, q),
E[φ(u)φ(v)] = Σ_n kⁿ/n! a_n(q1) a_n(q2), and E[φ'(u)φ'(v)] likewise from n ≥ 1. The distance is summed over moments of
u - v and (u + v)/2, so that nearly equal inputs keep their digits.

Normalisation over channels of a Gaussian field: K' = K/√((q1 + ε)(q2 + ε)), Θ' = Θ/√((q1 + ε)(q2 + ε)). An additive
constant changes only moments, not distances and derivatives.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import Traits, angle_of_covariance, half_angle, root_gap, safe_sqrt, traits_of
from equitangents.kernels.operations import DualActivation


@dataclass(frozen=True)
class ExpDual(Traits):
    """a·exp(b x): E[φ(u)φ(v)] = a² exp(b² (q1 + q2 + 2k)/2), and E[φ'φ'] = b² times that."""

    a: float = 1.0
    b: float = 1.0

    @property
    def grows(self) -> bool:
        """True: φ grows faster than any power."""
        return True

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        square = self.b**2
        gap = jnp.exp(square * jnp.minimum(q1, q2)) * jnp.expm1(square * jnp.abs(q1 - q2))
        both = jnp.exp(square * (q1 + q2))
        distance = gap**2 - 2 * both * jnp.expm1(-square * d / 2)
        return self.a**2 * distance, self.a**2 * square * jnp.exp(square * (q1 + q2 - d / 2))

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """2 √(q1' q2') (1 - e^{-b²d/2}), d = e + (√q1 - √q2)²."""
        square = self.b**2
        both = self.a**2 * jnp.exp(square * (q1 + q2))
        excess = jnp.expm1(-square * (e + root_gap(q1, q2)) / 2)
        return -2 * both * excess, square * both * (1 + excess)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        value = self.a**2 * jnp.exp(self.b**2 * ((q1 + q2) / 2 + k))
        return value, self.b**2 * value

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """a² exp(2 b² q) and a exp(b² q/2)."""
        return self.a**2 * jnp.exp(2 * self.b**2 * q), self.a * jnp.exp(self.b**2 * q / 2)


@dataclass(frozen=True)
class GaussianDual(Traits):
    """a·exp(b x²), b ≤ 0: with β = -b and Δ = (1 + 2βq1)(1 + 2βq2) - 4β²k²,

    E[φ(u)φ(v)] = a²/√Δ and E[φ'(u)φ'(v)] = 4 a² β² k / Δ^(3/2).
    """

    even: ClassVar[bool] = True
    a: float = 1.0
    b: float = -1.0

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        k, r = (q1 + q2 - d) / 2, safe_sqrt(q1) * safe_sqrt(q2)
        minor = (d - root_gap(q1, q2)) / 2 * (r + k)
        delta = self.determinant(minor, q1, q2)
        # With A, B = 1 + 4βq: 1/√A + 1/√B - 2/√Δ = (A^-¼ - B^-¼)² + 2 (Δ - √(AB)) / (√Δ (AB)^¼ (√Δ + (AB)^¼)).
        beta = -self.b
        one, other = 1 + 4 * beta * q1, 1 + 4 * beta * q2
        root1, root2 = jnp.sqrt(one), jnp.sqrt(other)
        fourth1, fourth2 = jnp.sqrt(root1), jnp.sqrt(root2)
        mean = root1 * root2
        between = (4 * beta * (q1 - q2) / ((root1 + root2) * (fourth1 + fourth2))) ** 2 / mean
        excess = 4 * beta**2 * (jnp.where(minor < 0, 0, minor) + (q1 - q2) ** 2 / (1 + 2 * beta * (q1 + q2) + mean))
        middle, root = jnp.sqrt(mean), jnp.sqrt(delta)
        distance = between + 2 * excess / (root * middle * (root + middle))
        return self.a**2 * distance, self._slope(k, delta)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        r = safe_sqrt(q1) * safe_sqrt(q2)
        delta = self.determinant((r - k) * (r + k), q1, q2)
        return self.a**2 / jnp.sqrt(delta), self._slope(k, delta)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """a²/√(1 + 4βq) and a/√(1 + 2βq)."""
        return self.a**2 / jnp.sqrt(1 - 4 * self.b * q), self.a / jnp.sqrt(1 - 2 * self.b * q)

    def determinant(self, minor: Any, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
        """Δ from the minor q1 q2 - k²."""
        return 1 - 2 * self.b * (q1 + q2) + 4 * self.b**2 * jnp.where(minor < 0, 0, minor)

    def _slope(self, k: ArrayLike, delta: Any) -> ArrayLike:
        return 4 * self.a**2 * self.b**2 * k / (delta * jnp.sqrt(delta))


_GAUSSIAN = GaussianDual()


@dataclass(frozen=True)
class RbfDual:
    """√2 sin(√(2γ) x + π/4): E[φ(u)φ(v)] = exp(-γ d), the kernel of radial basis functions."""

    gamma: float = 1.0

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        return -2 * jnp.expm1(-self.gamma * d), 2 * self.gamma * jnp.exp(-self.gamma * d)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        value = jnp.exp(-self.gamma * (q1 + q2 - 2 * k))
        return value, 2 * self.gamma * value

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """1 and exp(-γ q)."""
        return jnp.ones_like(q), jnp.exp(-self.gamma * q)


@dataclass(frozen=True)
class NormalisedExponentialDual(Traits):
    """σ exp(√γ x/σ - γ), σ² the variance of x: E[φ(u)φ(v)] = √(q1 q2) exp(γ (cos θ - 1)).

    Source: the normalised Gaussian kernel of Shankar et al. 2020, Neural kernels without tangents.
    """

    homogeneity: ClassVar[int] = 1
    gain: ClassVar[float] = 1.0
    gamma: float = 1.0

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        s, r, gap = half_angle(d, q1, q2)
        return gap - 2 * r * jnp.expm1(-2 * self.gamma * s), self.gamma * jnp.exp(-2 * self.gamma * s)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        s, r = angle_of_covariance(k, q1, q2)
        value = jnp.exp(-2 * self.gamma * s)
        return r * value, self.gamma * value

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """The variance itself, and √q exp(-γ/2)."""
        return q, safe_sqrt(q) * math.exp(-self.gamma / 2)


@dataclass(frozen=True)
class GaborDual:
    """Activation kernel of e^{-x²} sin x, in closed form."""

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ'].

        φ(u)φ(v) = e^{-u²-v²} (cos(u-v) - cos(u+v))/2, so the distance is half the difference of two others: that of the
        cosines of u - v, which is a Gaussian's plus one term, and that of the cosines of u + v.
        """
        k, r = (q1 + q2 - d) / 2, safe_sqrt(q1) * safe_sqrt(q2)
        minor = (d - root_gap(q1, q2)) / 2 * (r + k)
        minor = jnp.where(minor < 0, 0, minor)
        delta = _GAUSSIAN.determinant(minor, q1, q2)
        turned = -2 * jnp.expm1(-(d + 4 * minor) / (2 * delta)) / jnp.sqrt(delta)
        differences = _GAUSSIAN.pair(d, q1, q2)[0] + turned
        return (differences - _sums(d, minor, delta, q1, q2)) / 2, _products(k, minor, q1, q2)[1]

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        r = safe_sqrt(q1) * safe_sqrt(q2)
        minor = (r - k) * (r + k)
        return _products(k, jnp.where(minor < 0, 0, minor), q1, q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(1 - e^{-2q/(1 + 4q)}) / (2 √(1 + 4q)), and 0."""
        return -jnp.expm1(-2 * q / (1 + 4 * q)) / (2 * jnp.sqrt(1 + 4 * q)), jnp.zeros_like(q)


def _products(k: ArrayLike, minor: Any, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """E[φφ], and E[φ'φ'] = ∂E[φφ]/∂k, whose terms are of one sign."""
    delta, total = _GAUSSIAN.determinant(minor, q1, q2), q1 + q2
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


@dataclass(frozen=True)
class PolynomialDual(Traits):
    """Coefficients c_0, c_1, … of a polynomial, lowest power first."""

    coefficients: tuple[float, ...]

    @property
    def steepness(self) -> int:  # type: ignore[override]
        """The highest power with a non-zero coefficient."""
        return len(self.coefficients) - 1

    @cached_property
    def _gap(self) -> dict[tuple[int, int], float]:
        """(φ(s + δ/2) - φ(s - δ/2))² as coefficients of s^a δ^b."""
        once: dict[tuple[int, int], float] = defaultdict(float)
        for j, c in enumerate(self.coefficients):
            for i in range(1, j + 1, 2):
                once[j - i, i] += 2 * c * math.comb(j, i) / 2**i
        square: dict[tuple[int, int], float] = defaultdict(float)
        for (a, b), c in once.items():
            for (e, f), g in once.items():
                square[a + e, b + f] += c * g
        return {(a, b): c for (a, b), c in square.items() if c and (a + b) % 2 == 0}  # odd moments vanish

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        middle, cross = (q1 + q2) / 2 - d / 4, (q1 - q2) / 2
        middle = jnp.where(middle < 0, 0, middle)
        distance = jnp.zeros_like(d)
        for (a, b), c in self._gap.items():
            distance = distance + c * _moment(a, b, middle, d, cross)
        return distance, self._products((q1 + q2 - d) / 2, q1, q2)[1]

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """Σ_n [(a A_n - B_n/a)² + 2 A_n B_n (1 - cosⁿθ)], A_n = a_n(q1) q1^(n/2)/√n!, B_n likewise for q2."""
        one, other = safe_sqrt(q1), safe_sqrt(q2)
        r = one * other
        k = r - e / 2
        distance, powers = jnp.zeros_like(e), jnp.zeros_like(e)  # (rⁿ - kⁿ)/(r - k)
        for n in range(len(self.coefficients)):
            first, second = self._derivative(n, q1), self._derivative(n, q2)
            gap = a * (first * one**n) - second * other**n / a
            distance = distance + (gap**2 + e * powers * (first * second)) / math.factorial(n)
            powers = k * powers + r**n
        return distance, self._products(k, q1, q2)[1]

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        return self._products(k, q1, q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φ(u)²] and E[φ(u)] for u ~ N(0, q)."""
        return self._products(q, q, q)[0], self._derivative(0, q)

    def _products(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        value, slope = jnp.zeros_like(k), jnp.zeros_like(k)
        for n in range(len(self.coefficients)):
            both = self._derivative(n, q1) * self._derivative(n, q2)
            value = value + k**n / math.factorial(n) * both
            if n:
                slope = slope + k ** (n - 1) / math.factorial(n - 1) * both
        return value, slope

    def _derivative(self, n: int, q: ArrayLike) -> ArrayLike:
        """E[φ⁽ⁿ⁾(u)] = Σ_j c_j j!/(j-n)! (j-n-1)!! q^((j-n)/2) over even j - n."""
        total = jnp.zeros_like(q)
        for j in range(n, len(self.coefficients), 2):
            if self.coefficients[j]:
                half = (j - n) // 2
                factor = math.factorial(j) / (2**half * math.factorial(half))
                total = total + self.coefficients[j] * factor * q**half
        return total


def _moment(a: int, b: int, va: Any, vb: Any, cross: Any) -> ArrayLike:
    """E[s^a δ^b] of two Gaussian variables with these variances and covariance (Isserlis)."""
    total = jnp.zeros_like(va)
    for l in range(a % 2, min(a, b) + 1, 2):
        i, j = (a - l) // 2, (b - l) // 2
        counts = math.factorial(a) * math.factorial(b)
        counts //= math.factorial(i) * math.factorial(j) * math.factorial(l) * 2 ** (i + j)
        total = total + counts * va**i * vb**j * cross**l
    return total


@dataclass(frozen=True)
class Normalised(Traits):
    """(x - mean over channels) / √(variance over channels + eps), for infinitely many channels."""

    odd: ClassVar[bool] = True
    curved: ClassVar[bool] = False
    eps: float = 1e-12

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """(α1 - α2)² + 4 α1 α2 sin²(θ/2) with α² = q/(q + ε), and 1/√((q1 + ε)(q2 + ε))."""
        s, _, _ = half_angle(d, q1, q2)
        a1, a2 = (safe_sqrt(q / (q + self.eps)) for q in (q1, q2))
        total = jnp.where(a1 + a2 > 0, a1 + a2, 1)
        gap = (q1 - q2) * self.eps / ((q1 + self.eps) * (q2 + self.eps)) / total
        return gap**2 + 4 * a1 * a2 * s, self._factor(q1) * self._factor(q2)

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """The distance E/√((q1 + ε)(q2 + ε)), and the factor of Θ."""
        factor = self._factor(q1) * self._factor(q2)
        return factor * e, factor

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """The correlation α1 α2 cos θ, from the covariance itself, and the factor of Θ."""
        s, _ = angle_of_covariance(k, q1, q2)
        a1, a2 = (safe_sqrt(q / (q + self.eps)) for q in (q1, q2))
        return a1 * a2 * (1 - 2 * s), self._factor(q1) * self._factor(q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """The variance q/(q + ε), and 0, since the mean is subtracted."""
        return q / (q + self.eps), jnp.zeros_like(q)

    def _factor(self, q: ArrayLike) -> ArrayLike:
        return 1 / jnp.sqrt(q + self.eps)


@dataclass(frozen=True)
class Shifted(Traits):
    """φ(x) + offset, for φ with the activation kernel `of`."""

    of: DualActivation
    offset: float

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        return self.of.pair(d, q1, q2)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        value, slope = self.of.covariance(k, q1, q2)
        means = self.of.moments(q1)[1] + self.of.moments(q2)[1]
        return value + self.offset * (means + self.offset), slope

    @property
    def steepness(self) -> int:  # type: ignore[override]
        """The power with which φ grows, independent of the offset."""
        return traits_of(self.of).steepness

    @property
    def grows(self) -> bool:
        """Whether φ grows, independent of the offset."""
        return traits_of(self.of).grows

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Second moment and mean of φ + offset."""
        square, mean = self.of.moments(q)
        return square + self.offset * (2 * mean + self.offset), mean + self.offset
