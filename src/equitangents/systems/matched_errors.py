"""How many times as many samples one learning curve needs as another for the same errors.

log f = mean over errors E that both curves reach of log n₀(E) − log n₁(E), with sizes interpolated on logarithms.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

_LEVELS = 33  # errors at which curves are compared


def log_factor(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float:
    """log f: the first curve needs f times the samples of the second. NaN where no error is on both curves.

    A curve that rises in places is taken to fall there not at all.

    >>> n = np.array([10.0, 20, 40, 80])
    >>> round(float(np.exp(log_factor(n, 1 / n, 1 / (3 * n)))), 6)
    3.0
    """
    if not ((first > 0).all() and (second > 0).all()):
        return float("nan")
    a, b = (np.minimum.accumulate(np.log(errors)) for errors in (first, second))
    low, high = max(a[-1], b[-1]), min(a[0], b[0])
    if not low < high:
        return float("nan")
    levels = low + (high - low) * (np.arange(_LEVELS) + 0.5) / _LEVELS
    at = [np.interp(-levels, -_strict(curve), np.log(sizes)) for curve in (a, b)]
    return float(np.mean(at[0] - at[1]))


def bound(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float:
    """What f is known to exceed where all errors of one curve are below all of the other; negative: 1/f exceeds it."""
    span = float(sizes[-1] / sizes[0])
    return span if second.max() <= first.min() else -span


def _strict(falling: np.ndarray) -> np.ndarray:
    """Falling everywhere, by steps too small to matter, so that it has an inverse."""
    return falling - 1e-12 * np.arange(len(falling))
