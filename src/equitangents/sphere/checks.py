"""Checks of bandlimits and coefficients, shared by everything on the sphere."""

from __future__ import annotations

import math
from typing import Any

from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.validation import check_array

MAX_BANDLIMIT = 256  # transforms are dense; far beyond what kernels can use


def check_bandlimit(name: str, value: object) -> int:
    """A whole number from 1 to MAX_BANDLIMIT."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidTypeError(name, value, "a whole number")
    number = int(value)
    if not 1 <= number <= MAX_BANDLIMIT:
        raise InvalidArgumentError(name, number, range(1, MAX_BANDLIMIT + 1))
    return number


def bandlimit_of(name: str, shape: tuple[int, ...], axis: int = -2) -> int:
    """The bandlimit B for an array of this shape that holds B² coefficients along `axis`."""
    bandlimit = math.isqrt(shape[axis])
    if bandlimit * bandlimit != shape[axis]:
        raise ShapeError(name, shape, "(N, B², C)", "the number of coefficients is not a square")
    return bandlimit


def check_coefficients(name: str, c: ArrayLike) -> tuple[Any, int]:
    """(c, B) if c are harmonic coefficients (N, B², C)."""
    c = check_array(name, c, rank=3)
    return c, bandlimit_of(name, c.shape)
