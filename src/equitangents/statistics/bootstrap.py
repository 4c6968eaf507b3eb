"""Intervals for means, and for functions of means, of independent samples: the studentised bootstrap.

The influence of a sample, U_i = (n − 1)(θ − θ without i), gives the standard error √(Σ U²/(n(n − 1))) of the full
sample and, with the same U, of every resample. The ends are those of `student`.

The interval of the mean of a table whose rows and columns are both samples comes from those of its row means and column
means. With row effects of variance σ²_r, column effects σ²_c and residuals σ²_e of an E × n table, the mean has the
variance σ²_r/E + σ²_c/n + σ²_e/(En). The variance of row means over E is σ²_r/E + σ²_e/(En), that of column means
over n σ²_c/n + σ²_e/(En): together they count the residuals twice, and σ̂²_e/(En) is subtracted once. Distances to the
ends of both intervals add in quadrature (the method of variance estimates recovery, Zou & Donner 2008), so that skewed,
discrete and nearly constant sides keep the ends of such samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.statistics.estimate import Estimate, check_resampling
from equitangents.statistics.student import FEWEST, binomial_ends, student_interval

RESAMPLES = 2000
Bounds = tuple[float, float]
_SAME = 1e-14  # values that differ by less, relative to their size, are equal
_KEPT = 2_000_000  # weights, 16 MB: those of larger resamples are drawn again


def bootstrap(
    samples: Float[np.ndarray, "n ..."],
    statistic: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    bounds: Bounds | None = None,
) -> Estimate:
    """`statistic` of the mean over the first axis (None: the mean itself), with its interval over that axis.

    `statistic` maps means `(B, *rest)` to `(B,)`: it is applied to all resampled means at once. `bounds`: the range of
    possible results. Fewer than 5 samples give no interval (NaN).
    """
    check_resampling(confidence, resamples, seed)
    samples = np.asarray(samples, dtype=np.float64)
    n = check_samples(samples)
    if statistic is None:
        if samples.ndim > 1:
            raise ShapeError(
                "samples",
                samples.shape,
                "(n,), or a statistic that makes a number of their mean",
                "bootstrap_intervals gives an interval to every column",
            )
        low, high = mean_interval(samples, confidence=confidence, resamples=resamples, seed=seed, bounds=bounds)
        return Estimate(float(samples.mean()), low, high, confidence)
    of = lambda means: np.asarray(statistic(means), dtype=np.float64)
    total = samples.sum(axis=0, keepdims=True)
    value = float(of(total / n)[0])
    if n < FEWEST:
        return Estimate(value, math.nan, math.nan, confidence)
    weights = resample(n, resamples, seed)
    resampled = of((weights @ samples.reshape(n, -1)).reshape(resamples, *samples.shape[1:]))
    influence = (n - 1) * (value - of((total - samples) / (n - 1)))
    finite = np.isfinite(influence).all() and np.isfinite(resampled).all()
    if not finite or _alike(influence, abs(value)):
        return Estimate(value, math.nan, math.nan, confidence)
    positive = bool((samples > 0).all() and (resampled > 0).all())
    span = (value + float(influence.min()), value + float(influence.max()))
    low, high = ends(value, influence, resampled, weights, confidence, positive, span)
    return Estimate(value, *within(low, high, bounds), confidence)


def mean_interval(
    values: Float[np.ndarray, " n"],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    bounds: Bounds | None = None,
) -> tuple[float, float]:
    """The interval of the mean of independent values; (NaN, NaN) if there is none.

    There is none for fewer than 5 values, or if all are equal, unless `bounds` give the range of possible values.

    >>> low, high = mean_interval(np.array([3.0, 1.0, 2.0, 5.0, 2.0, 4.0]))
    >>> low < 17 / 6 < high
    True
    """
    check_resampling(confidence, resamples, seed)
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1:
        raise ShapeError("values", values.shape, "(n,)")
    weights = resample(len(values), resamples, seed) if len(values) >= FEWEST else None
    return interval_of_mean(values, weights, confidence, bounds)


def bootstrap_intervals(
    samples: Float[np.ndarray, "n ..."],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    bounds: Bounds | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, low, high) of every column at once, equal to `bootstrap` of each column, with the same resamples."""
    check_resampling(confidence, resamples, seed)
    samples = np.asarray(samples, dtype=np.float64)
    n = check_samples(samples)
    weights = resample(n, resamples, seed) if n >= FEWEST else None
    columns = samples.reshape(n, -1).T
    both = np.array([interval_of_mean(column, weights, confidence, bounds) for column in columns])
    both = both.reshape(*samples.shape[1:], 2)
    return samples.mean(axis=0), both[..., 0], both[..., 1]


def interval_of_mean(
    values: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, "resamples n"] | None,
    level: float,
    bounds: Bounds | None,
    nonnegative: bool = False,
) -> tuple[float, float]:
    """As `mean_interval`, with the weights of resamples drawn before; None if there are too few values.

    nonnegative: whether values cannot be negative, if there are no bounds.
    """
    n = len(values)
    if n < FEWEST or weights is None or not np.isfinite(values).all():
        return math.nan, math.nan
    mean = float(values.mean())
    span = (float(values.min()), float(values.max()))
    if _alike(values - mean, max(map(abs, span))):
        known = bounds is not None and math.isfinite(bounds[0]) and math.isfinite(bounds[1])
        return within(*binomial_ends(mean, n, level, bounds), bounds) if known and bounds else (math.nan, math.nan)
    influence = values - mean
    resampled, known = mean + weights @ influence, nonnegative or (bounds is not None and bounds[0] >= 0)
    low, high = ends(mean, influence, resampled, weights, level, span[0] > 0, bounds or span, known)
    return within(low, high, bounds)


def ends(
    value: float,
    influence: np.ndarray,
    resampled: np.ndarray,
    weights: np.ndarray,
    level: float,
    positive: bool = False,
    span: Bounds = (-math.inf, math.inf),
    nonnegative: bool = False,
) -> tuple[float, float]:
    """The ends of `student_interval`, with standard errors of the statistic and its resamples from influences."""
    n = len(influence)
    centred = influence - influence.mean()
    size = float(np.abs(centred).max())
    scaled = centred / size  # squares and cubes stay in range
    error = size * math.sqrt(float(scaled @ scaled) / (n * (n - 1)))
    variance = np.maximum(weights @ scaled**2 - (weights @ scaled) ** 2, 0.0)
    return student_interval(
        value,
        error,
        samples=n,
        level=level,
        skew=float(np.sum(scaled**3)),
        resampled=resampled,
        errors=size * np.sqrt(variance / (n - 1)),
        positive=positive,
        nonnegative=nonnegative,
        span=span if all(map(math.isfinite, span)) else None,
    )


def resample(n: int, resamples: int, seed: int) -> Float[np.ndarray, "resamples n"]:
    """The weight of each of n samples in every resample; rows sum to 1. Read-only: calls share the array."""
    return _drawn(n, resamples, seed) if n * resamples <= _KEPT else _drawn.__wrapped__(n, resamples, seed)


@lru_cache(maxsize=4)  # a table of intervals asks for the same ones row after row
def _drawn(n: int, resamples: int, seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples) / n
    weights.setflags(write=False)
    return weights


def within(low: float, high: float, bounds: Bounds | None) -> Bounds:
    """The interval clipped to the bounds; NaN stays NaN."""
    if bounds is None or math.isnan(low) or math.isnan(high):
        return low, high
    return min(max(low, bounds[0]), bounds[1]), max(min(high, bounds[1]), bounds[0])


def check_samples(samples: np.ndarray) -> int:
    """The number of samples; raises InvalidArgumentError below 2."""
    n = len(samples)
    if n < 2:
        raise InvalidArgumentError("samples", n, f"at least {FEWEST} for an interval", verb="has length")
    return n


def _alike(deviations: np.ndarray, size: float) -> bool:
    return float(np.ptp(deviations)) <= _SAME * size


def table_interval(
    table: Float[np.ndarray, "rows columns"],
    row_weights: Float[np.ndarray, "resamples rows"],
    column_weights: Float[np.ndarray, "resamples columns"],
    level: float,
    bounds: Bounds | None = None,
) -> tuple[float, float]:
    """The interval of the mean of all entries, which lie between `bounds`; (NaN, NaN) if there is none.

    There is none for fewer than 5 rows or columns, or for equal entries unless both bounds are finite.
    """
    E, n = table.shape
    if min(E, n) < FEWEST or not np.isfinite(table).all():
        return math.nan, math.nan
    mean, size = float(table.mean()), float(np.abs(table).max())
    finite = bounds is not None and all(map(math.isfinite, bounds))
    if np.ptp(table) <= _SAME * size:
        return within(*binomial_ends(mean, max(E, n), level, bounds), bounds) if finite and bounds else (math.nan,) * 2
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    known = bounds is not None and bounds[0] >= 0
    sides = ((rows, row_weights), (columns, column_weights))
    by_row, by_column = (_reach(means, weights, mean, level, known) for means, weights in sides)
    residual = table - rows[:, None] - columns[None, :] + mean
    twice = float((residual**2).sum()) / ((E - 1) * (n - 1) * E * n)
    t = float(scipy.special.stdtrit((E - 1) * (n - 1), (1 + level) / 2))
    reach = [
        math.sqrt(max(r * r + c * c - t * t * twice, r * r, c * c)) for r, c in zip(by_row, by_column, strict=True)
    ]
    low, high = mean - reach[0], mean + reach[1]
    return within(low, high, bounds)


def _reach(means: np.ndarray, weights: np.ndarray, mean: float, level: float, nonnegative: bool) -> tuple[float, float]:
    """Distances from `mean` to the ends of the interval of these means; 0 if all are equal."""
    low, high = interval_of_mean(means, weights, level, None, nonnegative)
    return (0.0, 0.0) if math.isnan(low) else (max(mean - low, 0.0), max(high - mean, 0.0))
