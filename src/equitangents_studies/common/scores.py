"""Scores of ensembles: means over repetitions, worst cases, and expected scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float

from equitangents.statistics import FEWEST, Estimate, bootstrap, t_interval


def table_mean(table: Float[np.ndarray, "repetitions n"], bounds: tuple[float, float], level: float = 0.95) -> Estimate:
    """Mean of scores. With 5 or more unequal repetitions the interval is Student's over repetitions, else over inputs.

    A repetition's score is a mean over many inputs, so that Student's t holds for as few as five.

    Example:
        >>> found = table_mean(np.array([[0.0, 1.0, 1.0, 0.0, 1.0, 1.0]] * 5) + 0.1 * np.arange(5)[:, None], (0, 2))
        >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
        (0.867, 0.67, 1.063)
    """
    if len(table) >= FEWEST:
        found = t_interval(table.mean(axis=1), level, bounds)
        if found.has_interval:
            return found
    return bootstrap(table.mean(axis=0), confidence=level, bounds=bounds)


def covered(repetitions: int, name: str) -> str:
    """What intervals are over: `name`, the repetitions, if there are enough of them, else "inputs".

    >>> covered(5, "ensembles"), covered(4, "ensembles")
    ('ensembles, on these inputs', 'inputs')
    """
    return f"{name}, on these inputs" if repetitions >= FEWEST else "inputs"


def largest(values: Float[np.ndarray, " n"], level: float = 0.95) -> Estimate:
    """The largest of independent positive values; the interval reaches up to where a further one may lie.

    That upper end is Student's prediction limit of the logarithms, exp(mean + t s √(1 + 1/n)). The lower end is the
    largest value itself: one violation that was seen is enough. One value, or one that is not positive, gives no
    interval.

    Example:
        >>> found = largest(np.array([0.01, 0.02, 0.015, 0.01]))
        >>> found.value == found.low, 0.02 < found.high < 0.1
        (True, True)
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    top, n = float(values.max()), len(values)
    if n < 2 or not (np.isfinite(values).all() and values.min() > 0):
        return Estimate(top, np.nan, np.nan, level)
    logs = np.log(values)
    t = scipy.stats.t.ppf((1 + level) / 2, n - 1)
    limit = logs.mean() + t * logs.std(ddof=1) * (1 + 1 / n) ** 0.5
    return Estimate(top, top, max(top, float(np.exp(min(limit, 700.0)))), level)


def exp_of(log: Estimate) -> Estimate:
    """exp of an estimated logarithm and of the ends of its interval."""
    value, low, high = map(float, np.exp([log.value, log.low, log.high]))
    return Estimate(value, low, high, log.confidence)


SEVERAL = 16  # ensembles of one size that suffice to estimate their standard deviation
COVERS = f"ensembles of M networks: over the trained ones, and of fewer than {SEVERAL} from the expected distribution"


@dataclass(frozen=True, eq=False)
class TrainedScores:
    """Mean orbit same predictions of disjoint trained ensembles of M, and the `expected` mean with its 95 % range."""

    scores: Float[np.ndarray, " ensembles"]
    expected: float
    low: float
    high: float

    def difference(self, bounds: tuple[float, float], level: float = 0.95) -> Estimate:
        """Trained minus expected. The interval is over the ensembles.

        It is that of the expected distribution if ensembles are few or all have the same score.
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
    """Mean of dependent estimates, such as those of the same networks on several sets of inputs.

    The half width is the mean of the half widths, an upper bound for any dependence.
    """
    of = lambda end: float(np.mean([getattr(e, end) for e in estimates]))
    return Estimate(of("value"), of("low"), of("high"), estimates[0].confidence)
