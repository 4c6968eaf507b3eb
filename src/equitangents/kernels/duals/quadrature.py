"""Activation kernel of any elementwise function, to a tolerance checked at every pair of variances and angle.

Three ways, and none without a check. Hermite series, whose lost terms are bounded at the variances that occur (`line`);
where they are too long, since φ is nearly a step at that scale, integrals over sectors of the plane, checked pair by
pair (`sectors`); what misses the tolerance there is NaN, which no kernel with values is returned with.

A given `order` is Gauss–Hermite quadrature with so many nodes in both directions, unchecked:
u = √q1 (cos(θ/2) z1 + sin(θ/2) z2), v = √q2 (cos(θ/2) z1 - sin(θ/2) z2) with z1, z2 independent standard normals, and
E[(φ(u)-φ(v))²] summed directly, without cancellation; moments of one variable have many more nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import roots_hermitenorm

from equitangents._types import ArrayLike
from equitangents.kernels.duals import line, series
from equitangents.kernels.duals.geometry import Traits, angle_of_covariance, half_angle, safe_sqrt

_NEGLIGIBLE = 1e-18  # weights below this, relative to their sum, are left out
_FINER = 16  # times as many nodes for moments of one variable
_AT_ONCE = 16_384  # numbers of which one compiled program has the values, whatever the rule

Values = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Quadrature(Traits):
    """`function` applied elementwise, to a relative `tolerance`, or with `order` nodes in each direction.

    Of E[φ²], E[φ'²], E[φ'φ'] and the distance; where the precision's rounding is above the tolerance, to that.
    """

    function: Callable[[Any], Any]
    order: int | None = None
    tolerance: float = 1e-6

    @property
    def vanishes(self) -> bool:
        """Whether the function of zero, in single precision, is zero."""
        return float(self.function(np.float32(0))) == 0

    @cached_property
    def _plane_rule(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert self.order is not None
        nodes, weights = _rule(self.order)
        product = np.outer(weights, weights)
        i, j = np.nonzero(product > _NEGLIGIBLE)
        return nodes[i], nodes[j], product[i, j]

    def pair(self, d: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """Squared distance after φ, and E[φ'φ']."""
        s, r, _ = half_angle(d, q1, q2)
        if self.order is None:
            found = series.moments(self.function, self.tolerance, s, q1, q2, 1.0)
            return found.distance, found.slope
        equal = s == 0
        distance, derivative = self._sums(s, r, q1, q2, 1.0)
        return distance - jax.lax.stop_gradient(jnp.where(equal & (q1 == q2), distance, 0)), derivative

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any]:
        """The distance E[(a φ(u) - φ(v)/a)²], and E[φ'φ']."""
        r = safe_sqrt(q1) * safe_sqrt(q2)
        s = jnp.where(r > 0, e / jnp.where(r > 0, 4 * r, 1), 0.5)
        s = jnp.clip(s, 0, 1)
        if self.order is None:
            found = series.moments(self.function, self.tolerance, s, q1, q2, a)
            return found.distance, found.slope
        return self._sums(s, r, q1, q2, a)

    def _sums(self, s: ArrayLike, r: ArrayLike, q1: ArrayLike, q2: ArrayLike, ratio: Any) -> tuple[Any, Any]:
        """E[(ratio·φ(u) - φ(v)/ratio)²] and E[φ'φ'], from sin²(θ/2) = s and r = √(q1 q2)."""
        # sin(θ/2) has no derivative at 0, the sums have, for they are even in it: below a small angle they are those of
        # 0 and their first-order term, ∂E[(φ(u)-φ(v))²]/∂d = E[φ'(u)φ'(v)]. Differences of φ would be rounding there.
        small = s < (1e-16 if s.dtype == jnp.float64 else 1e-8)
        first_order = jnp.where(small, s, 0)
        s = jnp.where(small, 0, s)
        distance, derivative = self._means(s, q1, q2, lambda weight, u, v: weight * (ratio * u - v / ratio) ** 2)
        return distance + 4 * r * first_order * derivative, derivative

    def covariance(self, k: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φφ] and E[φ'φ'], from the covariance itself."""
        s, _ = angle_of_covariance(k, q1, q2)
        if self.order is None:
            found = series.moments(self.function, self.tolerance, s, q1, q2, 1.0)
            return found.product, found.slope
        return self._means(s, q1, q2, lambda weight, u, v: weight * u * v)

    def _means(self, s: ArrayLike, q1: ArrayLike, q2: ArrayLike, term: Callable[..., Any]) -> tuple[Any, Any]:
        """(Σ term(weight, φ(u), φ(v)), E[φ'(u) φ'(v)]) over the rule's nodes, from sin²(θ/2) = s."""
        a, b = safe_sqrt(1 - s), safe_sqrt(s)
        r1, r2 = safe_sqrt(q1), safe_sqrt(q2)
        z1, z2, w = (jnp.asarray(part, s.dtype) for part in self._plane_rule)
        slope = jax.grad(lambda z: jnp.sum(self.function(z)))

        def add(sums: tuple[Any, Any], node: tuple[Any, Any, Any]) -> tuple[tuple[Any, Any], None]:
            x, y, weight = node
            u, v = r1 * (a * x + b * y), r2 * (a * x - b * y)
            first = sums[0] + term(weight, self.function(u), self.function(v))
            return (first, sums[1] + weight * slope(u) * slope(v)), None

        zero = jnp.zeros(jnp.broadcast_shapes(s.shape, r1.shape, r2.shape), s.dtype)
        (first, derivative), _ = jax.lax.scan(jax.checkpoint(add), (zero, zero), (z1, z2, w))
        return first, derivative

    def moments(self, q: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
        """E[φ(u)²] and E[φ(u)] of u ~ N(0, q); with an order by Gauss-Hermite quadrature of 16 times as many nodes."""
        if self.order is None:
            known = line.line(self.function, q, 1)
            return known.square, known.mean
        root = safe_sqrt(q)
        z, w = (jnp.asarray(part, q.dtype) for part in _rule(_FINER * self.order))

        def add(sums: tuple[Any, Any], node: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
            x, weight = node
            value = self.function(root * x)
            return (sums[0] + weight * value**2, sums[1] + weight * value), None

        zero = jnp.zeros_like(q)
        return jax.lax.scan(add, (zero, zero), (z, w))[0]

    def error(self, variances: np.ndarray, values: Values | None = None) -> float:
        """Largest relative error over `variances`, u and v at 60°: change on doubling the rule, and lost derivatives.

        `values` are `values_and_slopes` of the function, where these are compiled already.

        ∂E[(φ(u)-φ(v))²]/∂d = E[φ'(u)φ'(v)] holds for continuous φ; a jump, whose derivative automatic differentiation
        does not see, breaks it.
        """
        assert self.order is not None
        finer = Quadrature(self.function, 2 * self.order)
        values = values_and_slopes(self.function) if values is None else values
        step = 1e-4
        coarse, fine, above, below = (
            rule._pair_at(variances, s, values)
            for rule, s in ((self, 0.25), (finer, 0.25), (finer, 0.25 + step), (finer, 0.25 - step))
        )
        scale = np.maximum(np.abs(fine).max(axis=0), 1e-300)
        change = (np.abs(coarse - fine) / scale).max()
        rise = (above[0] - below[0]) / (8 * variances * step)
        lost = np.abs(rise - fine[1]) / np.maximum(np.maximum(np.abs(fine[1]), np.abs(rise)), 1e-300) - 10 * step**2
        return float(max(change, lost.max()))

    def _pair_at(self, q: np.ndarray, s: float, values: Values) -> np.ndarray:
        """(E[(φ(u)-φ(v))²], E[φ'(u)φ'(v)], E[φ(u)²]) at equal variances q, (n,), and sin²(θ/2) = s: (3, n)."""
        z1, z2, w = self._plane_rule
        root = np.sqrt(q)[:, None]
        (f, f_slope), (g, g_slope) = (values(root * (np.sqrt(1 - s) * z1 + sign * np.sqrt(s) * z2)) for sign in (1, -1))
        return np.stack([(f - g) ** 2 @ w, f_slope * g_slope @ w, f**2 @ w])


def values_and_slopes(function: Callable[[Any], Any]) -> Values:
    """φ(z) and φ'(z) of an array z of any shape, by one program that is compiled once."""
    both = jax.jit(lambda z: (function(z), jax.grad(lambda u: jnp.sum(function(u)))(z)))

    def values(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = -(-z.size // _AT_ONCE)
        filled = np.resize(z, (parts, _AT_ONCE))  # repeats z, so that no number comes in that is not asked for
        found = np.array([both(part) for part in filled])
        f, slope = found.swapaxes(0, 1).reshape(2, -1)[:, : z.size].reshape(2, *z.shape)
        return f, slope

    return values


@cache
def _rule(order: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = roots_hermitenorm(order)
    keep = weights > _NEGLIGIBLE * weights.sum()  # far nodes would only overflow the function
    return nodes[keep], weights[keep] / weights.sum()
