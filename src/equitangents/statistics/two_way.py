"""The mean of a table whose rows and columns are both samples, from the intervals of its row means and column means.

With row effects of variance σ²_r, column effects σ²_c and residuals σ²_e of an E × n table the mean has the variance
σ²_r/E + σ²_c/n + σ²_e/(En). The variance of row means over E holds σ²_r/E + σ²_e/(En), that of column means over n
σ²_c/n + σ²_e/(En): together they count the residuals twice, and σ̂²_e/(En) is taken off once. Distances to the ends of
both intervals add up as standard errors do (the method of variance estimates recovery, Zou & Donner 2008), so that
skewed, discrete and nearly constant sides keep the ends that such samples have alone.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.statistics.bootstrap import Bounds, interval_of_mean, within
from equitangents.statistics.student import FEWEST, binomial_ends

_SAME = 1e-14  # values that differ by less, relative to their size, are equal


def table_interval(
    table: Float[np.ndarray, "rows columns"],
    row_weights: Float[np.ndarray, "resamples rows"],
    column_weights: Float[np.ndarray, "resamples columns"],
    level: float,
    bounds: Bounds | None = None,
) -> tuple[float, float]:
    """The interval of the mean of all entries, which lie between `bounds`; (NaN, NaN) where there is none.

    There is none where rows or columns are fewer than 5, and none of equal entries unless both bounds are finite.
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
    ends = [math.sqrt(max(r * r + c * c - t * t * twice, r * r, c * c)) for r, c in zip(by_row, by_column, strict=True)]
    low, high = mean - ends[0], mean + ends[1]
    return within(low, high, bounds)


def _reach(means: np.ndarray, weights: np.ndarray, mean: float, level: float, nonnegative: bool) -> tuple[float, float]:
    """How far the interval of these means reaches below and above `mean`; not at all where all are equal."""
    low, high = interval_of_mean(means, weights, level, None, nonnegative)
    return (0.0, 0.0) if math.isnan(low) else (max(mean - low, 0.0), max(high - mean, 0.0))
