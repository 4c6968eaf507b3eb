"""The mean of a table of scores, one row a repetition, one column an input, with its interval."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from equitangents.statistics import FEWEST, Estimate, bootstrap, paired_mean


def table_mean(table: Float[np.ndarray, "repetitions n"], bounds: tuple[float, float], level: float = 0.95) -> Estimate:
    """Student's t over the repetitions' means on these inputs, from 5 repetitions on that are not all alike.

    Each is a mean over many inputs, so that t holds for as few as five. Otherwise over inputs, of these repetitions.

    Example:
        >>> found = table_mean(np.array([[0.0, 1.0, 1.0, 0.0, 1.0, 1.0]] * 5) + 0.1 * np.arange(5)[:, None], (0, 2))
        >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
        (0.867, 0.67, 1.063)
    """
    if len(table) >= FEWEST:
        found = paired_mean(table.mean(axis=1), level, bounds)
        if found.has_interval:
            return found
    return bootstrap(table.mean(axis=0), confidence=level, bounds=bounds)


def covered(repetitions: int, name: str) -> str:
    """What such intervals are over: the repetitions, by their name, where there are enough of them, or "inputs".

    >>> covered(5, "ensembles"), covered(4, "ensembles")
    ('ensembles, on these inputs', 'inputs')
    """
    return f"{name}, on these inputs" if repetitions >= FEWEST else "inputs"
