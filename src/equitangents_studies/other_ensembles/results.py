"""Changes of every kind of ensemble under turns, and how they shrink as an ensemble grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, power_law, surviving_share
from equitangents_studies.common.infinite import squares_of_means
from equitangents_studies.other_ensembles.dependent_ensembles import nested_means
from equitangents_studies.other_ensembles.settings import Settings

DRAWS = 10  # independent sets of resampled copies


@dataclass(frozen=True, eq=False)
class Results:
    """`closed[kind]` is the largest relative change of (mean, covariance) over orbits, in closed form; `changes[kind]`
    are f(gx) − f(x): (M, values) of independent members, (sizes or stages, runs, values) of the kinds of one run.
    `broken` is that of the mean for `DRAWS` independent sets of resampled copies.
    """

    closed: dict[str, np.ndarray]
    changes: dict[str, np.ndarray]
    broken: np.ndarray


def squares(settings: Settings, results: Results, kind: str) -> np.ndarray:
    """Mean square change of ensembles of every size of `sizes`, one row per independent batch or run."""
    changes = results.changes[kind].astype(np.float64)
    if kind == "boosted":
        return (changes[np.array(settings.sizes) - 1] ** 2).mean(axis=-1).T
    if kind == "snapshots":
        return nested_means(changes, settings.sizes)
    return squares_of_means(changes, settings.sizes)


def share(results: Results, kind: str, level: float = 0.95) -> Estimate:
    """Share of the mean square change that averaging ever more independent members or runs would leave."""
    changes = results.changes[kind].astype(np.float64)
    if kind == "snapshots":
        changes = changes.mean(axis=0)
    elif kind == "boosted":
        changes = changes[-1]
    return surviving_share(changes, confidence=level)


def exponent(settings: Settings, results: Results, kind: str, level: float = 0.95) -> Estimate:
    """The exponent of the root mean square change against the size of one ensemble."""
    return power_law(np.array(settings.sizes), squares(settings, results, kind), confidence=level)
