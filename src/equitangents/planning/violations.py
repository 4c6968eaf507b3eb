"""How far ensembles of M members are from a symmetry: v(M) of every drawn ensemble, for any M."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from equitangents.ensembles.orbit_draws import OrbitLaw
from equitangents.ensembles.orbit_statistics import OVER_INPUTS, OrbitMeasures
from equitangents.errors import InvalidArgumentError

_NOTHING = 1e-24  # a mean square so small beside that of the outputs is rounding

MEASURES = {
    "rsd": "relative orbit std",
    "osp": "share of the orbit with another class",
    "equivariance_error": "equivariance error",
    "error": "excess of the error over that of infinitely many members",
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
    name: str
    law: OrbitLaw
    order: int
    over_inputs: str
    _known: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._floor = 0.0
        if self.name == "error":
            self._floor = float(self._summary(self._of_infinitely_many())[0])
            if self._floor <= _NOTHING * float((self.law.mean**2).mean()):
                raise InvalidArgumentError(
                    "measure is 'error', relative to the error of infinitely many members, and that is 0 on these "
                    "inputs; plan for another measure"
                )

    def of(self, members: int) -> np.ndarray:
        """v(M) in ascending order, (draws,)."""
        if members not in self._known:
            values = self._summary(self.measures.of_ensembles(self.name, self.law, members))
            self._known[members] = np.sort(self._relative(values))
        return self._known[members]

    @property
    def limit(self) -> float:
        """v of infinitely many members."""
        return float(self._relative(self._summary(self._of_infinitely_many()))[0])

    def quantile(self, members: int, q: float) -> float:
        """The q-quantile across ensembles, always the value of one of them."""
        return float(np.quantile(self.of(members), q, method="inverted_cdf"))

    def point(self, members: int, confidence: float) -> CurvePoint:
        """Median and quantiles of ensembles of `members`."""
        return CurvePoint(members, *(self.quantile(members, q) for q in (0.5, 1 - confidence, confidence)))

    def _of_infinitely_many(self) -> np.ndarray:
        return self.measures.of(self.name, self.law.mean[None])

    def _summary(self, values: np.ndarray) -> np.ndarray:
        return OVER_INPUTS[self.over_inputs](values, axis=1)

    def _relative(self, values: np.ndarray) -> np.ndarray:
        if self.name == "osp":
            return 1 - values / self.order
        return values / self._floor - 1 if self.name == "error" else values
