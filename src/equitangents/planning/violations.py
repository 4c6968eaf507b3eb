"""How far ensembles of M members are from a symmetry: v(M) of every drawn ensemble, for any M."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from equitangents.ensembles.orbits.draws import OrbitLaw
from equitangents.ensembles.orbits.statistics import OVER_INPUTS, OrbitMeasures
from equitangents.errors import InvalidArgumentError

_NOTHING = 1e-24  # a mean square so small beside that of the outputs is rounding


@dataclass(frozen=True)
class Kind:
    """A violation that can be planned for: a measure of ensembles, and how it becomes a number that should be small.

    `relative(value, |G|, error)` takes the value summarised over inputs and the error of infinitely many members.
    """

    title: str
    measure: str
    relative: Callable[[np.ndarray, int, float], np.ndarray] = lambda value, order, error: value
    needs_error: bool = False


MEASURES = {
    "rsd": Kind("relative orbit std", "rsd"),
    "osp": Kind("share of the orbit with another class", "osp", lambda value, order, error: 1 - value / order),
    "equivariance_error": Kind("equivariance error", "equivariance_error"),
    "error": Kind(
        "excess of the error over that of infinitely many members",
        "error",
        lambda value, order, error: value / error - 1,
        needs_error=True,
    ),
    "spread_over_error": Kind(
        "orbit std over the root mean square error",
        "spread",
        lambda value, order, error: value / np.sqrt(error),
        needs_error=True,
    ),
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
    _error: float = 0.0

    def __post_init__(self) -> None:
        if not self.kind.needs_error:
            return
        self._error = float(self._of_infinitely_many("error").mean())
        if self._error <= _NOTHING * float((self.law.mean**2).mean()):
            raise InvalidArgumentError(
                f"measure is the {self.kind.title}, relative to the error of infinitely many members, and that is 0 on "
                f"these inputs; plan for another measure"
            )

    def of(self, members: int) -> np.ndarray:
        """v(M) in ascending order, (draws,)."""
        if members not in self._known:
            values = self._summary(self.measures.of_ensembles(self.kind.measure, self.law, members))
            self._known[members] = np.sort(self._relative(values))
        return self._known[members]

    @property
    def limit(self) -> float:
        """v of infinitely many members."""
        return float(self._relative(self._summary(self._of_infinitely_many(self.kind.measure)))[0])

    def quantile(self, members: int, q: float) -> float:
        """The q-quantile across ensembles, always the value of one of them."""
        return float(np.quantile(self.of(members), q, method="inverted_cdf"))

    def point(self, members: int, confidence: float) -> CurvePoint:
        """Median and quantiles of ensembles of `members`."""
        return CurvePoint(members, *(self.quantile(members, q) for q in (0.5, 1 - confidence, confidence)))

    def _of_infinitely_many(self, measure: str) -> np.ndarray:
        return self.measures.of(measure, self.law.mean[None])

    def _summary(self, values: np.ndarray) -> np.ndarray:
        return OVER_INPUTS[self.over_inputs](values, axis=1)

    def _relative(self, values: np.ndarray) -> np.ndarray:
        return self.kind.relative(values, self.order, self._error)
