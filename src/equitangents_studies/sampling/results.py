"""What the sampling study measures in closed form, and ratios of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, bootstrap, log_ratio
from equitangents_studies.sampling.trained_results import TrainedEnsembles

SETS = ("test", "noise")


@dataclass(frozen=True, eq=False)
class Results:
    """By strategy, arrays (budgets, draws, times, sets): `violation`, root mean square change over orbits relative to
    the prediction, and `distance` from the complete ensemble's mean, relative to it. `complete` (times, sets) is the
    violation of the complete one. `trained` are the trained ensembles, None where they were left out.
    """

    times: np.ndarray
    violation: dict[str, np.ndarray]
    distance: dict[str, np.ndarray]
    complete: np.ndarray
    trained: TrainedEnsembles | None = None


def compared(results: Results, a: str, b: str, budget: int, time: int, name: int, level: float = 0.95) -> Estimate:
    """Violation of one way over that of another: geometric means over draws (one value where nothing is drawn)."""
    first, second = (results.violation[s][budget, :, time, name] for s in (a, b))
    if len(first) == 1:
        return bootstrap(np.log(second), lambda m: first[0] / np.exp(m), confidence=level)
    return log_ratio(first, second, confidence=level)
