"""The mean of a few numbers, each itself a mean over many inputs, with Student's interval."""

from __future__ import annotations

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.statistics.estimate import Estimate, no_interval
from equitangents.statistics.settings import check_confidence


def t_interval(
    values: Float[np.ndarray, " n"], confidence: float = 0.95, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Estimate:
    """mean ± t s/√n over what was repeated, kept within `bounds`; none for a single value, and where all are equal.

    Each value is itself a mean, or a paired difference of means, over many inputs, so that Student's t holds for as few
    as five.

    >>> found = t_interval(np.array([0.01, 0.02, 0.03]))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.02, -0.005, 0.045)
    """
    check_confidence(confidence)
    values = np.asarray(values, np.float64)
    n, mean = len(values), float(values.mean())
    if n < 2 or not np.ptp(values) > 1e-14 * np.abs(values).max():
        return no_interval(mean, confidence)
    width = float(scipy.special.stdtrit(n - 1, (1 + confidence) / 2) * values.std(ddof=1) / n**0.5)
    return Estimate(mean, max(mean - width, bounds[0]), min(mean + width, bounds[1]), confidence)


paired_mean = t_interval  # as it was called where the values are differences
