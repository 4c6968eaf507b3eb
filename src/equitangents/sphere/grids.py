"""Grids on the sphere with exact quadrature.

Rings of equal polar angle θ, each of n_φ equidistant azimuths φ_k = 2πk/n_φ; an integral is Σ_jk w_j f(θ_j, φ_k) with
Σ_jk w_j = 4π. Both rules integrate products of two functions of bandlimit B exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError
from equitangents.sphere.checks import check_bandlimit

KINDS = ("gauss-legendre", "driscoll-healy")


@dataclass(frozen=True, eq=False)
class SphereGrid:
    """Rings on the sphere; made by `gauss_legendre` or `driscoll_healy`.

    `theta` (n_θ,) and `phi` (n_φ,) in radians, `ring_weights` (n_θ,) the weight of each point of a ring.
    """

    kind: str
    bandlimit: int
    theta: Float[np.ndarray, " n_theta"]
    phi: Float[np.ndarray, " n_phi"]
    ring_weights: Float[np.ndarray, " n_theta"]

    @property
    def shape(self) -> tuple[int, int]:
        """Rings and points on each ring, (n_θ, n_φ)."""
        return len(self.theta), len(self.phi)

    @cached_property
    def points(self) -> Float[np.ndarray, "n_theta n_phi 3"]:
        """Unit vectors (sin θ cos φ, sin θ sin φ, cos θ)."""
        sine = np.sin(self.theta)[:, None]
        z = np.broadcast_to(np.cos(self.theta)[:, None], self.shape)
        return np.stack([sine * np.cos(self.phi), sine * np.sin(self.phi), z], axis=-1)

    @cached_property
    def weights(self) -> Float[np.ndarray, "n_theta n_phi"]:
        """Quadrature weights, which sum to 4π."""
        return np.broadcast_to(self.ring_weights[:, None], self.shape)


@lru_cache(maxsize=64)
def gauss_legendre(bandlimit: int) -> SphereGrid:
    """B rings at the Gauss–Legendre nodes of cos θ, from north to south, with 2B - 1 azimuths."""
    B = check_bandlimit("bandlimit", bandlimit)
    nodes, weights = np.polynomial.legendre.leggauss(B)
    n = 2 * B - 1
    return SphereGrid("gauss-legendre", B, np.arccos(nodes[::-1]), _azimuths(n), weights[::-1] * (2 * np.pi / n))


@lru_cache(maxsize=64)
def driscoll_healy(bandlimit: int) -> SphereGrid:
    """2B rings at θ_j = π(2j + 1)/(4B), with 2B azimuths (Driscoll & Healy 1994; the rings here avoid the poles)."""
    B = check_bandlimit("bandlimit", bandlimit)
    theta = np.pi * (2 * np.arange(2 * B) + 1) / (4 * B)
    k = np.arange(B)
    weights = 2 / B * np.sin(theta) * (np.sin(np.outer(theta, 2 * k + 1)) / (2 * k + 1)).sum(axis=1)
    return SphereGrid("driscoll-healy", B, theta, _azimuths(2 * B), weights * (2 * np.pi / (2 * B)))


def grid(kind: str, bandlimit: int) -> SphereGrid:
    """The grid of one of `KINDS`."""
    makers = dict(zip(KINDS, (gauss_legendre, driscoll_healy), strict=True))
    if kind not in makers:
        raise InvalidArgumentError("grid", kind, list(KINDS))
    return makers[kind](bandlimit)


def _azimuths(n: int) -> np.ndarray:
    return 2 * np.pi * np.arange(n) / n
