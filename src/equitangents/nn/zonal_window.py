"""Zonal windows: a weight for every angle to the pole.

v(cos ϑ) = Σ_l (2l + 1) v_l P_l(cos ϑ) ≥ 0 with v_0 = 1, so that the mean of v over the sphere is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.rotations.program import FULL, Zonal
from equitangents.sphere.zonal import legendre_coefficients

_DEGREES = 64  # at most
_TAIL = 1e-6  # the largest coefficient beyond them that still counts as smooth
_TRIM = 1e-12  # trailing coefficients below are dropped
_NEGATIVE = 1e-4  # of the largest value, by which a truncated series may dip below zero


@dataclass(frozen=True)
class ZonalWindow:
    """A window given by its Legendre coefficients, the first of which is 1; `zonal_window` makes it."""

    coefficients: tuple[float, ...]

    @property
    def op(self) -> Zonal:
        """The window's operation on fields on the sphere."""
        return FULL if len(self.coefficients) == 1 else Zonal(FrozenArray(np.array(self.coefficients)))

    def values(self, cosine: Float[np.ndarray, " *shape"]) -> Float[np.ndarray, " *shape"]:
        """v at cosines of the polar angle; negative values of the series count as zero."""
        l = np.arange(len(self.coefficients))
        series = np.polynomial.legendre.legval(cosine, (2 * l + 1) * np.array(self.coefficients))
        return np.maximum(series, 0)


FULL_WINDOW = ZonalWindow((1.0,))


ZonalWindowLike = ZonalWindow | str | Callable[[jax.Array], ArrayLike] | Sequence[float] | np.ndarray


def zonal_window(window: ZonalWindowLike) -> ZonalWindow:
    """`window` as a ZonalWindow: "full", a profile (a function of the cosine), or Legendre coefficients."""
    if isinstance(window, ZonalWindow):
        return window
    if isinstance(window, str) and window == "full":
        return FULL_WINDOW
    if callable(window):
        return _from_profile(window)
    try:
        numbers = np.asarray(window, np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros((0, 0))
    if numbers.ndim != 1 or not numbers.size:
        raise InvalidTypeError(
            "window", window, "'full', a function of the cosine of the polar angle, or its Legendre coefficients"
        )
    return _from_coefficients(numbers)


def _from_profile(profile: Callable[[jax.Array], ArrayLike]) -> ZonalWindow:
    numbers = legendre_coefficients(profile, _DEGREES + 8)
    _check_mean(numbers)
    tail = float(np.abs(numbers[_DEGREES:]).max()) / float(numbers[0])
    if tail > _TAIL:
        raise InvalidArgumentError(
            "window",
            tail,
            "a smooth profile, below 1e-6",
            "round its edge, or give coefficients",
            verb="has relative Legendre coefficients beyond degree 63 up to",
        )
    return _from_coefficients(numbers[:_DEGREES])


def _check_mean(numbers: Float[np.ndarray, " degrees"]) -> None:
    if not np.isfinite(numbers).all() or numbers[0] <= 1e-12 * np.abs(numbers).max():
        raise InvalidArgumentError("window must have finite Legendre coefficients, and a positive mean")


def _from_coefficients(numbers: Float[np.ndarray, " degrees"]) -> ZonalWindow:
    _check_mean(numbers)
    numbers = numbers / numbers[0]
    last = int(np.flatnonzero(np.abs(numbers) > _TRIM).max())
    cosines = np.cos(np.linspace(0, np.pi, 1024))
    l = np.arange(last + 1)
    values = np.polynomial.legendre.legval(cosines, (2 * l + 1) * numbers[: last + 1])
    if values.min() < -_NEGATIVE * values.max():
        raise InvalidArgumentError("window", float(values.min()), "weights of at least zero", verb="has the weight")
    return ZonalWindow(tuple(numbers[: last + 1].tolist()))
