"""Base of activation kernels: traits of φ, and the angle between two Gaussian variables.

Traits are properties of φ, for planners, engines and scales. By default φ is smooth, grows at most linearly, and is
neither zero at zero nor homogeneous.

The angle between two Gaussian variables is computed from their squared distance, without cancellation:

sin²(θ/2) = (d - (√q1 - √q2)²) / (4 √(q1 q2)), where cos θ = k / √(q1 q2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike


class Traits:
    """Properties of φ; activation kernels derive from this class and declare theirs."""

    bent: ClassVar[bool] = False  # a kink or a jump at zero
    curved: ClassVar[bool] = True  # smooth, and more than a scaling: what a kink behind it makes ill-conditioned
    odd: ClassVar[bool] = False  # φ(-x) = -φ(x)
    even: ClassVar[bool] = False  # φ(-x) = φ(x), and smooth
    linear_at_zero: ClassVar[bool] = False  # zero at zero, and linear near it up to what does not matter there
    no_ntk: ClassVar[str | None] = None  # why there is no tangent kernel
    homogeneity: ClassVar[int | None] = None  # n, where φ(s·x) = sⁿ φ(x) for s > 0
    gain: ClassVar[float | None] = None  # E[φ(u)²]/E[u²] where n is 1
    steepness: ClassVar[int] = 1  # growth exponent of φ in |x|; 1 where it grows no faster than x

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any] | None:
        """(E', E[φ'(u)φ'(v)]) for E = 2(√(q1 q2) - k), to rounding of E' (see `kernels.angular`), without derivatives.

        E' is that of a·φ(u) and φ(v)/a, which are of equal variance. None: `pair` and `covariance` are enough.
        """
        return None

    def opposite(self, e: Any, q1: Any, q2: Any, a: Any) -> Any:
        """The distance 2(√(q1' q2') + k') from 2(√(q1 q2) + k), that of u and -v, to its rounding; None: unknown."""
        return self.angular(e, q1, q2, a)[0] if self.odd else None  # type: ignore[index]

    @property
    def vanishes(self) -> bool:
        """Whether φ(0) is exactly zero."""
        return self.linear_at_zero

    @property
    def grows(self) -> bool:
        """Whether φ grows faster than x, so that norms differ more after it than before."""
        return self.steepness > 1


_UNSAID = Traits()


def traits_of(activation: object) -> Traits:
    """`Traits` of an activation kernel, or the defaults if it declares none."""
    return activation if isinstance(activation, Traits) else _UNSAID


def safe_sqrt(x: ArrayLike) -> ArrayLike:
    """√x, with derivative 0 instead of infinity at x = 0; negative values from rounding count as 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def root_gap(q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    """(√q1 - √q2)², computed from the difference of the variances to avoid cancellation."""
    total = safe_sqrt(q1) + safe_sqrt(q2)
    return (q1 - q2) ** 2 / jnp.where(total > 0, total, 1) ** 2


def half_angle(d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[Any, Any, Any]:
    """(s, r, g) = (sin²(θ/2), √(q1 q2), (√q1 - √q2)²); for a zero variance the angle is π/2."""
    r = safe_sqrt(q1) * safe_sqrt(q2)
    g = root_gap(q1, q2)
    positive = r > 0
    s = jnp.where(positive, (d - g) / jnp.where(positive, 4 * r, 1), 0.5)
    # jnp.clip would halve the derivative where s is exactly 0 or 1.
    s = jnp.where(s < 0, 0, s)
    s = jnp.where(s > 1, 1, s)
    return s, r, g


def angle_of_covariance(k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """(s, r) = ((1 - k/r)/2, √(q1 q2)): sin²(θ/2) to absolute rounding, whatever the ratio of q1 to q2."""
    r = safe_sqrt(q1) * safe_sqrt(q2)
    positive = r > 0
    s = jnp.where(positive, (1 - k / jnp.where(positive, r, 1)) / 2, 0.5)
    s = jnp.where(s < 0, 0, s)
    return jnp.where(s > 1, 1, s), r


# With t = sin²(θ/2) and a_k = C(2k, k) / (4^k (2k + 1)):
# arcsin(√t) / √t = Σ a_k t^k and (θ cos θ - sin θ) / √t³ = -4 Σ a_k t^k / (k + 3/2).
# On 0 ≤ t ≤ 1/2 both are economised to polynomials in u = 4t - 1: the singularity t = 1 lies at u = 3, so that
# Chebyshev coefficients fall as (3 + √8)^-k.
_DEGREE = {"float32": 9, "float64": 21}
_TERMS = 110  # 2^-110 is beyond any rounding
_CURVATURE_TERMS = {"float32": 11, "float64": 18}
DOUBT = 8  # rounding errors, in units of epsilon, that a distance may have gathered


def _arcsine_term(k: int) -> Fraction:
    return Fraction(math.comb(2 * k, k), 4**k * (2 * k + 1))


def _area_term(k: int) -> Fraction:
    return -4 * _arcsine_term(k) / (k + Fraction(3, 2))


@cache
def _coefficients(term: Callable[[int], Fraction], degree: int) -> tuple[float, ...]:
    """Power-series coefficients in u of the Chebyshev series of Σ term(k) t^k, cut at `degree`; exact up to rounding.

    t^k = ((1 + u)/4)^k = 2^(1-3k) Σ'_j C(2k, k-j) T_j(u), the term j = 0 halved.
    """
    scaled = [term(k) * Fraction(2, 8**k) for k in range(_TERMS)]
    zero = Fraction(0)
    chebyshev = [sum((scaled[k] * math.comb(2 * k, k - j) for k in range(j, _TERMS)), zero) for j in range(degree + 1)]
    chebyshev[0] = chebyshev[0] / 2
    return tuple(map(float, np.polynomial.chebyshev.cheb2poly(np.array(chebyshev, object))))


def _evaluate(term: Callable[[int], Fraction], t: ArrayLike) -> ArrayLike:
    u = 4 * t - 1
    value = jnp.zeros_like(u)
    for coefficient in reversed(_coefficients(term, _DEGREE[u.dtype.name])):
        value = value * u + coefficient
    return value


def nearest_axis(s: ArrayLike, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    """min(s, 1 - s) for s = sin²(θ/2), set to 0 if it is within rounding of d and the variances.

    The angle is its square root: otherwise, parallel and opposite fields would have an angle of 1e-8 in float64.
    """
    r = safe_sqrt(q1) * safe_sqrt(q2)
    return _nearest(s, DOUBT * (d + jnp.abs(q1 - q2)) / jnp.where(r > 0, 4 * r, 1), r)


def curvature(n: ArrayLike, p: ArrayLike, sign: int) -> ArrayLike:
    """[f(n + p) - f(n) - f(p)]/(n p) of f(x) = sinh²√x, or its negative of f(x) = sin²√x (`sign` -1), for n + p <= 2.5.

    With f(x) = Σ ½ 4^k x^k/(2k)! it is Σ ½ 4^k A_k/(2k)!, A_(k+1) = (n + p) A_k + n^(k-1) + p^(k-1), A_2 = 2.
    """
    total: ArrayLike = jnp.zeros_like(n + p)
    part: ArrayLike = 2 * jnp.ones_like(n + p)
    factor, power_n, power_p = 1 / 3, n, p
    for k in range(2, _CURVATURE_TERMS[part.dtype.name]):
        total = total + factor * part
        part = (n + p) * part + power_n + power_p
        power_n, power_p = power_n * n, power_p * p
        factor *= sign * 4 / ((2 * k + 1) * (2 * k + 2))
    return total


def nearest_axis_of(s: ArrayLike, r: ArrayLike) -> ArrayLike:
    """min(s, 1 - s) for s from a covariance, which has rounding errors relative to 1; 0 if within these."""
    return _nearest(s, DOUBT / 2, r)


def _nearest(s: ArrayLike, doubt: Any, r: ArrayLike) -> ArrayLike:
    m = jnp.where(s <= 0.5, s, 1 - s)
    vanishes = (m <= doubt * jnp.finfo(m.dtype).eps) & (r > 0)
    return m - jax.lax.stop_gradient(jnp.where(vanishes, m, 0))  # derivatives pass through


def acute_angle(m: ArrayLike) -> ArrayLike:
    """α from m = sin²(α/2) <= 1/2; the derivative at the kink α = 0 is set to 0."""
    return 2 * safe_sqrt(m) * _evaluate(_arcsine_term, m)


def alpha_cos_minus_sin(m: ArrayLike) -> ArrayLike:
    """α cos α - sin α for m = sin²(α/2) <= 1/2, without cancellation near α = 0."""
    return m * safe_sqrt(m) * _evaluate(_area_term, m)


@jax.custom_jvp
def arcsine(x: ArrayLike, y: ArrayLike) -> ArrayLike:
    """arcsin(x), with y = √(1 - x²) ≥ 0: to full relative accuracy, and vectorised, unlike XLA's own."""
    near = x * x <= 0.5
    t = jnp.where(near, x * x, y * y)
    part = jnp.where(near, jnp.abs(x), y) * _evaluate(_arcsine_term, t)
    value = jnp.where(near, part, jnp.pi / 2 - part)
    return jnp.where(x < 0, -value, value)


@arcsine.defjvp
def _(primals: Any, tangents: Any) -> tuple[ArrayLike, ArrayLike]:
    (x, y), (dx, dy) = primals, tangents
    return arcsine(x, y), y * dx - x * dy
