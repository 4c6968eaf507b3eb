"""Interpolation by B-splines of order 0 to 5 on a grid, as linear maps that do not depend on the signal.

The spline Σ_k c_k β(x − k) takes the values f_k at the grid points if B c = f, B_ik = β(i − k), with the signal
mirrored about its first and last point. Evaluation at a point uses order + 1 coefficients along each axis.
Source: Unser, "Splines: a perfect fit for signal and image processing", 1999.

Fast rotation of many images: one spline filter, then one sparse matrix per angle. A rotation by more than 45° is a
quarter turn, which moves pixels to pixels, after a smaller rotation: C₂₄ needs five matrices.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import comb, factorial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from equitangents._types import ArrayLike

Outside = Literal["zero", "edge"]

_SLACK = 1e-9  # of a pixel: far more than rounding moves a point, far less than anyone means


def basis(order: int, x: np.ndarray) -> np.ndarray:
    """The centred B-spline β of `order` at x: (1/n!) Σ_k (−1)^k C(n+1, k) (x + (n+1)/2 − k)₊ⁿ."""
    if order == 0:
        return ((x >= -0.5) & (x < 0.5)).astype(float)
    # evaluated on the left half, where few terms are not zero: no cancellation, and exactly symmetric
    x = -np.abs(x) + (order + 1) / 2
    terms = [(-1) ** k * comb(order + 1, k) * np.maximum(x - k, 0) ** order for k in range((order + 1) // 2 + 1)]
    return sum(terms) / factorial(order)


def mirrored(i: np.ndarray, n: int) -> np.ndarray:
    """The grid point of index i if 0 .. n − 1 is mirrored about both ends."""
    if n == 1:
        return np.zeros_like(i)
    i = np.mod(i, 2 * n - 2)
    return np.minimum(i, 2 * n - 2 - i)


@lru_cache(maxsize=64)
def prefilter(order: int, n: int) -> Float[np.ndarray, "n n"]:
    """B⁻¹: the matrix that takes n values to their spline coefficients."""
    B = np.zeros((n, n))
    points = np.arange(n)
    for offset in range(-(order // 2), order // 2 + 1):
        np.add.at(B, (points, mirrored(points + offset, n)), basis(order, np.array(float(offset))))
    inverse = np.linalg.inv(B)
    inverse.flags.writeable = False
    return inverse


def taps(order: int, x: np.ndarray, n: int) -> tuple[Int[np.ndarray, "taps points"], Float[np.ndarray, "taps points"]]:
    """Indices and weights of the spline coefficients of an axis of length n that give the value at x."""
    # halfway between two points a reading of order 0 takes all of the second one, whatever the rounding
    first = np.floor(x + 0.5 * (1 - order % 2) + (_SLACK if order == 0 else 0.0)).astype(int) - order // 2
    index = first + np.arange(order + 1)[:, None]
    weights = np.ones(index.shape) if order == 0 else basis(order, x - index)
    return mirrored(index, n), weights


def rotated_taps(
    angle: float, order: int, positions: tuple[int, int], outside: Outside = "zero"
) -> tuple[Int[np.ndarray, "taps pixels"], Float[np.ndarray, "taps pixels"]]:
    """Flat indices and weights of the spline coefficients for an image rotated counter-clockwise by `angle`.

    (ρ(g) f)(p) = f(g⁻¹ p) about the centre. Points from outside are zero, or take the nearest border value.
    """
    H, W = positions
    i, j = np.indices(positions).reshape(2, -1)
    y, x = i - (H - 1) / 2, j - (W - 1) / 2
    c, s = np.cos(angle), np.sin(angle)
    # rows count downwards: a counter-clockwise rotation of the picture reads at the clockwise rotated point
    u, v = c * y + s * x + (H - 1) / 2, -s * y + c * x + (W - 1) / 2
    # points on the border stay inside whatever the rounding
    inside = (outside == "edge") | (u >= -_SLACK) & (u <= H - 1 + _SLACK) & (v >= -_SLACK) & (v <= W - 1 + _SLACK)
    index, weights = point_taps(order, np.clip(u, 0, H - 1), np.clip(v, 0, W - 1), positions)
    return index, weights * inside


def point_taps(
    order: int, u: np.ndarray, v: np.ndarray, positions: tuple[int, int]
) -> tuple[Int[np.ndarray, "taps points"], Float[np.ndarray, "taps points"]]:
    """Flat indices and weights of an image's spline coefficients that give the values at points (u, v) inside it."""
    H, W = positions
    (rows, row_weights), (columns, column_weights) = taps(order, u, H), taps(order, v, W)
    index, weights = rows[:, None] * W + columns, row_weights[:, None] * column_weights
    return index.reshape(-1, len(u)), weights.reshape(-1, len(u))


def read_taps(c: ArrayLike, index: np.ndarray, weights: np.ndarray) -> ArrayLike:
    """Values (N, points, C) from coefficients c (N, H, W, C), in the dtype of c."""
    xp = np if isinstance(c, np.ndarray) else jnp
    flat = c.reshape(len(c), -1, c.shape[-1])
    return sum(flat[:, i] * xp.asarray(w[:, None], c.dtype) for i, w in zip(index, weights, strict=True))


def spline_coefficients(x: ArrayLike, order: int) -> ArrayLike:
    """Spline coefficients of images (N, H, W, C), NumPy or JAX."""
    F, E = (prefilter(order, n).astype(x.dtype if x.dtype.kind == "f" else np.float64) for n in x.shape[1:3])
    if isinstance(x, np.ndarray):
        return np.einsum("ai,nijc,bj->nabc", F, x, E, optimize=True)
    return jnp.einsum("ai,nijc,bj->nabc", F, x, E, precision=jax.lax.Precision.HIGHEST)


def rotated_images(
    x: np.ndarray, motions: Sequence[tuple[float, bool]], order: int, mask: str | None, outside: Outside = "zero"
) -> Iterator[np.ndarray]:
    """For every (degrees, reflected): x (N, H, W, C), reflected left to right or not, then rotated counter-clockwise.

    (ρ(g) f)(p) = f(g⁻¹ p) about the centre, zero outside; outside="edge" takes the nearest border value instead.
    """
    coefficients: dict[bool, np.ndarray] = {}
    for degrees, reflected in motions:
        start = x[:, :, ::-1] if reflected else x
        quarters = int(np.floor(degrees / 90 + 0.5))
        rest = float(degrees - 90 * quarters)
        y = start
        if rest:
            if reflected not in coefficients:
                coefficients[reflected] = _coefficients(start, order)
            c = coefficients[reflected]
            y = _matrix(rest, order, x.shape[1:3], c.dtype.char, outside) @ c
            y = np.moveaxis(y.reshape(*x.shape[1:3], len(x), x.shape[3]), 2, 0)
        y = np.rot90(y, quarters, axes=(1, 2))
        yield y if mask is None else y * disc(x.shape[1:3])[..., None].astype(y.dtype)


def _coefficients(x: np.ndarray, order: int) -> np.ndarray:
    """Spline coefficients, (pixels, N·C)."""
    c = spline_coefficients(x, order)
    return np.ascontiguousarray(np.moveaxis(np.asarray(c), 0, 2).reshape(x.shape[1] * x.shape[2], -1))


_MOST = 2**26  # bytes of the matrices used last, all angles together; for large images each takes megabytes
_KEPT: OrderedDict[tuple[object, ...], scipy.sparse.csr_matrix] = OrderedDict()


def _matrix(*key: Any) -> scipy.sparse.csr_matrix:
    """`_rotation_matrix` of these arguments, cached; safe if several threads ask at once."""
    made = _KEPT.pop(key, None)
    _KEPT[key] = made = _rotation_matrix(*key) if made is None else made
    while len(_KEPT) > 1 and sum(map(_nbytes, list(_KEPT.values()))) > _MOST:
        _KEPT.popitem(last=False)
    return made


def _rotation_matrix(
    degrees: float, order: int, positions: tuple[int, int], dtype: str, outside: Outside
) -> scipy.sparse.csr_matrix:
    """Matrix (pixels, coefficients) from spline coefficients to the rotated image."""
    index, weights = rotated_taps(np.radians(degrees), order, positions, outside)
    taps, pixels = index.shape
    starts = np.arange(0, taps * pixels + 1, taps, dtype=np.int32 if taps * pixels < 2**31 else np.int64)
    entries = weights.T.astype(dtype).ravel(), index.T.astype(starts.dtype).ravel(), starts
    return scipy.sparse.csr_matrix(entries, shape=(pixels, pixels))


def _nbytes(matrix: scipy.sparse.csr_matrix) -> int:
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)


def disc(positions: tuple[int, ...]) -> np.ndarray:
    """Mask of the pixels in the inscribed disc about the image's centre."""
    H, W = positions
    i, j = np.indices((H, W))
    return (2 * i - H + 1) ** 2 + (2 * j - W + 1) ** 2 <= (min(H, W) - 1) ** 2
