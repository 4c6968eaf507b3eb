"""Harmonics of the plane and of space, with mean square 1 over all directions: mean h_J h_Kᵀ = δ_JK · 1.

In the plane 1, then √2 (cos Jφ, sin Jφ); in space √(4π) Y_J. They turn as the irrep J: h_J(gx) = ρ_J(g) h_J(x).
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.sphere.harmonics import polynomials


def direction_harmonics(x: ArrayLike, largest: int) -> list[Any]:
    """h_0 .. h_largest of unit vectors x (..., 2) or (..., 3), each (..., d_J)."""
    xp = jnp if isinstance(x, jax.Array) else np
    if x.shape[-1] == 3:
        values = math.sqrt(4 * math.pi) * polynomials(x, largest + 1)
        return [values[..., J * J : (J + 1) ** 2] for J in range(largest + 1)]
    cosine, sine = xp.ones_like(x[..., 0]), xp.zeros_like(x[..., 0])
    found = [cosine[..., None]]
    for _ in range(largest):
        cosine, sine = x[..., 0] * cosine - x[..., 1] * sine, x[..., 0] * sine + x[..., 1] * cosine
        found.append(math.sqrt(2) * xp.stack([cosine, sine], axis=-1))
    return found


def directions_and_lengths(offset: Any) -> tuple[Any, Any]:
    """(unit vectors, lengths) of vectors; (0, 0) of the zero vector, with derivatives 0 there."""
    xp = jnp if isinstance(offset, jax.Array) else np
    square = xp.sum(offset * offset, axis=-1)
    there = square > 0
    length = xp.sqrt(xp.where(there, square, 1))
    unit = xp.where(there[..., None], offset / length[..., None], 0)
    return unit, xp.where(there, length, 0)
