"""The mean of a table whose rows and columns are both samples: resampled independently (Owen 2007)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from equitangents.statistics.student import student_interval


def table_interval(
    table: Float[np.ndarray, "rows columns"],
    row_weights: Float[np.ndarray, "resamples rows"],
    column_weights: Float[np.ndarray, "resamples columns"],
    level: float,
) -> tuple[float, float]:
    """The interval of the mean of all entries; (NaN, NaN) where rows or columns are too few or all entries equal.

    The standard error is √(var of row means / rows + var of column means / columns), an upper bound.
    """
    E, n = table.shape
    if min(E, n) < 2 or not np.isfinite(table).all() or np.ptp(table) <= 1e-14 * np.abs(table).max():
        return math.nan, math.nan
    by_row, by_column = column_weights @ table.T, row_weights @ table
    means = (by_row * row_weights).sum(axis=1)
    spread = lambda values, weights: np.maximum((values**2 * weights).sum(axis=1) - means**2, 0.0)
    squares = spread(by_row, row_weights) / (E - 1) + spread(by_column, column_weights) / (n - 1)
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    own = rows.var(ddof=1) / E + columns.var(ddof=1) / n
    mean = float(table.mean())
    third = lambda values: float(((values - mean) ** 3).mean()) / len(values) ** 2
    return student_interval(
        mean,
        math.sqrt(float(own)),
        samples=min(E, n),
        level=level,
        skew=third(rows) + third(columns),
        resampled=means,
        errors=np.sqrt(squares),
        positive=bool((rows > 0).all() and (columns > 0).all()),
    )
