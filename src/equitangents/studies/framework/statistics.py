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
    draws = np.asarray(statistic(_resampled_means(samples, resamples, seed)), dtype=np.float64)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(statistic(samples.mean(axis=0, keepdims=True))[0]), float(low), float(high), level)


def bootstrap_intervals(
    samples: Float[np.ndarray, "n ..."], *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, low, high) of every column at once: what `bootstrap` gives for each, with the same resamples."""
    samples = np.asarray(samples, dtype=np.float64)
    means = _resampled_means(samples, resamples, seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return samples.mean(axis=0), low, high


def _resampled_means(samples: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    n = len(samples)
    if n < 2:
        raise InvalidArgumentError(f"{n} samples were given; an interval needs at least 2")
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    return (counts @ samples.reshape(n, -1) / n).reshape(resamples, *samples.shape[1:])


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


def second_moment_share(
    deviations: Float[np.ndarray, "members values"],
    outputs: Float[np.ndarray, "members values"],
    *,
    level: float = 0.95,
) -> Estimate:
    """(E d)² / E f²: a squared bias relative to the mean square of single outputs, with a jackknife interval."""
    total, squares = _sums(deviations)
    count, values = deviations.shape
    sizes = np.einsum("mk,mk->m", outputs, outputs, dtype=np.float64)
    whole = (total @ total - squares.sum()) / (count * (count - 1) * values) / (sizes.mean() / values)
    single = (sizes.sum() - sizes) / ((count - 1) * values)
    return _jackknife(whole, _left_out(deviations, total, squares) / single, level)


def quotient_of_squared_means(
    numerator: Float[np.ndarray, "members values"],
    denominator: Float[np.ndarray, "members values"],
    *,
    level: float = 0.95,
) -> Estimate:
    """(E d)² of one ensemble over that of another, independent one.

    The interval is Fieller's, exact for normal estimates of both; unbounded (not decidable) where the denominator's
    interval holds 0.
    """
    a, b = (squared_mean(d, level=level) for d in (numerator, denominator))
    degrees = min(len(numerator), len(denominator)) - 1
    t = scipy.stats.t.ppf((1 + level) / 2, degrees)
    variance_a, variance_b = ((e.high - e.value) ** 2 for e in (a, b))  # already times t²
    spread = b.value**2 - variance_b
    if b.value <= 0 or spread <= 0 or not np.isfinite(t):
        return Estimate(a.value / b.value if b.value else np.nan, -np.inf, np.inf, level)
    centre = a.value * b.value / spread
    width = np.sqrt(max(centre**2 - (a.value**2 - variance_a) / spread, 0.0))
    return Estimate(a.value / b.value, float(centre - width), float(centre + width), level)


def geometric_mean(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """exp of the mean logarithm; 0 where a value is 0."""
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.exp(np.log(values).mean(axis=axis))


def log_ratio(
    numerator: Float[np.ndarray, " n"], denominator: Float[np.ndarray, " m"], *, level: float = 0.95
) -> Estimate:
    """Ratio of the geometric means of two independent positive samples, with Welch's interval on the logarithms.

    Not a number where a sample holds 0 or infinity.
    """
    both = np.concatenate([numerator, denominator])
    if both.min() <= 0 or not np.isfinite(both).all():
        return Estimate(np.nan, np.nan, np.nan, level)
    logs = [np.log(np.asarray(s, dtype=np.float64)) for s in (numerator, denominator)]
    parts = [x.var(ddof=1) / len(x) for x in logs]
    if sum(parts) == 0:
        return exactly(np.exp(logs[0].mean() - logs[1].mean()))
    degrees = sum(parts) ** 2 / sum(p**2 / (len(x) - 1) for p, x in zip(parts, logs, strict=True))
    width = scipy.stats.t.ppf((1 + level) / 2, degrees) * np.sqrt(sum(parts))
    centre = logs[0].mean() - logs[1].mean()
    low, value, high = np.exp([centre - width, centre, centre + width])
    return Estimate(float(value), float(low), float(high), level)


def excess_exponent(
    x: Float[np.ndarray, " points"],
    samples: list[np.ndarray],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Exponent a of means ∝ x^a, by weighted least squares on logarithms, bootstrapped over independent samples.

    `samples[i]` are independent values whose mean is the quantity at x[i]; weights are those of the logarithms' errors.
    Not a number where any interval of a mean holds 0: then there is no excess to speak of.
    """
    means = np.stack(
        [_resampled_means(np.asarray(s, dtype=np.float64), resamples, seed + i) for i, s in enumerate(samples)], axis=1
    )
    whole = np.array([np.mean(s) for s in samples])
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    if not ((low > 0).all() or (high < 0).all()):
        return Estimate(np.nan, np.nan, np.nan, level)
    logs, size = np.log(np.maximum(np.abs(means), np.finfo(float).tiny)), np.log(np.abs(whole))
    weights = 1 / logs.var(axis=0)
    centred = np.log(x) - np.average(np.log(x), weights=weights)
    slope = lambda y: (weights * y) @ centred / (weights @ centred**2)
    bounds = np.quantile(slope(logs), [tail, 1 - tail])
    return Estimate(float(slope(size)), float(bounds[0]), float(bounds[1]), level)
