"""Values of a Gaussian field at the sites of two inputs, with weights: for expectations of up to four factors.

Without positions there are two sites, and a rule for two dimensions is exact (kinks) or as good as exact (smooth
functions). With positions four sites occur together, for which there is no closed form: quasi-random draws.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from equitangents.errors import NetworkError
from equitangents.kernels.finite_width.nonlinearity import Law, gaussian_pairs, hermite_nodes

_ANGLES = 16  # nodes between two kinks: for products of four sines and cosines that is exact to rounding
_NODES = (40, 80, 160, 320)  # of Gauss and Hermite along each direction
_AGREES = 1e-9


def two_sites(law: Law, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (n, S, 2) and weights (n, S) for covariances (n, 2, 2).

    Of smooth functions with as many nodes as give F and G of their closed forms to 1e-9; NetworkError if none do.
    """
    k, q1, q2 = covariance[:, 0, 1], covariance[:, 0, 0], covariance[:, 1, 1]
    if law.kinked:
        return _polar(k, q1, q2)
    closed = np.stack(law.kernels(k, q1, q2))
    for count in _NODES:
        values, weights = _hermite(k, q1, q2, count)
        found = [
            np.einsum("ns,ns,ns->n", weights, of(values[..., 0]), of(values[..., 1])) for of in (law.value, law.slope)
        ]
        error = np.max(np.abs(found - closed) / (np.abs(closed).max(axis=1, keepdims=True) + 1e-300))
        if error <= _AGREES:
            return values, weights
    raise NetworkError(
        "layer",
        law.layer,
        "one whose expectations are known well enough for first-order statistics",
        "use a smaller W_std or smaller inputs",
    )


def _hermite(k: np.ndarray, q1: np.ndarray, q2: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = hermite_nodes(count)
    u, v = gaussian_pairs(k, q1, q2, x)
    values = np.stack([np.broadcast_to(u[:, :, None], v.shape), v], axis=-1).reshape((len(k), -1, 2))
    return values, np.broadcast_to(np.outer(w, w).ravel(), values.shape[:2])


def _polar(k: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In polar coordinates, with panels between the angles at which u or v changes its sign."""
    scale = np.sqrt(q1 * q2)
    angle = np.arccos(np.clip(np.divide(k, scale, out=np.zeros_like(k), where=scale > 0), -1, 1))
    cuts = (
        np.stack([0 * angle, angle, 0 * angle + math.pi, angle + math.pi, 0 * angle + 2 * math.pi], axis=1)
        - math.pi / 2
    )
    x, w = np.polynomial.legendre.leggauss(_ANGLES)
    half = np.diff(cuts, axis=1)[:, :, None] / 2
    turns = (cuts[:, :-1, None] + half * (1 + x)).reshape((len(k), -1))
    shares = (half * w).reshape((len(k), -1)) / (2 * math.pi)
    halves, radial = np.polynomial.laguerre.laggauss(4)  # r²/2 is exponential; degree 2 at most in it
    r = np.sqrt(2 * halves)
    u = np.sqrt(q1)[:, None, None] * np.cos(turns)[:, :, None] * r
    v = np.sqrt(q2)[:, None, None] * np.cos(turns - angle[:, None])[:, :, None] * r
    weights = shares[:, :, None] * radial
    return np.stack([u, v], axis=-1).reshape((len(k), -1, 2)), weights.reshape((len(k), -1))


def many_sites(covariance: np.ndarray, count: int, seed: int) -> np.ndarray:
    """`count` scrambled Sobol draws of N(0, covariance), (count, sites), the largest directions first."""
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(values)[::-1]
    factor = vectors[:, order] * np.sqrt(np.maximum(values[order], 0))
    kept = max(1, int(np.count_nonzero(values > 1e-14 * max(values.max(), 0))))
    return _normal(kept, count, seed) @ factor[:, :kept].T


@lru_cache(maxsize=4)
def _normal(sites: int, count: int, seed: int) -> np.ndarray:
    from scipy.stats import qmc  # takes half as long to import as all of `kernels`

    uniform = qmc.Sobol(sites, scramble=True, rng=np.random.default_rng(seed)).random(count)
    return np.asarray(ndtri(np.clip(uniform, 1e-15, 1 - 1e-15)))
