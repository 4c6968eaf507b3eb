"""Matrices on the last axis of arrays, for finite and continuous groups."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.errors import ShapeError
from equitangents.validation import check_array

TOLERANCE = 1e-8  # by which M(g) M(h) and M(g·h) may differ, relative to the largest entry


def check_last_axis(x: ArrayLike, ranks: tuple[int, ...] | None, d: int, name: str) -> ArrayLike:
    """`x` as an array of one of `ranks` (any from 2 on if None) whose last axis has d entries."""
    x = check_array("x", x, rank=ranks, min_rank=2)
    if x.shape[-1] != d:
        raise ShapeError("x", x.shape, (..., d), name)
    return x


def multiply(subscripts: str, x: ArrayLike, M: ArrayLike) -> ArrayLike:
    """An einsum of signals x with matrices M, in the type and precision of x."""
    if isinstance(x, np.ndarray):
        return np.einsum(subscripts, x, M.astype(x.dtype), optimize=True)
    # the default precision of matrix products on GPUs would spoil a representation
    return jnp.einsum(subscripts, x, jnp.asarray(M, x.dtype), precision=jax.lax.Precision.HIGHEST)
