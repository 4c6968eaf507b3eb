"""Activation kernels of polynomials, of normalisations, and of functions plus a constant.

Activation kernel of a polynomial φ(x) = Σ_j c_j x^j, in finite sums (Mehler's formula).

With a_n(q) = E[φ⁽ⁿ⁾(u)] of u ~ N(0, q): E[φ(u)φ(v)] = Σ_n kⁿ/n! a_n(q1) a_n(q2), and E[φ'(u)φ'(v)] from n ≥ 1 alike.
The distance is summed over moments of u - v and (u + v)/2, so that nearly equal inputs keep their digits.

Normalisation over channels of a Gaussian field: K' = K/√((q1 + ε)(q2 + ε)), Θ' = Θ/√((q1 + ε)(q2 + ε)).

Activation kernel of a nonlinearity plus a constant: distances and derivatives do not change, moments do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.duals.geometry import Traits, angle_of_covariance, half_angle, safe_sqrt, traits_of
from equitangents.kernels.operation import DualActivation


@dataclass(frozen=True)
class Polynomial(Traits):
    """Coefficients c_0, c_1, … of a polynomial, lowest power first."""

    coefficients: tuple[float, ...]

    @property
    def steepness(self) -> int:
        """The highest power that has a coefficient."""
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
        """Squared distance after φ, and E[φ'φ']."""
        middle, cross = (q1 + q2) / 2 - d / 4, (q1 - q2) / 2
        middle = jnp.where(middle < 0, 0, middle)
        distance = jnp.zeros_like(d)
        for (a, b), c in self._gap.items():
            distance = distance + c * _moment(a, b, middle, d, cross)
        return distance, self._products((q1 + q2 - d) / 2, q1, q2)[1]

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """Σ_n [(a A_n - B_n/a)² + 2 A_n B_n (1 - cosⁿθ)], A_n = a_n(q1) q1^(n/2)/√n! and B_n that of q2."""
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
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        return self._products(k, q1, q2)

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φ(u)²] and E[φ(u)] of u ~ N(0, q)."""
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
    """E[s^a δ^b] of two Gaussian variables of these variances and this covariance (Isserlis)."""
    total = jnp.zeros_like(va)
    for l in range(a % 2, min(a, b) + 1, 2):
        i, j = (a - l) // 2, (b - l) // 2
        ways = math.factorial(a) * math.factorial(b)
        ways //= math.factorial(i) * math.factorial(j) * math.factorial(l) * 2 ** (i + j)
        total = total + ways * va**i * vb**j * cross**l
    return total


@dataclass(frozen=True)
class Normalised(Traits):
    """(x - mean over channels) / √(variance over channels + eps), of infinitely many channels."""

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
        """The distance E/√((q1 + ε)(q2 + ε)), and what Θ is multiplied by."""
        factor = self._factor(q1) * self._factor(q2)
        return factor * e, factor

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Correlation α1 α2 cos θ, from the covariance itself, and what Θ is multiplied by."""
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
    """φ(x) + offset, for φ with the dual `of`."""

    of: DualActivation
    offset: float

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        return self.of.pair(d, q1, q2)

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        value, slope = self.of.covariance(k, q1, q2)
        means = self.of.moments(q1)[1] + self.of.moments(q2)[1]
        return value + self.offset * (means + self.offset), slope

    @property
    def steepness(self) -> int:
        """The power as which φ grows, which the offset does not change."""
        return traits_of(self.of).steepness

    @property
    def grows(self) -> bool:
        """Whether φ does, which the offset does not change."""
        return traits_of(self.of).grows

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Second moment and mean, of φ and with the offset."""
        square, mean = self.of.moments(q)
        return square + self.offset * (2 * mean + self.offset), mean + self.offset
