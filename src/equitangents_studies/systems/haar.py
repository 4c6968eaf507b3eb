"""Haar-distributed orthogonal matrices: Q of the decomposition QR of a Gaussian matrix, R with a positive diagonal."""

from __future__ import annotations

import numpy as np
import scipy.linalg.lapack
from jaxtyping import Float


def haar(rng: np.random.Generator, size: int) -> Float[np.ndarray, "size size"]:
    """One matrix of O(size), made in the memory of one matrix.

    Without the signs of R's diagonal, Q would have the distribution of the algorithm that makes it. Source: Mezzadri
    2007, How to generate random matrices from the classical compact groups.
    """
    matrix = rng.standard_normal((size, size)).T  # LAPACK's order, so that it can overwrite
    packed, scales, _, failed = scipy.linalg.lapack.dgeqrf(matrix, overwrite_a=1)
    assert failed == 0, failed
    signs = np.where(np.diagonal(packed) < 0, -1.0, 1.0)
    matrix, _, failed = scipy.linalg.lapack.dorgqr(packed, scales, overwrite_a=1)
    assert failed == 0, failed
    matrix *= signs
    return matrix


def haar_each(rng: np.random.Generator, count: int, size: int) -> Float[np.ndarray, "count size size"]:
    """`count` independent matrices of O(size)."""
    matrices, triangles = np.linalg.qr(rng.standard_normal((count, size, size)))
    signs = np.where(np.diagonal(triangles, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return matrices * signs[:, None, :]
