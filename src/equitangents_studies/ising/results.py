"""Predictions of members and in closed form on whole orbits, their distance, and how far orbits spread.

The relative orbit standard deviation is ‖std_g f‖ / ‖mean_g f‖, norms over the inputs of a set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from equitangents.statistics import Estimate, excess_exponent, log_ratio, second_moment_share, t_interval
from equitangents_studies.common.orbits import relative_std
from equitangents_studies.ising.settings import SETS, Settings


@dataclass(frozen=True, eq=False)
class Results:
    """Predicted energies, in units of their standard deviation, on orbits, by set of spins.

    `members[w][set]` is (T, M, |G|, N); `mean[set]` is μ_t, (T, |G|, N); `std[set]` is √Σ_t, (T, N);
    `predicted[set]` (T, groups, samples) holds the relative orbit std of ensembles drawn from GP(μ_t, Σ_t/M);
    `curve[set]` (T, sizes, 3) its 2.5 %, 50 % and 97.5 % quantiles for every M of `predicted_sizes`.
    """

    times: np.ndarray
    learning_rate: float
    truth: dict[str, np.ndarray]
    mean: dict[str, np.ndarray]
    std: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]
    members: dict[int, dict[str, np.ndarray]]
    curve: dict[str, np.ndarray] = field(default_factory=dict)

    def at(self, step: int) -> int:
        """The index of a training step."""
        return int(np.flatnonzero(self.times == step)[0])

    def errors(self, width: int, name: str, time: int) -> np.ndarray:
        """f_m − μ on every point of every orbit: (M, |G|·N)."""
        return (self.members[width][name][time].astype(np.float64) - self.mean[name][time]).reshape(
            len(self.members[width][name][time]), -1
        )


def measured_spread(results: Results, width: int, name: str, time: int, size: int) -> np.ndarray:
    """Relative orbit std of the mean of each disjoint group of `size` members."""
    y = results.members[width][name][time].astype(np.float64)
    groups = y[: len(y) // size * size].reshape(-1, size, *y.shape[1:]).mean(axis=1)
    return relative_std(groups)


def spread_ratio(
    settings: Settings, results: Results, width: int, name: str, time: int, size: int, level: float = 0.95
) -> Estimate:
    """Measured over predicted relative orbit std of ensembles of `size`: geometric means over groups and draws."""
    measured = measured_spread(results, width, name, time, size)
    predicted = results.predicted[name][time, settings.groups.index(size)]
    return log_ratio(measured, predicted, confidence=level)


def spread_by_block(settings: Settings, results: Results, width: int, name: str, time: int) -> np.ndarray:
    """Mean logarithm of the relative orbit std of means of M, of every disjoint block of the largest M members:
    (blocks, groups).
    """
    y, largest = results.members[width][name][time].astype(np.float64), max(settings.groups)
    y = y[: len(y) // largest * largest].reshape(-1, largest, *y.shape[1:])

    def of(m: int) -> np.ndarray:
        parts = y[:, : largest // m * m].reshape(len(y), -1, m, *y.shape[2:]).mean(axis=2)
        return np.log(relative_std(parts)).mean(axis=1)

    return np.stack([of(m) for m in settings.groups], axis=1)


def overall_ratio(
    settings: Settings, results: Results, width: int, steps: Sequence[int], names: Sequence[str] = SETS
) -> Estimate:
    """`spread_ratio`'s geometric mean over steps, sets and all M; the interval is over blocks of members."""
    cells = [(name, results.at(step)) for name in names for step in steps]
    measured = np.mean([spread_by_block(settings, results, width, *cell).mean(axis=1) for cell in cells], axis=0)
    with np.errstate(divide="ignore"):  # a spread of 0 has no ratio: not a number
        predicted = np.mean([np.log(results.predicted[name][time]).mean(axis=0) for name, time in cells], axis=0)
    return log_ratio(np.exp(measured), np.exp(predicted))


def falls(settings: Settings, results: Results, width: int, names: Sequence[str]) -> tuple[Estimate, float]:
    """The spread of means of the most members over that of single ones after the last step, geometric mean over sets,
    with its interval over blocks of members; and the same of the closed form.
    """
    most, one = settings.groups.index(max(settings.groups)), settings.groups.index(min(settings.groups))
    change = lambda logs: logs[..., most] - logs[..., one]
    found = t_interval(np.mean([change(spread_by_block(settings, results, width, name, -1)) for name in names], axis=0))
    predicted = [change(np.log(results.predicted[name][-1]).mean(axis=-1)) for name in names]
    value, low, high = (float(np.exp(end)) for end in (found.value, found.low, found.high))
    measured = Estimate(value, low, high, found.level)
    return measured, float(np.exp(np.mean(predicted)))


def share_left(results: Results, width: int, time: int) -> Estimate:
    """Squared distance of the ensemble's mean to μ over the mean square prediction of one network, mean over sets."""
    outputs = {name: results.members[width][name][time].astype(np.float64) for name in SETS}
    sizes = {name: np.sqrt((y**2).mean()) for name, y in outputs.items()}
    joined = lambda of: np.concatenate([of(name) / sizes[name] for name in SETS], axis=1)
    errors = joined(lambda name: results.errors(width, name, time))
    return second_moment_share(errors, joined(lambda name: outputs[name].reshape(len(outputs[name]), -1)))


def distance_exponent(settings: Settings, results: Results, name: str) -> Estimate:
    """Exponent of the distance between the ensemble's mean and μ against width, after the last step.

    Weighted least squares on logarithms. What each member adds to the unbiased squared distance U of M members is
    2 d_m · (mean of the others' d) − U, d its distance to μ: its mean is U, its spread that of U (Hoeffding 1948).
    """
    widths, parts = sorted(settings.widths), []
    for width in widths:
        d = results.errors(width, name, -1)
        products = (d @ d.sum(axis=0) - (d**2).sum(axis=1)) / ((len(d) - 1) * d.shape[1])
        parts.append(2 * products - products.mean())
    return excess_exponent(np.array(widths, dtype=float), parts).times(0.5)
