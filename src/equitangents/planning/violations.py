"""How far ensembles of M members are from a symmetry: v(M) of every drawn ensemble, for any M.

Shares are whole numbers of points: which of them meet a target is told without the rounding of 1 − 3.8/4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from equitangents.ensembles.orbits.law import OrbitLaw
from equitangents.ensembles.orbits.statistics import OVER_INPUTS, OrbitMeasures, sample_quantiles
from equitangents.errors import InvalidArgumentError

_ROUNDING = Fraction(1, 10**12)  # a target so near to a share is meant to be that share
_NOTHING = 1e-24  # a mean square so small beside that of the outputs is rounding


def largest_share(target: float, points: int) -> float:
    """The largest k/points, k a whole number, that is at most the target; 0.05 of 80 points are 4, as 1 − 0.95 are.

    >>> largest_share(0.15, 80) == 12 / 80, largest_share(1 - 0.9, 10) == 0.1, largest_share(0.1, 4)
    (True, True, 0.0)
    """
    return math.floor(points * (Fraction(target) + _ROUNDING)) / points


@dataclass(frozen=True)
class Kind:
    """A violation that can be planned for: a measure of ensembles, relative to the error at the inputs or not."""

    title: str
    measure: str
    needs_error: bool = False


MEASURES = {
    "rsd": Kind("relative orbit std", "rsd"),
    "osp": Kind("share of transformed inputs that get another class", "osp"),
    "equivariance_error": Kind("equivariance error", "equivariance_error"),
    "error": Kind("excess of the error over that of infinitely many members", "error", needs_error=True),
    "spread_over_error": Kind("orbit std over the root mean square error", "spread", needs_error=True),
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
    """v(M) of all drawn ensembles, sorted, for every M that was asked for."""

    measures: OrbitMeasures
    kind: Kind
    law: OrbitLaw
    order: int
    over_inputs: str
    _known: dict[int, np.ndarray] = field(default_factory=dict)
    _error: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not self.kind.needs_error:
            return
        total = self.measures.of_means("error", self.law).sum(axis=1)
        if not float(total.mean()) > _NOTHING * len(self.law.mean) * float((self.law.mean**2).mean()):
            raise InvalidArgumentError(
                "measure", self.kind.title, "one relative to what is not 0 on these inputs", "plan for another measure"
            )
        self._error = total

    @property
    def inputs(self) -> int:
        """How many inputs the measure is a mean over."""
        return len(self.law.mean)

    def of(self, members: int) -> np.ndarray:
        """v(M) in ascending order, (draws,)."""
        if members not in self._known:
            values = self.measures.of_ensembles(self.kind.measure, self.law, members)
            self._known[members] = np.sort(self._relative(values))
        return self._known[members]

    @cached_property
    def limits(self) -> np.ndarray:
        """v of infinitely many members in ascending order; a single one where their mean is known."""
        return np.sort(self._relative(self.measures.of_means(self.kind.measure, self.law)))

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
        """The largest value of the measure that meets the target: of a share of the orbits, a whole number of points.

        v is one division of whole numbers and so is this, so that comparing the two compares whole numbers.
        """
        if self.kind.measure == "osp":
            return largest_share(target, self._points)
        return target

    @property
    def _points(self) -> int:
        """The points of an orbit of which the measure "osp" is a share."""
        return {"mean": self.inputs, "median": 2, "max": 1}[self.over_inputs] * self.order

    def _relative(self, values: np.ndarray) -> np.ndarray:
        """v from a measure of every input, (draws, n), one division of what is summed up."""
        if self.kind.measure == "osp":
            changed = self.order - values
            if self.over_inputs == "mean":
                return changed.sum(axis=1) / (self.inputs * self.order)
            return OVER_INPUTS[self.over_inputs](changed, axis=1) / self.order
        if self._error is None:
            return OVER_INPUTS[self.over_inputs](values, axis=1)
        if self.kind.measure == "spread":
            return OVER_INPUTS[self.over_inputs](values, axis=1) / np.sqrt(self._error / self.inputs)
        mean = self.over_inputs == "mean"
        total = values.sum(axis=1) if mean else self.inputs * OVER_INPUTS[self.over_inputs](values, axis=1)
        return _excess(total, self._error)


def _excess(total: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """(total − limit)/limit; of nothing over nothing 0."""
    beyond, nothing = np.where(total <= 0, 0.0, np.inf), limit <= 0  # comparisons that NaN passes as NaN
    return np.where(nothing, beyond, (total - limit) / np.where(nothing, 1.0, limit))
