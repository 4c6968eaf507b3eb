"""Zonal functions and filters: functions of the angle to an axis.

A profile v(cos ϑ) = Σ_l (2l + 1) v_l P_l(cos ϑ) has the Legendre coefficients v_l = ½ ∫ v(t) P_l(t) dt; the mean of a
signal over the window that v makes around each point has coefficients v_l c_lm (Funk–Hecke), for v_0 = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.sphere.checks import check_bandlimit, check_coefficients
from equitangents.sphere.harmonics import degrees
from equitangents.validation import check_array

_NODES = 512  # of the Gauss–Legendre rule for profiles; at least four for each degree


def legendre_coefficients(profile: Callable[[Any], Any], bandlimit: int) -> Float[np.ndarray, " bandlimit"]:
    """v_l = ½ ∫ profile(t) P_l(t) dt for l < bandlimit, by Gauss–Legendre quadrature.

    A smooth profile is integrated to rounding; a kink or a jump costs digits.

    >>> legendre_coefficients(lambda t: 1 + 3 * t, 3).round(12)
    array([1., 1., 0.])
    """
    bandlimit = check_bandlimit("bandlimit", bandlimit)
    if not callable(profile):
        raise InvalidTypeError("profile", profile, "a function of cosines")
    nodes, weights = np.polynomial.legendre.leggauss(max(_NODES, 4 * bandlimit))
    values = np.asarray(profile(nodes), np.float64)
    if values.shape not in (nodes.shape, ()) or not np.isfinite(values).all():
        raise InvalidArgumentError("profile must map cosines (n,) to finite values (n,)")
    legendre = np.polynomial.legendre.legvander(nodes, bandlimit - 1)
    return 0.5 * (weights * values) @ legendre


def zonal_filter(
    c: Float[ArrayLike, "n harmonics channels"], coefficients: Float[ArrayLike, " bandlimit"]
) -> Float[ArrayLike, "n harmonics channels"]:
    """Signals convolved with a zonal function: c_lm ↦ v_l c_lm.

    Args:
        c: Coefficients (N, B², C).
        coefficients: v_l for l < B, as of `legendre_coefficients`; fewer count as zeros.
    """
    c, bandlimit = check_coefficients("c", c)
    v = check_array("coefficients", coefficients, rank=1)
    if len(v) > bandlimit:
        raise ShapeError("coefficients", len(v), range(1, bandlimit + 1), "the signals have no more", verb="has length")
    padded = np.zeros(bandlimit)
    padded[: len(v)] = np.asarray(v)
    with precision.scope(c.dtype):
        factors = padded[degrees(bandlimit)].astype(c.dtype)[:, None]
        return jax.numpy.asarray(factors) * c if isinstance(c, jax.Array) else factors * c
