"""E[f(u, v)] of two Gaussian variables where series in their correlation are too long: φ is a step at their scale.

The lines u = 0 and v = 0 part the plane into sectors, of angle π - θ where u and v are of one sign and θ where not. In
each, at radius R and angle x from one line, |u| = √q1 R sin x and |v| = √q2 R sin(α - x); R, and x from both lines, go
through panels that shrink fourfold toward zero, which resolve φ at any scale about zero. Sums of φ(u)² and φ(v)², and
of their derivatives, over the same nodes have to be the moments of one variable: that checks each pair at its angle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.kernels.duals.geometry import safe_sqrt
from equitangents.kernels.duals.line import panels, values_and_slopes

_SHRINKS = 14  # panels, each a quarter of the one before
_NEAR = 1e-2  # of |u|: smaller differences of φ are integrals of φ', by Simpson's rule
_COARSE, _FINE = 9, 14  # nodes in a panel
_ACCURATE = 1e-8  # tolerance that takes the finer rule


class Sums(NamedTuple):
    """E[(aφ(u) - φ(v)/a)²], E[φφ], E[φ'φ'], and E[φ²] of u and of v, E[φ'²] of u and of v."""

    distance: Any
    product: Any
    slope: Any
    squares: tuple[Any, Any]
    steepness: tuple[Any, Any]


@cache
def _rule(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(R, weights; x as a share of the sector, the rest of it, weights)."""
    shrinking = np.concatenate([[0.0], 4.0 ** np.arange(-_SHRINKS, 0)])
    edges = np.concatenate([shrinking, np.arange(1.0, 10.0)])
    radius, w = panels(edges, np.full(len(edges) - 1, count))
    w = w * radius * np.exp(-(radius**2) / 2) / (2 * np.pi)
    edges = np.concatenate([shrinking, [0.5]])
    share, v = panels(edges, np.full(len(edges) - 1, count))
    return (
        radius,
        w,
        np.concatenate([share, 1 - share[::-1]]),
        np.concatenate([1 - share, share[::-1]]),
        np.append(v, v[::-1]),
    )


def sums(function: Callable[[Any], Any], tolerance: float, s: Any, q1: Any, q2: Any, a: Any) -> Sums:
    """`Sums` of one pair, with sin²(θ/2) = s."""
    rule = _rule(_FINE if tolerance < _ACCURATE else _COARSE)
    radius, weights, share, rest, shares = (jnp.asarray(part, s.dtype) for part in rule)
    half_sine, half_cosine = safe_sqrt(s), safe_sqrt(1 - s)
    theta = 2 * jnp.arctan2(half_sine, jnp.where(s < 1, half_cosine, 0))
    root1, root2 = safe_sqrt(q1), safe_sqrt(q2)
    gap = (q1 - q2) / jnp.where(root1 + root2 > 0, root1 + root2, 1)

    def at(total: Any, node: tuple[Any, Any]) -> tuple[Any, None]:
        r, w = node
        for same in (True, False):
            angle = jnp.pi - theta if same else theta
            # sin x - sin y of x + y = angle, without cancellation where u and v are nearly equal
            apart = 2 * (half_sine if same else half_cosine) * jnp.sin(angle * (share - rest) / 2)
            x, y = jnp.sin(angle * share), jnp.sin(angle * rest)
            for sign in (1, -1):
                u, v = sign * root1 * r * x, (sign if same else -sign) * root2 * r * y
                between = sign * r * (gap * x + root2 * apart) if same else u - v
                f, f_slope = values_and_slopes(function, u)
                g, g_slope = values_and_slopes(function, v)
                difference = f - g
                if same:
                    _, middle = values_and_slopes(function, v + between / 2)
                    mean_slope = (f_slope + 4 * middle + g_slope) / 6
                    difference = jnp.where(jnp.abs(between) < _NEAR * jnp.abs(v), between * mean_slope, difference)
                distance = (a * difference + (a - 1 / a) * g) ** 2
                terms = jnp.stack([distance, f * g, f_slope * g_slope, f**2, g**2, f_slope**2, g_slope**2])
                total = total + w * angle * (terms @ shares)
        return total, None

    total, _ = jax.lax.scan(jax.checkpoint(at), jnp.zeros(7, s.dtype), (radius, weights))
    return Sums(total[0], total[1], total[2], (total[3], total[4]), (total[5], total[6]))
