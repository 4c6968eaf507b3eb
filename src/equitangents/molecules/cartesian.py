"""Cartesian tensors as harmonics: vectors are of degree 1, symmetric matrices of degrees 0 and 2."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from equitangents.sphere.harmonics import polynomials

DEGREES = {1: (1,), 2: (0, 2)}
"""The degrees that tensors of a rank are made of."""


@lru_cache(maxsize=8)
def basis(rank: int, degree: int) -> Float[np.ndarray, "d components"]:
    """Orthonormal tensors of a rank that turn as the harmonics of a degree, (2l + 1, 3) or (2l + 1, 9)."""
    if rank == 1:
        return np.eye(3)[[1, 2, 0]]  # Y_1 is proportional to (y, z, x)
    # x ↦ xᵀ S x is a harmonic of degree 2, or constant on the sphere; S follows from enough points.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    squares = (x[:, :, None] * x[:, None, :]).reshape(64, 9)
    values = polynomials(x, 3)[:, degree**2 : (degree + 1) ** 2]
    found = np.linalg.lstsq(squares, values, rcond=None)[0].T
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def components(tensors: Float[np.ndarray, n * shape], degree: int) -> Float[np.ndarray, "n d"]:
    """The part of a degree of vectors (N, 3) or symmetric matrices (N, 3, 3)."""
    return tensors.reshape(len(tensors), -1) @ basis(tensors.ndim - 1, degree).T
