"""Numbers with intervals: the bootstrap over inputs or members, and the jackknife of squared means.

An ensemble's mean of M members is never exactly invariant: sampling leaves 1/M of the members' variance. What is
tested is the mean over infinitely many members, whose squared size the U-statistic below estimates without bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number and its confidence interval at `level`."""

    value: float
    low: float
    high: float
    level: float = 0.95

    @property
    def interval(self) -> tuple[float, float]:
        """(low, high)."""
        return (self.low, self.high)

    def times(self, factor: float) -> Estimate:
        """The same number in other units; `factor` is positive."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high, self.level)


def exactly(value: float) -> Estimate:
    """A number that no sampling enters."""
    return Estimate(float(value), float(value), float(value))


def shared_level(tests: int, level: float = 0.95) -> float:
    """The level at which each of `tests` intervals must stand so that all hold together at `level` (Bonferroni)."""
    return 1 - (1 - level) / max(tests, 1)


def bootstrap(
    samples: Float[np.ndarray, "n ..."],
    statistic: Callable[[np.ndarray], np.ndarray] = lambda means: means,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """`statistic` of the mean over the first axis, with its percentile interval under resampling of that axis.

    `statistic` maps means `(B, *rest)` to `(B,)`: it is applied to all resampled means at once.
    """
    samples = np.asarray(samples, dtype=np.float64)
    n = len(samples)
    if n < 2:
        raise InvalidArgumentError(f"{n} samples were given; an interval needs at least 2")
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    means = (counts @ samples.reshape(n, -1) / n).reshape(resamples, *samples.shape[1:])
    draws = np.asarray(statistic(means), dtype=np.float64)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(statistic(samples.mean(axis=0, keepdims=True))[0]), float(low), float(high), level)


def squared_mean(deviations: Float[np.ndarray, "members values"], *, level: float = 0.95) -> Estimate:
    """Mean over values of (E d)², E over members: unbiased, with a jackknife interval over members.

    (‖Σ d‖² − Σ ‖d‖²) / (M(M − 1)K). Where E d = 0 the jackknife is conservative (it doubles the variance).
    """
    total, squares = _sums(deviations)
    count, values = deviations.shape
    whole = (total @ total - squares.sum()) / (count * (count - 1) * values)
    return _jackknife(whole, _left_out(deviations, total, squares), level)


def surviving_share(deviations: Float[np.ndarray, "members values"], *, level: float = 0.95) -> Estimate:
    """Share of the members' mean square that averaging infinitely many members leaves: (E d)² / E d²."""
    total, squares = _sums(deviations)
    count, values = deviations.shape
    whole = (total @ total - squares.sum()) / (count * (count - 1) * values) / (squares.mean() / values)
    single = (squares.sum() - squares) / ((count - 1) * values)
    return _jackknife(whole, _left_out(deviations, total, squares) / single, level)


def power_law(
    x: Float[np.ndarray, " points"], samples: Float[np.ndarray, "n points"], *, level: float = 0.95, seed: int = 0
) -> Estimate:
    """Exponent a of mean-square values ∝ x^(2a), by least squares on logarithms, bootstrapped over samples.

    `samples` are squared quantities, one row per independent sample; their mean over rows is fitted.
    """
    centred = np.log(x) - np.log(x).mean()
    slope = lambda means: 0.5 * np.log(means) @ centred / (centred @ centred)
    return bootstrap(samples, slope, level=level, seed=seed)


def _sums(deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if deviations.ndim != 2 or len(deviations) < 3:
        raise InvalidArgumentError(f"deviations have shape {deviations.shape}; expected (members, values), members ≥ 3")
    return deviations.sum(axis=0), np.einsum("mk,mk->m", deviations, deviations)


def _left_out(deviations: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The U-statistic without each member in turn."""
    count, values = deviations.shape
    norms = total @ total - 2 * deviations @ total + squares
    return (norms - (squares.sum() - squares)) / ((count - 1) * (count - 2) * values)


def _jackknife(whole: float, left_out: np.ndarray, level: float) -> Estimate:
    count = len(left_out)
    error = np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())
    width = scipy.stats.t.ppf((1 + level) / 2, count - 1) * error
    return Estimate(float(whole), float(whole - width), float(whole + width), level)
