"""Violations v(M) of a symmetry by drawn ensembles of M members, for any M.

Shares are counted in whole numbers of points, so that comparing one with a target has no rounding error.
`Wanted` finds the number of members that meets a target, with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy.stats

from equitangents.ensembles.orbits import OrbitLaw, OrbitMeasures, quantile_interval, sample_quantiles
from equitangents.errors import InvalidArgumentError

OVER_INPUTS: dict[str, Callable[..., np.ndarray]] = {"mean": np.mean, "median": np.median, "max": np.max}
_ROUNDING = Fraction(1, 10**12)  # a target this near to a share means that share
_NOTHING = 1e-24  # a mean square below this share of that of the outputs is rounding


def largest_share(target: float, points: int) -> float:
    """The largest k/points, k a whole number, that is at most the target; 0.05 of 80 points are 4, as 1 − 0.95 are.

    >>> largest_share(0.15, 80) == 12 / 80, largest_share(1 - 0.9, 10) == 0.1, largest_share(0.1, 4)
    (True, True, 0.0)
    """
    return math.floor(points * (Fraction(target) + _ROUNDING)) / points


@dataclass(frozen=True)
class PlannedMeasure:
    """A violation of a plan: a measure of ensembles, possibly relative to the error at the inputs."""

    title: str
    measure: str
    needs_error: bool = False


MEASURES = {
    "rsd": PlannedMeasure("relative orbit std", "rsd"),
    "osp": PlannedMeasure("share of transformed inputs that get another class", "osp"),
    "equivariance_error": PlannedMeasure("equivariance error", "equivariance_error"),
    "error": PlannedMeasure("excess of the error over that of infinitely many members", "error", needs_error=True),
    "spread_over_error": PlannedMeasure("orbit std over the root mean square error", "spread", needs_error=True),
}


@dataclass(frozen=True)
class CurvePoint:
    """The violation of ensembles of `members`: its median across ensembles and its quantiles at 1 − c and c."""

    members: int
    median: float
    lower: float
    upper: float


@dataclass
class Violations:
    """v(M) of all drawn ensembles, sorted, cached by M."""

    measures: OrbitMeasures
    kind: PlannedMeasure
    law: OrbitLaw
    order: int
    over_inputs: str
    _known: dict[int, np.ndarray] = field(default_factory=dict)
    _error: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not self.kind.needs_error:
            return
        total = self.measures.of_ensembles("error", self.law, math.inf).sum(axis=1)
        if not float(total.mean()) > _NOTHING * len(self.law.mean) * float((self.law.mean**2).mean()):
            raise InvalidArgumentError(
                "measure", self.kind.title, "one relative to what is not 0 on these inputs", "plan for another measure"
            )
        self._error = total

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.law.mean)

    def of(self, members: int) -> np.ndarray:
        """v(M) in ascending order, (draws,)."""
        if members not in self._known:
            values = self.measures.of_ensembles(self.kind.measure, self.law, members)
            self._known[members] = np.sort(self._relative(values))
        return self._known[members]

    @cached_property
    def limits(self) -> np.ndarray:
        """v of infinitely many members in ascending order; a single value if their mean is known."""
        return np.sort(self._relative(self.measures.of_ensembles(self.kind.measure, self.law, math.inf)))

    def limit(self, q: float) -> float:
        """The q-quantile of v of infinitely many members."""
        return float(sample_quantiles(self.limits, q))

    def quantile(self, members: int, q: float) -> float:
        """The q-quantile across ensembles, always the value of one of them."""
        return float(sample_quantiles(self.of(members), q))

    def point(self, members: int, confidence: float) -> CurvePoint:
        """Median and quantiles of ensembles of `members`."""
        return CurvePoint(members, *(self.quantile(members, q) for q in (0.5, 1 - confidence, confidence)))

    def threshold(self, target: float) -> float:
        """The largest value of the measure that meets the target.

        For shares of orbits, a ratio of whole numbers as v is, so that the comparison is exact.
        """
        if self.kind.measure == "osp":
            return largest_share(target, self._points)
        return target

    @property
    def _points(self) -> int:
        """The points of an orbit of which the measure "osp" is a share; of a field, each position at each element."""
        return {"mean": self.inputs, "median": 2, "max": 1}[self.over_inputs] * self._orbit_points

    @property
    def _orbit_points(self) -> int:
        return self.order * math.prod((self.measures.fields or (1,))[:-1])

    def _relative(self, values: np.ndarray) -> np.ndarray:
        """v from a measure of every input, (draws, n), by one division."""
        if self.kind.measure == "osp":
            changed = np.rint((self.order - values) * (self._orbit_points // self.order))  # whole numbers of points
            if self.over_inputs == "mean":
                return changed.sum(axis=1) / (self.inputs * self._orbit_points)
            return OVER_INPUTS[self.over_inputs](changed, axis=1) / self._orbit_points
        if self._error is None:
            return OVER_INPUTS[self.over_inputs](values, axis=1)
        if self.kind.measure == "spread":
            return OVER_INPUTS[self.over_inputs](values, axis=1) / np.sqrt(self._error / self.inputs)
        mean = self.over_inputs == "mean"
        total = values.sum(axis=1) if mean else self.inputs * OVER_INPUTS[self.over_inputs](values, axis=1)
        return _excess(total, self._error)


def _excess(total: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """(total − limit)/limit; 0 if both are 0."""
    beyond, nothing = np.where(total <= 0, 0.0, np.inf), limit <= 0  # comparisons that NaN passes as NaN
    return np.where(nothing, beyond, (total - limit) / np.where(nothing, 1.0, limit))


LEVEL = 0.95  # of the interval of the number of members
_CURVE = (1, 2, 5)

Interval = tuple[int | None, int | None]
_OVERSHOOT = 1.05  # a guess by the scaling law aims beyond the target
_MIDDLE_EVERY = 3  # steps, so that every curve takes few


@dataclass(frozen=True)
class Wanted:
    """At most `target` in a share `confidence` of ensembles, with at most `most` members."""

    target: float
    confidence: float
    most: int

    def possible(self, violations: Violations) -> bool:
        """Whether infinitely many members suffice."""
        return violations.limit(self.confidence) <= violations.threshold(self.target)

    def members(self, violations: Violations) -> int | None:
        """The smallest number that suffices; None if none does, or none up to `most`."""
        if not self.possible(violations):
            return None
        threshold = violations.threshold(self.target)
        return smallest(lambda m: violations.quantile(m, self.confidence), threshold, self.most)

    def of_draws(self, violations: Violations, members: int | None) -> Interval:
        """The interval of the number by the finite number of draws."""
        if members is None:
            return None, None
        end = lambda which: lambda m: quantile_interval(violations.of(m), self.confidence, LEVEL)[which]
        threshold = violations.threshold(self.target)
        return smallest(end(0), threshold, self.most), smallest(end(1), threshold, self.most)

    def of_pilot(
        self, violations: Violations, members: int | None, replicates: Iterable[Violations], networks: int
    ) -> Interval:
        """The interval of the number by the draws and the chance of the pilot, from plans of its replicates.

        log M is taken as normal with the standard deviation over replicates. A Student interval of 95 %, which
        contained the number in 85 of 96 plans, and is reported as 90 %.
        """
        if members is None:
            return None, None
        low, high = self.of_draws(violations, members)
        others = [self.members(each) for each in replicates]
        known = np.log([m for m in others if m is not None] or [members])
        deviation = float(known.std(ddof=1)) if len(known) > 1 else 0.0
        width = float(scipy.stats.t.ppf((1 + LEVEL) / 2, networks - 1)) * deviation
        below = math.hypot(width, math.log(members / low) if low else math.log(members))
        least = max(1, math.floor(members * math.exp(-below)))
        if high is None or len(known) < len(others):
            return least, None
        most = math.ceil(members * math.exp(math.hypot(width, math.log(high / members))))
        return least, most if most <= self.most else None

    def sizes(self, violations: Violations, members: int | None) -> list[int]:
        """Numbers of members for a curve: 1, 2, 5, 10, … beyond the answer, which is included."""
        last = 4 * members if members is not None else (self.most if self.possible(violations) else 100)
        steps: list[int] = []
        for power in range(20):
            for digit in _CURVE:
                steps.append(digit * 10**power)
                if steps[-1] >= last:
                    return sorted({*steps, *([members] if members else [])})
        return steps


def smallest(value: Callable[[int], float], target: float, most: int) -> int | None:
    """The M from 1 to `most` with value(M) ≤ target and value(M − 1) > target; None if value(most) > target.

    If value(M) is a power of M, as fluctuations are (1/√M), the first guesses are nearly right. If it does not fall
    everywhere, M is one of its crossings of the target.

    >>> smallest(lambda m: 1 / m**0.5, target=0.1, most=10**6)
    100
    """
    at: dict[int, float] = {}

    def fails(m: int) -> bool:
        at[m] = value(m)
        return at[m] > target

    failing, passing = 0, 1
    while fails(passing):
        if passing == most:
            return None
        failing = passing
        scaled = passing * _OVERSHOOT * (at[passing] / target) ** 2 if target > 0 else math.inf
        passing = int(min(max(2 * passing, min(scaled, 64 * passing)), most))
    step = 0
    while passing - failing > 1:
        step += 1
        guess = _middle(failing, passing) if step % _MIDDLE_EVERY == 0 else _crossing(failing, passing, at, target)
        guess = min(max(guess, failing + 1), passing - 1)
        failing, passing = (guess, passing) if fails(guess) else (failing, guess)
    return passing


def _middle(failing: int, passing: int) -> int:
    """The geometric mean, so that large ranges close in few steps."""
    return round(math.sqrt(max(failing, 1) * passing))


def _crossing(failing: int, passing: int, at: dict[int, float], target: float) -> int:
    """Crossing of the line through both ends with the target, on logarithmic scales."""
    if failing == 0 or target <= 0 or at[passing] <= 0 or not math.isfinite(at[failing]):
        return _middle(failing, passing)
    high, low = math.log(at[failing] / target), math.log(target / at[passing])
    share = high / (high + low)
    return math.ceil(math.exp((1 - share) * math.log(failing) + share * math.log(passing)))
