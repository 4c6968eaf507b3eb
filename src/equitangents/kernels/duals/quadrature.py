"""Dual of any elementwise function by Gauss–Hermite quadrature in two dimensions.

u = √q1 (cos(θ/2) z1 + sin(θ/2) z2), v = √q2 (cos(θ/2) z1 - sin(θ/2) z2) with z1, z2 independent standard normals:
the rule is symmetric under exchange of u and v, and E[(φ(u)-φ(v))²] is summed directly, without cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import roots_hermitenorm

from equitangents.kernels.duals.geometry import half_angle, safe_sqrt

_NEGLIGIBLE = 1e-18  # weights below this, relative to their sum, are left out


@dataclass(frozen=True)
class Quadrature:
    """`function` applied elementwise, integrated with `order` nodes in each of the two directions."""

    function: Callable[[Any], Any]
    order: int

    @cached_property
    def _rule(self) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = roots_hermitenorm(self.order)
        keep = weights > _NEGLIGIBLE * weights.sum()  # far nodes would only overflow the function
        return nodes[keep], weights[keep] / weights.sum()

    @cached_property
    def _plane_rule(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        nodes, weights = self._rule
        product = np.outer(weights, weights)
        i, j = np.nonzero(product > _NEGLIGIBLE)
        return nodes[i], nodes[j], product[i, j]

    def pair(self, d: Any, q1: Any, q2: Any) -> tuple[Any, Any]:
        """Squared distance after φ, and E[φ'φ']."""
        s, _, _ = half_angle(d, q1, q2)
        equal = s == 0
        # sin(θ/2) has no derivative at 0, the sums have: they are even in it. So step off 0 by less than rounding.
        tiny = 1e-16 if s.dtype == jnp.float64 else 1e-8
        s = jnp.where(s < tiny, s + tiny, s)
        a, b = jnp.sqrt(1 - jnp.where(s < 1, s, 0)) * (s < 1), jnp.sqrt(s)
        r1, r2 = safe_sqrt(q1), safe_sqrt(q2)
        z1, z2, w = (jnp.asarray(part, s.dtype) for part in self._plane_rule)
        slope = jax.grad(lambda z: jnp.sum(self.function(z)))

        def add(sums: tuple[Any, Any], node: tuple[Any, Any, Any]) -> tuple[tuple[Any, Any], None]:
            x, y, weight = node
            u, v = r1 * (a * x + b * y), r2 * (a * x - b * y)
            distance = sums[0] + weight * (self.function(u) - self.function(v)) ** 2
            return (distance, sums[1] + weight * slope(u) * slope(v)), None

        zero = jnp.zeros(jnp.broadcast_shapes(s.shape, r1.shape, r2.shape), s.dtype)
        (distance, derivative), _ = jax.lax.scan(jax.checkpoint(add), (zero, zero), (z1, z2, w))
        distance = distance - jax.lax.stop_gradient(jnp.where(equal & (q1 == q2), distance, 0))
        return distance, derivative

    def moments(self, q: Any) -> tuple[Any, Any]:
        """E[φ(u)²] and E[φ(u)]."""
        nodes, weights = self._rule
        root = safe_sqrt(q)
        square, mean = jnp.zeros_like(q), jnp.zeros_like(q)
        for z, w in zip(nodes, weights, strict=True):
            value = self.function(root * z)
            square, mean = square + w * value**2, mean + w * value
        return square, mean

    def error(self, variances: np.ndarray) -> float:
        """Largest relative change of E[φ²] and E[φ'²] over `variances` when the rule is doubled."""
        finer = Quadrature(self.function, 2 * self.order)
        worst = 0.0
        for q in variances:
            values = []
            for rule in (self, finer):
                nodes, weights = rule._rule
                u = jnp.asarray(np.sqrt(q) * nodes)
                slopes = jax.vmap(jax.grad(lambda z: jnp.sum(self.function(z))))(u)
                values.append(
                    (float(weights @ np.asarray(self.function(u)) ** 2), float(weights @ np.asarray(slopes) ** 2))
                )
            for coarse, fine in zip(*values, strict=True):
                worst = max(worst, abs(coarse - fine) / max(abs(fine), 1e-300))
        return worst
