"""White-noise filters on the sphere and on rotations, by their coefficients.

A filter of independent values κ(x) with weights √v(x) has coefficients of covariance ∫ v(x) Y_i(x) Y_j(x) dx: that is
all a network of bandlimited signals sees of it. So its parameters are as many standard normals as there are
coefficients, multiplied by the symmetric root of that covariance. Networks and their tangent kernels have the same
distribution as with one parameter for each point, whatever the grid.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from equitangents.groups import MatrixGroup, so3
from equitangents.groups.rotation_group import RotationGroup
from equitangents.nn.zonal_window import ZonalWindow
from equitangents.sphere import gauss_legendre
from equitangents.sphere.harmonics import polynomials
from equitangents.sphere.wigner import wigner


@lru_cache(maxsize=32)
def wigner_basis(group: RotationGroup | MatrixGroup, bandlimit: int) -> np.ndarray:
    """Wigner functions D^l_mn(R) at the group's rotations, (order, Σ_l (2l + 1)²), all (l, m, n) side by side."""
    return np.concatenate([d.reshape(group.order, -1) for d in wigner(group.matrices, bandlimit)], axis=1)


def blocks(bandlimit: int) -> list[slice]:
    """Where the entries of each degree lie in a row of `wigner_basis`."""
    ends = np.cumsum([0, *((2 * l + 1) ** 2 for l in range(bandlimit))])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


@lru_cache(maxsize=32)
def sphere_root(window: ZonalWindow, bandlimit: int) -> np.ndarray:
    """The root of ∫ v Y_i Y_j dx/4π, (B², B²)."""
    degree = 2 * (bandlimit - 1) + len(window.coefficients) - 1
    grid = gauss_legendre(degree // 2 + 1)
    points = grid.points.reshape(-1, 3)
    weights = grid.weights.ravel() / (4 * np.pi) * window.values(points[:, 2])
    Y = polynomials(points, bandlimit)
    return _root(Y.T @ (weights[:, None] * Y))


@lru_cache(maxsize=32)
def rotation_root(window: ZonalWindow, bandlimit: int) -> np.ndarray:
    """The root of ∫ v(n·Sn) D_i(S) D_j(S) dS, for all entries of D^l with l < bandlimit.

    Sn, n the pole, has the polar angle of S; the integral couples entries of equal orders alone.
    """
    degree = 2 * (bandlimit - 1) + len(window.coefficients) - 1
    group = so3(degree // 2 + 1)
    D = wigner_basis(group, bandlimit)
    weights = group.weights * window.values(group.matrices[:, 2, 2])
    return _root(D.T @ (weights[:, None] * D))


def _root(covariance: Float[np.ndarray, "*stack d d"]) -> Float[np.ndarray, "*stack d d"]:
    """The symmetric root of a covariance; eigenvalues below rounding count as zero."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
