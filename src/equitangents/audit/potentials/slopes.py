"""Derivatives along directions by central differences of three steps, with Richardson's estimate of their error.

s(h) = s + a h² + b h⁴ + …,  fine (4 s(h) − s(2h))/3, coarse (4 s(2h) − s(4h))/3. The error of fine is at most
|fine − coarse| where the steps are small enough, so that s(h) − s(2h) is a quarter of s(2h) − s(4h); where they are
not, or rounding is what is seen, it is as large as what the steps change. Where that is too large the steps become
smaller, those of all directions at once, since of one alone an error is small by chance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_EXPECTED = 0.3
"""Steps whose differences fall by less are not small enough: a quarter is expected."""
_SMALLER = 4.0
_REFINED = 3

Slopes = Callable[[float], Float[np.ndarray, " directions"]]
"""Central differences of a step, along every direction."""


def slopes(
    s: Slopes, h: float, rounding: float, enough: float
) -> tuple[Float[np.ndarray, " directions"], float, float]:
    """Derivatives, the root mean square of their errors, and the step h, 2h, 4h of which they are taken.

    `rounding` is the error by rounding alone of a derivative of step h; smaller steps are tried while the error is
    above `enough` and rounding is not most of it.
    """
    best = None
    for _ in range(1 + _REFINED):
        found, error = _richardson(*(s(step) for step in (h, 2 * h, 4 * h)))
        if best is None or error + rounding < best[1]:
            best = (found, error + rounding, h)
        if error + rounding <= enough or not _SMALLER * rounding < error:
            break
        h, rounding = h / _SMALLER, _SMALLER * rounding
    return best


def _richardson(one: np.ndarray, two: np.ndarray, four: np.ndarray) -> tuple[np.ndarray, float]:
    fine, coarse = (4 * one - two) / 3, (4 * two - four) / 3
    small = np.abs(one - two) <= _EXPECTED * np.abs(two - four)
    return fine, rms(np.abs(fine - coarse) + np.where(small, 0.0, np.abs(one - two)))


def rms(values: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))
