"""Real spherical harmonics, orthonormal over the sphere: ∫ Y_lm Y_l'm' dx = δ_ll' δ_mm'.

Y_lm = N_lm P_l^|m|(cos θ) · {√2 cos mφ (m > 0), 1 (m = 0), √2 sin |m|φ (m < 0)}, without the Condon–Shortley sign, at
the index l² + l + m. At a unit vector (x, y, z): Y_0 = 1/√(4π) and Y_1 = √(3/4π) (y, z, x).

They are computed as polynomials in x, y, z by the three-term recursion in l, which is stable, smooth at the poles, and
differentiable as often as wanted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike
from equitangents.errors import ShapeError
from equitangents.validation import check_array, check_whole

MAX_BANDLIMIT = 256  # transforms are dense; far beyond what kernels can use


def check_bandlimit(name: str, value: object) -> int:
    """The value as an integer from 1 to MAX_BANDLIMIT; raises otherwise."""
    return check_whole(name, value, 1, MAX_BANDLIMIT)


def bandlimit_of(name: str, shape: tuple[int, ...], axis: int = -2) -> int:
    """The bandlimit B of an array with this shape that holds B² coefficients along `axis`."""
    bandlimit = math.isqrt(shape[axis])
    if bandlimit * bandlimit != shape[axis]:
        raise ShapeError(name, shape, "(N, B², C)", "the number of coefficients is not a square")
    return bandlimit


def check_coefficients(name: str, c: ArrayLike) -> tuple[Any, int]:
    """(c, B) for harmonic coefficients c (N, B², C); raises otherwise."""
    c = check_array(name, c, rank=3)
    return c, bandlimit_of(name, c.shape)


def harmonics(x: Float[ArrayLike, "*batch 3"], bandlimit: int) -> Float[ArrayLike, "*batch harmonics"]:
    """All Y_lm with l < bandlimit at the unit vectors x.

    Args:
        x: Unit vectors; others give the polynomials' values there, which are not harmonics. NumPy or JAX.
        bandlimit: Degrees l = 0 .. bandlimit - 1.

    Returns:
        Values at index l² + l + m along the last axis, in the precision and the library of `x`.

    Raises:
        ShapeError: if the last axis is not of length 3.

    >>> harmonics(np.array([0.0, 0.0, 1.0]), 2).round(4)
    array([0.2821, 0.    , 0.4886, 0.    ])
    """
    bandlimit = check_bandlimit("bandlimit", bandlimit)
    x = check_array("x", x, min_rank=1, allow_empty=True)
    if x.shape[-1] != 3:
        raise ShapeError("x", x.shape, "vectors (..., 3)")
    return polynomials(x, bandlimit)


@overload
def polynomials(x: np.ndarray, bandlimit: int) -> np.ndarray: ...
@overload
def polynomials(x: ArrayLike, bandlimit: int) -> ArrayLike: ...
def polynomials(x: ArrayLike, bandlimit: int) -> ArrayLike:
    """Spherical harmonics as in `harmonics`, for checked directions."""
    xp = jnp if isinstance(x, jax.Array) else np
    u, v, z = x[..., 0], x[..., 1], x[..., 2]
    values: list[Any] = [None] * bandlimit**2
    cosine, sine = xp.ones_like(z), xp.zeros_like(z)  # Re and Im of (x + iy)^m = sin^m θ e^{imφ}
    for m in range(bandlimit):
        if m:
            cosine, sine = u * cosine - v * sine, u * sine + v * cosine
        for l, legendre in enumerate(_legendre(z, m, bandlimit), start=m):
            values[l * l + l + m] = legendre * cosine
            if m:
                values[l * l + l - m] = legendre * sine
    return xp.stack(values, axis=-1)


def _legendre(z: ArrayLike, m: int, bandlimit: int) -> Iterator[ArrayLike]:
    """N_lm P_l^m(z) / sin^m θ for l = m, m + 1, ..., including the factor √2."""
    start = math.sqrt((2 if m else 1) / (4 * math.pi)) * math.prod(
        math.sqrt((2 * k + 1) / (2 * k)) for k in range(1, m + 1)
    )
    before, now = 0 * z, 0 * z + start
    for l in range(m, bandlimit):
        yield now
        a = math.sqrt((4 * (l + 1) ** 2 - 1) / ((l + 1) ** 2 - m * m))
        b = math.sqrt((l * l - m * m) / (4 * l * l - 1)) if l else 0.0
        before, now = now, a * (z * now - b * before)


@lru_cache(maxsize=64)
def degrees(bandlimit: int) -> np.ndarray:
    """The degree l of every index l² + l + m, (bandlimit²,), read-only."""
    l = np.repeat(np.arange(bandlimit), 2 * np.arange(bandlimit) + 1)
    l.flags.writeable = False
    return l
