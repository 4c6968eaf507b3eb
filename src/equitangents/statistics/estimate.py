"""A number and its confidence interval, whose ends are NaN if samples are too few or too alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.validation import check_number, check_whole


@dataclass(frozen=True)
class Estimate:
    """A value and its interval at `confidence`; both ends are NaN if there is no interval."""

    value: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the interval, (low, high)."""
        return (self.low, self.high)

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def times(self, factor: float) -> Estimate:
        """This value and its interval multiplied by a positive factor."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high, self.confidence)

    def over(self, other: Estimate) -> Estimate:
        """The ratio of this positive value to an independent one: half widths of logarithms add in quadrature.

        No interval if an end is not finite and positive; NaN for a denominator of 0.

        >>> Estimate(4.0, 2.0, 8.0).over(Estimate(1.0, 1.0, 1.0)).interval
        (2.0, 8.0)
        """
        value = self.value / other.value if other.value else math.nan
        ends = (*self.interval, *other.interval)
        if not all(map(math.isfinite, (value, *ends))) or min(ends) <= 0:
            return Estimate(value, math.nan, math.nan, self.confidence)
        width = math.hypot(math.log(self.high / self.low) / 2, math.log(other.high / other.low) / 2)
        return Estimate(value, value * math.exp(-width), value * math.exp(width), self.confidence)


def exactly(value: float) -> Estimate:
    """An exact value, without sampling error."""
    return Estimate(float(value), float(value), float(value))


def no_interval(value: float, confidence: float = 0.95) -> Estimate:
    """A value without an interval."""
    return Estimate(float(value), math.nan, math.nan, confidence)


def shared_level(tests: int, confidence: float = 0.95) -> float:
    """The confidence of each of `tests` intervals such that all hold together at `confidence` (Bonferroni)."""
    check_confidence(confidence)
    return 1 - (1 - confidence) / max(tests, 1)


def t_interval(
    values: Float[np.ndarray, " n"], confidence: float = 0.95, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Estimate:
    """mean ± t s/√n over repetitions, clipped to `bounds`; no interval for a single value, or if all are equal.

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


def check_confidence(confidence: object) -> None:
    """Raise unless the value is a coverage probability strictly between 0 and 1."""
    check_number("confidence", confidence, "a number between 0 and 1", lambda c: 0 < c < 1)


def check_resampling(confidence: object, resamples: object, seed: object) -> None:
    """Raise unless confidence, number of resamples and seed are valid."""
    check_confidence(confidence)
    check_whole("resamples", resamples, 1)
    check_whole("seed", seed, 0)
