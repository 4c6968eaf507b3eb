"""Errors of an audit as a report shows them: means with intervals, spreads, floors, and the units that they are in.

Errors are relative: ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖. Those called `judged` are in the unit of the headline, which
may be the spread between inputs, or probability, instead; the verdict follows from these. A floor is the error that a
perfectly equivariant function would show all the same, because arrays are resampled, numbers rounded, or the function
is random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Unit = Literal["norm", "spread", "absolute", "classes", "share", "probability"]


def of(unit: str) -> str:
    """What a percentage is of."""
    return {
        "norm": "of ‖f(x)‖",
        "spread": "of the spread between inputs",
        "absolute": "of output_scale",
        "classes": "of cases",
        "probability": "of probability",
        "share": "as a share of pixels or boxes",
    }[unit]


FACTOR = 2.0
"""An error up to this many floors is explained by them."""
Standing = Literal["within", "above", "open"]


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval, over inputs and, where elements were sampled, over elements.

    Both ends are null (NaN) where there is no interval: below 5 inputs or sampled elements, or if all values are equal.
    """

    mean: float
    low: float
    high: float

    @property
    def rooted(self) -> Estimate:
        """The square roots of a mean square and its interval."""
        return Estimate(*(math.sqrt(max(value, 0.0)) for value in (self.mean, self.low, self.high)))


def standing(error: Estimate, floor: float, limit: float | None = None) -> Standing:
    """Where a mean error stands to a limit: "above" if its interval is above it, and above twice its floor.

    "within": the interval is below the limit, and so is all that the floor hides, twice the floor; without a limit the
    mean is below that. Anything else, NaN too, is "open". Without an interval the mean counts. Verdicts, badges and
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
class Spread:
    """How a relative error is distributed over inputs and elements."""

    estimate: Estimate
    q05: float
    q25: float
    median: float
    q75: float
    q95: float
    worst: float

    @property
    def bounded(self) -> Estimate:
        """The mean and its interval; where there is none, the median and the worst error are its ends."""
        e = self.estimate
        low, high = self.median if math.isnan(e.low) else e.low, self.worst if math.isnan(e.high) else e.high
        return Estimate(e.mean, low, high)


E = TypeVar("E", Estimate, Spread)


class Shown(Generic[E]):
    """An error relative to ‖f(x)‖ that may be known in the headline's unit, too: so it is shown."""

    error: E
    judged: E | None

    @property
    def shown(self) -> E:
        """The error in the headline's unit where there is one."""
        return self.judged or self.error


class ShownFloor:
    """A floor in both units."""

    floor: float
    judged_floor: float | None

    @property
    def shown_floor(self) -> float:
        """The floor in the headline's unit where there is one."""
        return self.floor if self.judged_floor is None else self.judged_floor
