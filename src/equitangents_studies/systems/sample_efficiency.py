"""Sample-efficiency ratios: the factor in samples at equal errors, from two learning curves at the same sizes.

log f = mean over errors E that both curves reach of log n₀(E) − log n₁(E), with sizes interpolated on logarithms; or
that difference at one error, the smallest that both reach: what the better curve saves of the largest training set.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from equitangents.statistics import Estimate, no_interval, t_interval

_EQUAL = 1e-6  # below which the logarithm of a factor is rounding
_LEVELS = 33  # errors at which curves are compared


def log_factor(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float:
    """log f: the first curve needs f times the samples of the second. NaN if no error is on both curves. A curve that
    rises in places is treated as constant there.

    >>> n = np.array([10.0, 20, 40, 80])
    >>> round(float(np.exp(log_factor(n, 1 / n, 1 / (3 * n)))), 6)
    3.0
    """
    a, b = _falling(first), _falling(second)
    if a is None or b is None:
        return float("nan")
    low, high = max(a[-1], b[-1]), min(a[0], b[0])
    if not low < high:
        return float("nan")
    levels = low + (high - low) * (np.arange(_LEVELS) + 0.5) / _LEVELS
    at = [np.interp(-levels, -_strict(curve), np.log(sizes)) for curve in (a, b)]
    return float(np.mean(at[0] - at[1]))


def log_factor_at_end(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float:
    """log f at the smallest error that both curves reach, the worse one with its largest training set.

    If the better curve starts below that error, its smallest training set is used. NaN if an error is not positive.

    >>> n = np.array([10.0, 20, 40, 80])
    >>> round(float(np.exp(log_factor_at_end(n, 1 / n, 1 / (3 * n)))), 6)
    3.0
    """
    a, b = _falling(first), _falling(second)
    if a is None or b is None:
        return float("nan")
    sign, better, level = (1, b, a[-1]) if a[-1] >= b[-1] else (-1, a, b[-1])
    needed = np.interp(-level, -_strict(better), np.log(sizes))
    log = float(np.log(sizes[-1]) - needed)
    return sign * log if log > _EQUAL else 0.0


def jackknifed(log: float, without: Float[np.ndarray, " parts"], level: float) -> Estimate:
    """exp of `log` with Student's interval of pseudo-values; `without` leaves out one sample or part at a time."""
    if len(without) < 2 or not (math.isfinite(log) and np.isfinite(without).all()):
        return no_interval(math.exp(log), level)
    change = t_interval((len(without) - 1) * (without.mean() - without), level)
    return Estimate(math.exp(log), math.exp(log + change.low), math.exp(log + change.high), level)


def measured_factor(
    sizes: Float[np.ndarray, " sizes"],
    first: Float[np.ndarray, "sizes repetitions"],
    second: Float[np.ndarray, "sizes repetitions"],
    level: float,
    log: Callable[..., float] = log_factor,
) -> Estimate:
    """f of the mean errors of curves that share their training sets, with its jackknife interval over repetitions."""
    rows = np.arange(first.shape[1])
    of = lambda kept: log(sizes, first[:, kept].mean(axis=1), second[:, kept].mean(axis=1))
    return jackknifed(of(rows), np.array([of(rows != r) for r in rows]), level)


def _falling(errors: np.ndarray) -> np.ndarray | None:
    """Running minimum of log errors; None if an error is not positive."""
    return np.minimum.accumulate(np.log(errors)) if (errors > 0).all() else None


def _strict(falling: np.ndarray) -> np.ndarray:
    """Make a curve strictly decreasing by negligible steps, so that it has an inverse."""
    return falling - 1e-12 * np.arange(len(falling))
