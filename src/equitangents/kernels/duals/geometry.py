"""The angle between two Gaussian variables, from their squared distance, without cancellation.

sin²(θ/2) = (d - (√q1 - √q2)²) / (4 √(q1 q2)), where cos θ = k / √(q1 q2).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp


def safe_sqrt(x: Any) -> Any:
    """√x, with derivative 0 in place of infinity at x = 0; negative rounding errors count as 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def root_gap(q1: Any, q2: Any) -> Any:
    """(√q1 - √q2)², computed from the difference of the variances so that near-equal ones do not cancel."""
    total = safe_sqrt(q1) + safe_sqrt(q2)
    return (q1 - q2) ** 2 / jnp.where(total > 0, total, 1) ** 2


def half_angle(d: Any, q1: Any, q2: Any) -> tuple[Any, Any, Any]:
    """(s, r, g) = (sin²(θ/2), √(q1 q2), (√q1 - √q2)²); where a variance vanishes the angle is taken as π/2."""
    r = safe_sqrt(q1) * safe_sqrt(q2)
    g = root_gap(q1, q2)
    positive = r > 0
    s = jnp.where(positive, (d - g) / jnp.where(positive, 4 * r, 1), 0.5)
    # jnp.clip would halve the derivative where s is exactly 0 or 1.
    s = jnp.where(s < 0, 0, s)
    s = jnp.where(s > 1, 1, s)
    return s, r, g


def angle(s: Any) -> Any:
    """θ from s = sin²(θ/2); the derivative at the kink θ = 0, and at θ = π, is set to 0."""
    inner = (s > 0) & (s < 1)
    theta = 2 * jnp.arcsin(jnp.sqrt(jnp.where(inner, s, 0.5)))
    return jnp.where(inner, theta, jnp.where(s >= 1, jnp.pi, 0.0).astype(theta.dtype))
