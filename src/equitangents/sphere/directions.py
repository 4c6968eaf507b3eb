"""Zonal functions, of the angle to an axis, and signals composed of them: f(x) = Σ_j w_j g(x · r_j/|r_j|).

A profile v(cos ϑ) = Σ_l (2l + 1) v_l P_l(cos ϑ) has the Legendre coefficients v_l = ½ ∫ v(t) P_l(t) dt. The mean of a
signal over the window v around each point has the coefficients v_l c_lm (Funk–Hecke), if v_0 = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.sphere.harmonics import check_bandlimit, degrees, polynomials
from equitangents.validation import check_array, check_number

_NODES = 512  # of the Gauss–Legendre rule for profiles; at least four for each degree


def legendre_coefficients(profile: Callable[[Any], Any], bandlimit: int) -> Float[np.ndarray, " bandlimit"]:
    """v_l = ½ ∫ profile(t) P_l(t) dt for l < bandlimit, by Gauss–Legendre quadrature.

    Accurate to rounding for a smooth profile; kinks and jumps reduce the accuracy.

    >>> legendre_coefficients(lambda t: 1 + 3 * t, 3).round(12)
    array([1., 1., 0.])
    """
    bandlimit = check_bandlimit("bandlimit", bandlimit)
    if not callable(profile):
        raise InvalidTypeError("profile", profile, "a function of cosines")
    nodes, weights = np.polynomial.legendre.leggauss(max(_NODES, 4 * bandlimit))
    values = np.asarray(profile(nodes), np.float64)
    if values.shape not in (nodes.shape, ()) or not np.isfinite(values).all():
        raise InvalidArgumentError("profile", profile, "a function of cosines (n,) with finite values (n,)")
    legendre = np.polynomial.legendre.legvander(nodes, bandlimit - 1)
    return 0.5 * (weights * values) @ legendre


def from_directions(
    r: Float[ArrayLike, "n points 3"],
    weights: Float[ArrayLike, "n points channels"] | Float[ArrayLike, "n points"],
    bandlimit: int,
    width: float = 0.0,
) -> Float[ArrayLike, "n harmonics channels"]:
    """Coefficients Σ_j w_j exp(-l(l+1) width²/2) Y_lm(r_j/|r_j|) of deltas or Gaussian bumps around directions.

    Args:
        r: Vectors of any non-zero length; zero vectors must have weight zero.
        weights: One weight for each channel, (N, P, C), or a single channel (N, P).
        bandlimit: Degrees below it are kept; a delta's higher degrees are cut.
        width: Standard deviation in radians of the heat kernel; 0 for deltas. A bump of weight w has ∫ f = w.

    Returns:
        (N, B², C), differentiable in `r` and `weights` for JAX arrays.

    >>> from_directions(np.array([[[0.0, 0.0, 2.0]]]), np.ones((1, 1, 1)), 2)[0, :, 0].round(4)
    array([0.2821, 0.    , 0.4886, 0.    ])
    """
    bandlimit = check_bandlimit("bandlimit", bandlimit)
    single = width.item() if hasattr(width, "item") and np.ndim(width) == 0 else width
    check_number("width", single, "an angle in radians, at least 0", lambda angle: angle >= 0)
    l = np.arange(bandlimit)
    factors = np.exp(-l * (l + 1) * width**2 / 2)
    r = check_array("r", r, shape=(None, None, 3))
    weights = check_array("weights", weights, rank=(2, 3))
    if weights.shape[:2] != r.shape[:2]:
        raise ShapeError("weights", weights.shape, (*r.shape[:2], "channels"), "give one for each direction of r")
    if not precision.is_traced(r) and not precision.is_traced(weights):
        missing = (np.asarray(r) == 0).all(axis=-1)
        bad = np.argwhere(missing & np.asarray(weights).reshape((*missing.shape, -1)).any(axis=-1))
        if len(bad):
            at = tuple(bad[0].tolist())
            raise InvalidArgumentError("r", at, remedy="give it weight 0", verb="has no direction at index")
    dtype = precision.working_dtype(r, weights)
    with precision.scope(dtype):
        traced = isinstance(r, jax.Array) or isinstance(weights, jax.Array)
        xp = jnp if traced else np
        r, w = xp.asarray(r, dtype), xp.asarray(weights, dtype)
        w = w.reshape((*r.shape[:2], -1))
        r, _ = within_range(r)
        square = (r * r).sum(axis=-1, keepdims=True)
        unit = r / xp.sqrt(xp.where(square > 0, square, 1))
        scaled = polynomials(unit, bandlimit) * factors[degrees(bandlimit)].astype(dtype)
        if traced:
            return jnp.einsum("npk,npc->nkc", scaled, w, precision=jax.lax.Precision.HIGHEST)
        return np.einsum("npk,npc->nkc", scaled, w, optimize=True)


def within_range(r: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """(r/s, s) for vectors r (..., d) with s (..., 1): 1, unless the vector's squares leave the range of its dtype.

    Then s is the largest component. It has no derivatives, as directions do not depend on it.
    """
    traced = isinstance(r, jax.Array)
    xp, limits = jnp if traced else np, jnp.finfo(r.dtype)
    largest = xp.abs(jax.lax.stop_gradient(r) if traced else r).max(axis=-1, keepdims=True)
    fits = (largest > (limits.tiny / limits.eps) ** 0.5) & (largest < limits.max**0.5 / 2)
    s = xp.where(fits | (largest == 0), 1, largest)
    return r / s, s
