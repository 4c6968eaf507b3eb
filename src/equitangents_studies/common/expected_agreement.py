"""Trained ensembles beside what theory expects of as many members: orbit same predictions of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float

from equitangents.statistics import Estimate, bootstrap

SEVERAL = 16  # ensembles of one size that tell their own spread
COVERS = f"ensembles of M networks: over the trained ones, and of fewer than {SEVERAL} from the expected spread"


@dataclass(frozen=True, eq=False)
class Trained:
    """Orbit same predictions of disjoint trained ensembles of M, means over inputs, and what is expected of them."""

    scores: Float[np.ndarray, " ensembles"]
    expected: float
    low: float
    high: float

    @property
    def inside(self) -> float:
        """The share of trained ensembles in the range that holds 95 % of infinitely wide ones."""
        return float(((self.low <= self.scores) & (self.scores <= self.high)).mean())

    def difference(self, bounds: tuple[float, float], level: float = 0.95) -> Estimate:
        """Trained minus expected. The interval is over the ensembles, or of the expected spread where they are few.

        So too where all ensembles score alike.
        """
        off, count = float(self.scores.mean()) - self.expected, len(self.scores)
        if count >= SEVERAL and np.ptp(self.scores) > 0:
            e = bootstrap(self.scores, confidence=level, bounds=bounds)
            return Estimate(off, e.low - self.expected, e.high - self.expected, level)
        wider = float(scipy.stats.norm.ppf((1 + level) / 2) / scipy.stats.norm.ppf(0.975)) / np.sqrt(count)
        return Estimate(off, off - wider * (self.high - self.expected), off + wider * (self.expected - self.low), level)


def disjoint_scores(
    outputs: Float[np.ndarray, "all order n k"], members: int, score: Callable[[np.ndarray], np.ndarray]
) -> Float[np.ndarray, " ensembles"]:
    """Mean over inputs of `score`, which takes disjoint ensembles (E, members, |G|, n, K) to (E, n)."""
    groups = outputs[: len(outputs) // members * members].reshape(-1, members, *outputs.shape[1:])
    return score(groups).mean(axis=-1)


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4, … and `most`."""
    sizes, size = {most}, 1
    while size < most:
        sizes.add(size)
        size *= 2
    return sorted(sizes)


def mean_estimate(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates that may depend on each other, as of the same networks on several sets of inputs.

    Half widths are averaged, too: no dependence makes the mean's interval wider than that.
    """
    of = lambda end: float(np.mean([getattr(e, end) for e in estimates]))
    return Estimate(of("value"), of("low"), of("high"), estimates[0].level)
