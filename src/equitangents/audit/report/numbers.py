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


def standing(error: Estimate, floor: float, limit: float | None = None) -> Standing:
    """Where a mean error stands to a limit: "above" if its interval is above it, and above twice its floor.

    "within": the interval is below the limit, and so is all that the floor hides; without a limit the mean is below
    twice the floor. Anything else, NaN too, is "open". Without an interval the mean counts.
    """
    low, high = (error.mean if math.isnan(end) else end for end in (error.low, error.high))
    hides = FACTOR * floor
    if low > hides and (limit is None or low > limit):
        return "above"
    kept = error.mean <= hides if limit is None else high <= limit and hides <= limit
    return "within" if kept else "open"


def keeps(error: float, floor: float, limit: float) -> bool | None:
    """Whether a mean error keeps to a limit: False above it; None: not above it, but the floor is, which hides more.

    Verdicts within a tolerance and exit statuses both go by this.
    """
    if not error <= limit:
        return False
    return True if floor <= limit else None


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
