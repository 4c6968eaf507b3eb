"""What every contender answered and cost, and the scores, intervals and paired differences that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from equitangents.statistics import Estimate, shared_level
from equitangents_studies.common.images import Images
from equitangents_studies.common.orbits import same_predictions
from equitangents_studies.common.scores import table_mean
from equitangents_studies.contenders import Problem
from equitangents_studies.framework.records import Records

COSTS = ("parameters", "multiplications", "training_seconds", "inference_seconds")
MEASURES = ("upright", "rotated", "inside", "outside")


@dataclass(frozen=True, eq=False)
class Curve:
    """An ensemble of small networks: labels[set] (sizes, R, |G|, N) of the mean of `sizes` members."""

    sizes: np.ndarray
    labels: dict[str, np.ndarray]
    channels: tuple[int, ...]
    multiplications: float


@dataclass(frozen=True, eq=False)
class Results:
    """labels[contender][set] (R, |G|, N) predicted classes; costs[contender] by name (R,); floor[set] (R, |G|, N).

    `floor` is empty where the action is exact. `left_out` says why a contender is missing.
    """

    images: Images
    problem: Problem
    titles: dict[str, str]
    labels: dict[str, dict[str, np.ndarray]]
    costs: dict[str, dict[str, np.ndarray]]
    floor: dict[str, np.ndarray]
    floor_of: str
    left_out: dict[str, str]
    curves: dict[int, Curve]
    gcnn_multiplications: float

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.problem.action.group.order)

    @property
    def foreign(self) -> list[str]:
        """Names of the sets out of distribution."""
        return [name for name in self.images.sets if name != "test"]

    def agreement(self, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
        """Orbit same predictions."""
        return same_predictions(self.problem.action, labels)

    def score(self, labels: dict[str, np.ndarray], measure: str) -> Float[np.ndarray, "... n"]:
        """The score of every repetition and input: right upright or over the orbit, agreement inside or outside."""
        if measure == "upright":
            return (labels["test"][..., self.problem.action.group.identity, :] == self.images.test_y).astype(float)
        if measure == "rotated":
            return (labels["test"] == self.images.test_y).mean(axis=-2)
        if measure == "inside":
            return self.agreement(labels["test"])
        return np.concatenate([self.agreement(labels[name]) for name in self.foreign], axis=-1)

    def bounds(self, measure: str) -> tuple[float, float]:
        """Between which values a score lies."""
        return (0.0, 1.0) if measure in ("upright", "rotated") else (1.0, float(self.order))

    def estimate(self, labels: dict[str, np.ndarray], measure: str, level: float = 0.95) -> Estimate:
        """The mean score and its interval."""
        return table_mean(self.score(labels, measure), self.bounds(measure), level)

    def difference(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray], measure: str, level: float) -> Estimate:
        """The mean of a's score minus b's on the same inputs, in the same repetitions."""
        low, high = self.bounds(measure)
        return table_mean(self.score(a, measure) - self.score(b, measure), (low - high, high - low), level)

    def least(self, labels: dict[str, np.ndarray]) -> float:
        """Orbit same predictions on the worst input of all sets and repetitions."""
        return float(min(self.agreement(y).min() for y in labels.values()))

    def on(self, labels: dict[str, np.ndarray], name: str, level: float = 0.95) -> Estimate:
        """Orbit same predictions on one set."""
        return table_mean(self.agreement(labels[name]), self.bounds("outside"), level)

    def ahead(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray], name: str, level: float = 0.95) -> Estimate:
        """Orbit same predictions of a minus those of b on one set, paired."""
        most = self.order - 1.0
        return table_mean(self.agreement(a[name]) - self.agreement(b[name]), (-most, most), level)


def pairs(results: Results, measure: str) -> Records:
    """Differences between any two contenders, paired, with intervals that all hold together."""
    names = list(results.labels)
    both = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    level = shared_level(len(both))
    estimates = [results.difference(results.labels[a], results.labels[b], measure, level) for a, b in both]
    return Records(("contender", "other"), tuple(both), tuple(estimates))
