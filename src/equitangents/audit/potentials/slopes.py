"""Derivatives along directions by central differences of some steps, with Richardson's estimate of their error.

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

Slopes = Callable[[float], Float[np.ndarray, "directions ..."]]
"""Central differences of a step, along every direction."""


def slopes(
    s: Slopes, h: float, rounding: float, enough: float, steps: int = 3, of_size: bool = False
) -> tuple[np.ndarray, float, float]:
    """Derivatives, the root mean square of their errors (norms, of vectors), and the smallest step of which they are.

    `rounding` is the error by rounding alone of a derivative of step h; smaller steps are tried while the error is
    above `enough` (`of_size`: times the derivatives' own size) and rounding is not most of it. With two steps, h and
    2h, the error of s(h) stands for that of fine.
    """
    best = (np.empty(0), np.inf, h)
    for _ in range(1 + _REFINED):
        found, error = _richardson([s(h * 2**k) for k in range(steps)])
        if not best[1] <= error + rounding:
            best = (found, error + rounding, h)
        limit = enough * rms(_norms(found)) if of_size else enough
        if error + rounding <= limit or not _SMALLER * rounding < error:
            break
        h, rounding = h / _SMALLER, _SMALLER * rounding
    return best


def _richardson(s: list[np.ndarray]) -> tuple[np.ndarray, float]:
    fine, change = (4 * s[0] - s[1]) / 3, _norms(s[0] - s[1])
    if len(s) == 2:
        return fine, rms(change)
    small = change <= _EXPECTED * _norms(s[1] - s[2])
    return fine, rms(_norms(fine - (4 * s[1] - s[2]) / 3) + np.where(small, 0.0, change))


def _norms(a: np.ndarray) -> np.ndarray:
    return np.sqrt((a.reshape(len(a), -1) ** 2).sum(axis=1))


def rms(values: np.ndarray) -> float:
    """The root mean square of all entries."""
    return float(np.sqrt(np.mean(np.square(values))))
