"""Harmonics of the plane and of space, with mean square 1 over all directions: mean h_J h_Kᵀ = δ_JK · 1.

In the plane 1, then √2 (cos Jφ, sin Jφ); in space √(4π) Y_J. They transform as the irrep J: h_J(gx) = ρ_J(g) h_J(x).
Functions of an offset are harmonics of its direction times `rings` of its length. Signals on directions,
f(x) = Σ_l h_l(x) · f_l, are sampled, and `Samples.analysis` recovers their coefficients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike
from equitangents.sphere.directions import within_range
from equitangents.sphere.harmonics import polynomials
from equitangents.sphere.transforms import gauss_legendre


def direction_harmonics(x: ArrayLike, largest: int) -> list[ArrayLike]:
    """h_0 .. h_largest at unit vectors x (..., 2) or (..., 3), each (..., d_J)."""
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


def directions_and_lengths(offset: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """(unit vectors, lengths) of vectors; (0, 0) for the zero vector, with zero derivatives there."""
    xp = jnp if isinstance(offset, jax.Array) else np
    offset, scale = within_range(offset)
    square = xp.sum(offset * offset, axis=-1)
    nonzero = square > 0
    length = xp.sqrt(xp.where(nonzero, square, 1))
    unit = xp.where(nonzero[..., None], offset / length[..., None], 0)
    return unit, xp.where(nonzero, length, 0) * scale[..., 0]


def rings(length: ArrayLike, radii: tuple[float, ...], width: float) -> ArrayLike:
    """Gaussian rings R_p(r) = exp(-(r - r_p)²/(2 w²)), the radial parts of kernels: (..., rings) at distances (...)."""
    xp = jnp if isinstance(length, jax.Array) else np
    centres = xp.asarray(radii, length.dtype)
    return xp.exp(-((length[..., None] - centres) ** 2) / (2 * width**2))


@dataclass(frozen=True, eq=False)
class Samples:
    """Points of the circle or the sphere, their weights w_s, and harmonics h_l there, each (points, d_l).

    The weights sum to 1, so that band-limited signals are recovered exactly if the points integrate products of
    harmonics exactly.
    """

    points: Float[np.ndarray, "points n"]
    weights: Float[np.ndarray, " points"]
    harmonics: tuple[np.ndarray, ...]

    @property
    def analysis(self) -> tuple[np.ndarray, ...]:
        """Matrices w_s h_l(x_s), (d_l, points), from values to coefficients."""
        return tuple((h * self.weights[:, None]).T for h in self.harmonics)


@lru_cache(maxsize=64)
def samples(space: int, resolution: int, largest: int) -> Samples:
    """`resolution` equidistant points of the circle, or that many rings of 2 · resolution - 1 points of the sphere.

    Products of harmonics of degrees l and l' are integrated exactly if l + l' is below `resolution` on the circle,
    below 2 · resolution - 1 on the sphere.
    """
    if space == 2:
        angle = 2 * np.pi * np.arange(resolution) / resolution
        points, weights = np.stack([np.cos(angle), np.sin(angle)], -1), np.full(resolution, 1 / resolution)
    else:
        grid = gauss_legendre(resolution)
        points, weights = grid.points.reshape(-1, 3), grid.weights.ravel() / (4 * np.pi)
    return Samples(points, weights, tuple(map(np.asarray, direction_harmonics(points, largest))))
