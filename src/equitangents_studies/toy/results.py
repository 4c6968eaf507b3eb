"""Predictions of both ensembles at every time, and how much a turn changes them.

A violation is f(gx) − f(x) for g ≠ e; sizes are root mean squares, in units of the true function's standard deviation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, exactly, surviving_share

_GROUPS = 10  # disjoint parts of the ensemble, over which the interval of its mean's change is


@dataclass(frozen=True, eq=False)
class Trained:
    """Predictions of one ensemble, with or without augmentation, at every time: orbits by region (T, M, |G|, N), those
    of infinite width (T, |G|, N), and what the page shows on the square and along a circle.
    """

    orbits: tuple[np.ndarray, np.ndarray]
    infinite_orbits: tuple[np.ndarray, np.ndarray]
    maps: dict[str, np.ndarray]
    circles: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Results:
    """Both ensembles at every time of `times`; `expected_violation` (T,) of the augmented one, one entry per region, is
    closed-form.
    """

    times: np.ndarray
    learning_rate: float
    train_x: np.ndarray
    augmented: Trained
    plain: Trained
    expected_violation: tuple[np.ndarray, np.ndarray]
    truth: dict[str, np.ndarray]
    scale: float

    def at(self, step: int) -> int:
        """The index of a training step."""
        return int(np.flatnonzero(self.times == step)[0])


def violations(trained: Trained, region: int) -> np.ndarray:
    """f(gx) − f(x) for g ≠ e, element 0: (T, M, |G| − 1, N)."""
    y = trained.orbits[region].astype(np.float64)
    return y[:, :, 1:] - y[:, :, :1]


def member_sizes(results: Results, region: int, step: int) -> np.ndarray:
    """Violation of every member, (M,)."""
    return np.sqrt((violations(results.augmented, region)[results.at(step)] ** 2).mean(axis=(1, 2))) / results.scale


def mean_size(results: Results, region: int, step: int) -> float:
    """Violation of the mean of all members."""
    d = violations(results.augmented, region)[results.at(step)].mean(axis=0)
    return float(np.sqrt((d**2).mean()) / results.scale)


def parts(results: Results, region: int, step: int) -> np.ndarray:
    """Violation of the mean of each of ten disjoint parts of the ensemble, over the root mean square of members'."""
    d = violations(results.augmented, region)[results.at(step)]
    size = len(d) // _GROUPS
    means = (
        d[: _GROUPS * size].reshape(_GROUPS, size, *d.shape[1:]).mean(axis=1) if size else np.full((1, 1, 1), np.nan)
    )
    return np.sqrt((means**2).mean(axis=(1, 2)) / (d**2).mean())


def surviving(results: Results, region: int, step: int, level: float) -> Estimate:
    """Share of the members' mean square violation that averaging ever more of them would leave, in percent."""
    d = violations(results.augmented, region)[results.at(step)]
    return surviving_share(d.reshape(len(d), -1), confidence=level).times(100)


def largest_change(results: Results, trained: Trained, region: int, step: int) -> Estimate:
    """The largest violation of the closed-form mean."""
    orbits = trained.infinite_orbits[region][results.at(step)]
    return exactly(np.abs(orbits - orbits[:1]).max() / results.scale)
