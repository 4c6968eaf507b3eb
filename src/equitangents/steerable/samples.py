"""Signals on directions, sampled: f(x) = Σ_l h_l(x) · f_l at points x_s of the circle or the sphere, and back.

Rows of `analysis` are w_s h_l(x_s), w_s quadrature weights that sum to 1, so that bandlimited signals come back as
they were if the points integrate products of harmonics exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from equitangents.sphere.grids import gauss_legendre
from equitangents.steerable.harmonics import direction_harmonics


@dataclass(frozen=True, eq=False)
class Samples:
    """Points of the circle or the sphere, their weights, and harmonics h_l there, each (points, d_l)."""

    points: Float[np.ndarray, "points n"]
    weights: Float[np.ndarray, " points"]
    harmonics: tuple[np.ndarray, ...]

    @property
    def analysis(self) -> tuple[np.ndarray, ...]:
        """The harmonics times the weights, (d_l, points): from values to coefficients."""
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
    return Samples(points, weights, tuple(direction_harmonics(points, largest)))
