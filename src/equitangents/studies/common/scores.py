"""The mean of a table of scores, one row a repetition, one column an input, with its interval."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from equitangents.statistics import Estimate, bootstrap
from equitangents.statistics.bootstrap import RESAMPLES, resample
from equitangents.statistics.student import FEWEST
from equitangents.statistics.two_way import table_interval


def table_mean(table: Float[np.ndarray, "repetitions n"], bounds: tuple[float, float], level: float = 0.95) -> Estimate:
    """Over inputs and repetitions; over inputs alone with fewer than 5 repetitions, and where all of them are alike.

    Example:
        >>> found = table_mean(np.array([[0.0, 1.0, 1.0, 0.0, 1.0, 1.0]] * 5) + 0.1 * np.arange(5)[:, None], (0, 2))
        >>> round(found.value, 3), found.low < 0.6, found.high > 1
        (0.867, True, True)
    """
    R, n = table.shape
    if R >= FEWEST and np.ptp(table.mean(axis=1)) > 1e-12:
        low, high = table_interval(table, resample(R, RESAMPLES, 1), resample(n, RESAMPLES, 0), level)
        if np.isfinite(low) and np.isfinite(high):
            return Estimate(float(table.mean()), max(low, bounds[0]), min(high, bounds[1]), level)
    return bootstrap(table.mean(axis=0), level=level, bounds=bounds)


def covered(repetitions: int, name: str) -> str:
    """What such intervals are over: "inputs", and the repetitions, by their name, where there are enough of them.

    >>> covered(5, "ensembles"), covered(4, "ensembles")
    ('inputs and ensembles', 'inputs')
    """
    return f"inputs and {name}" if repetitions >= FEWEST else "inputs"
