"""Errors of an audit as a report shows them: means with intervals, distributions, noise floors, and units.

Errors are relative: ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖. Those called `judged` are in the unit of the headline, which
may instead be the standard deviation over inputs ("spread") or probability; the verdict follows from these. A noise
floor is the error that a perfectly equivariant function would show, because arrays are resampled, numbers rounded, or
the function is random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from equitangents.report.numbers import format_number

Unit = Literal["norm", "spread", "absolute", "classes", "share", "probability"]


UNITS: dict[str, str] = {
    "norm": "of ‖f(x)‖",
    "spread": "of the spread",
    "absolute": "of output_scale",
    "classes": "of cases",
    "probability": "of probability",
    "share": "as a share",
}
"""What a percentage is of; the spread is the standard deviation over inputs and moved copies."""

FACTOR = 2.0
"""An error up to this many noise floors is explained by noise."""
Standing = Literal["within", "above", "open"]


@dataclass(frozen=True)
class MeanEstimate:
    """A mean with its confidence interval, over inputs and, where elements were sampled, over elements.

    Both ends are null (NaN) where there is no interval: below 5 inputs or sampled elements, or if all values are equal.
    """

    mean: float
    low: float
    high: float

    @property
    def rooted(self) -> MeanEstimate:
        """The square roots of a mean square and its interval."""
        return MeanEstimate(*(math.sqrt(max(value, 0.0)) for value in (self.mean, self.low, self.high)))

    @property
    def squared(self) -> MeanEstimate:
        """The squares of a number that is not negative and its interval."""
        return MeanEstimate(*(value**2 for value in (self.mean, self.low, self.high)))


def standing(error: MeanEstimate, floor: float, limit: float | None = None) -> Standing:
    """Where a mean error stands to a limit: "above" if its interval is above it, and above twice its floor.

    "within": the interval is below the limit, and so is all that the floor hides, twice the floor; without a limit the
    mean is below that. Anything else, NaN too, is "open". Without an interval the mean counts. Verdicts and
    exit statuses all go by this.
    """
    if math.isnan(error.mean):
        return "open"
    low, high = (error.mean if math.isnan(end) else end for end in (error.low, error.high))
    hides = FACTOR * floor
    if low > hides and (limit is None or low > limit):
        return "above"
    kept = error.mean <= hides if limit is None else high <= limit and hides <= limit
    return "within" if kept else "open"


@dataclass(frozen=True)
class Distribution:
    """Distribution of a relative error over inputs and elements."""

    estimate: MeanEstimate
    q05: float
    median: float
    q95: float
    worst: float

    @property
    def bounded(self) -> MeanEstimate:
        """The mean and its interval; without one, from the median to the worst error."""
        e = self.estimate
        low, high = self.median if math.isnan(e.low) else e.low, self.worst if math.isnan(e.high) else e.high
        return MeanEstimate(e.mean, low, high)


def number(value: float | None) -> str:
    """A relative error: per cent from 0.01 % on, powers of ten below; ∞ if it is infinite, "" if it is not known.

    >>> number(0.0312), number(2.5e-7)
    ('3.12 %', '2.5·10⁻⁷')
    """
    if value is None:
        return ""
    if 10 <= value < 1e4:
        return f"{100 * value:,.0f} %"
    return f"{100 * value:.3g} %" if 1e-4 <= value < 1e4 else format_number(value)


def interval(e: MeanEstimate, write: Callable[[float], str] = number) -> str:
    """A mean with its interval, if there is one.

    >>> interval(MeanEstimate(0.03, 0.02, 0.05))
    '3 % [2 %, 5 %]'
    """
    known = not (math.isnan(e.low) or math.isnan(e.high)) and (math.isfinite(e.low) or math.isfinite(e.high))
    return f"{write(e.mean)} [{write(e.low)}, {write(e.high)}]" if known else write(e.mean)


def ends(e: MeanEstimate) -> str:
    """An interval, "" if there is none."""
    return "" if math.isnan(e.low) else f"{number(e.low)} to {number(e.high)}"


def folded(text: str, most: int = 48) -> str:
    """A long name with its middle left out.

    >>> folded("features.encoder.stage3.block17.conv2d_wide", 24)
    'features.enc…conv2d_wide'
    """
    if len(text) <= most:
        return text
    kept = most - 1
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


NAMED = 4
"""Elements named at most."""


def listed(names: Sequence[str]) -> str:
    """The first `NAMED` names, with commas."""
    return ", ".join([*names[:NAMED], "…"] if len(names) > NAMED else names)
