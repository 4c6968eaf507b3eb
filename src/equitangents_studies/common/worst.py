"""The largest of a few violations, and how large a further one may be: for laws that must hold for every input."""

from __future__ import annotations

import numpy as np
import scipy.stats
from jaxtyping import Float

from equitangents.statistics import Estimate


def largest(values: Float[np.ndarray, " n"], level: float = 0.95) -> Estimate:
    """The largest of independent positive values; the interval reaches up to where a further one may lie.

    That upper end is Student's prediction limit of the logarithms, exp(mean + t s √(1 + 1/n)). The lower end is the
    largest value itself: one violation that was seen is enough. One value, or one that is not positive, gives no
    interval.

    Example:
        >>> found = largest(np.array([0.01, 0.02, 0.015, 0.01]))
        >>> found.value == found.low, 0.02 < found.high < 0.1
        (True, True)
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    top, n = float(values.max()), len(values)
    if n < 2 or not (np.isfinite(values).all() and values.min() > 0):
        return Estimate(top, np.nan, np.nan, level)
    logs = np.log(values)
    t = scipy.stats.t.ppf((1 + level) / 2, n - 1)
    limit = logs.mean() + t * logs.std(ddof=1) * (1 + 1 / n) ** 0.5
    return Estimate(top, top, max(top, float(np.exp(min(limit, 700.0)))), level)
