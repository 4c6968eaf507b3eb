"""A number and its confidence interval. Where samples are too few or too alike to give one, its ends are NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass

from equitangents.statistics.settings import check_confidence


@dataclass(frozen=True)
class Estimate:
    """A number and its interval, at the confidence that is said; both ends are NaN where there is no interval."""

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
        """Whether the samples were enough for an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def times(self, factor: float) -> Estimate:
        """This number and its interval in other units; `factor` is positive."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high, self.confidence)

    def over(self, other: Estimate) -> Estimate:
        """This positive number over another one that is independent of it: half widths of logarithms add as squares.

        No interval where an end is not finite and positive; over 0 not a number.

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
    """A number that no sampling enters."""
    return Estimate(float(value), float(value), float(value))


def no_interval(value: float, confidence: float = 0.95) -> Estimate:
    """A number from samples that give no interval."""
    return Estimate(float(value), math.nan, math.nan, confidence)


def shared_level(tests: int, confidence: float = 0.95) -> float:
    """The confidence of each of `tests` intervals that lets all hold together at `confidence` (Bonferroni)."""
    check_confidence(confidence)
    return 1 - (1 - confidence) / max(tests, 1)
