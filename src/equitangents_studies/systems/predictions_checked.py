"""Whether a learning curve that was predicted is the one that training sets show.

Both predictions (`omniscient`, `cavity`) average over many inputs none of which matters alone. Where inputs nearly
repeat each other they can be hundreds of times too low, and nothing in the spectrum tells. Training sets tell.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float

from equitangents.extending import Numbers

logger = logging.getLogger("equitangents.systems")
FACTOR = 2.0  # by which a prediction may differ from what training sets show
_DRAWS = 4


@dataclass(frozen=True)
class Missed:
    """A size at which the prediction is more than twice too low, or too high, for every training set."""

    size: int
    predicted: float
    measured: float

    def __str__(self) -> str:
        wrong, way = self.measured / self.predicted if self.predicted > 0 else np.inf, "low"
        if wrong < 1:
            wrong, way = 1 / wrong if wrong > 0 else np.inf, "high"
        return (
            f"{wrong:.3g} times too {way} at {self.size:,} training inputs ({self.predicted:.3g} for a measured "
            f"{self.measured:.3g})"
        )


def missed(
    sizes: Iterable[float], predicted: Float[np.ndarray, " sizes"], measured: Float[np.ndarray, "sizes draws"]
) -> Missed | None:
    """The size at which the prediction is furthest from the squared errors of all training sets; None if nowhere far.

    Each of them, not their mean: a few hard inputs can make one training set's error many times that of another.
    """
    found = []
    for n, expected, values in zip(sizes, predicted, measured, strict=True):
        too_low, too_high = values.min() > FACTOR * expected, FACTOR * values.max() < expected
        if too_low or too_high:
            found.append(Missed(int(n), float(expected), float(values.mean())))
    far = lambda m: abs(np.log(max(m.measured, 1e-300) / max(m.predicted, 1e-300)))
    return max(found, key=far, default=None)


def drawn_errors(
    K: Float[np.ndarray, "pool pool"], y: Float[np.ndarray, "pool outputs"], size: int, ridge: float, seed: int = 0
) -> Float[np.ndarray, " draws"]:
    """Squared errors, summed over outputs, of kernel regression on random training sets, on the inputs left."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(_DRAWS):
        order = rng.permutation(len(K))
        a, b = order[:size], order[size:]
        inner = K[np.ix_(a, a)]
        inner[np.diag_indices(size)] += ridge
        weights, *_ = (
            scipy.linalg.lstsq(inner, y[a]) if ridge == 0 else (scipy.linalg.solve(inner, y[a], assume_a="sym"),)
        )
        found.append(float(((K[np.ix_(b, a)] @ weights - y[b]) ** 2).sum(axis=1).mean()))
    return np.array(found)


def warn_where_missed(
    name: str, K: Numbers, y: Numbers, sizes: Numbers, risks: Float[np.ndarray, " sizes"], ridge: float
) -> None:
    """Log a warning where the largest size that leaves inputs to test on is predicted badly."""
    K, sizes = np.asarray(K, np.float64), np.asarray(sizes)
    y = np.asarray(y, np.float64).reshape(len(K), -1)
    possible = [i for i, n in enumerate(sizes) if 1 <= n <= len(K) - 1]
    if not possible:
        return
    i = max(possible, key=lambda i: sizes[i])
    n = int(sizes[i])
    found = missed([n], risks[i : i + 1], drawn_errors(K, y, n, ridge)[None])
    if found is not None:
        logger.warning(
            "%s is %s, in the mean over %d random training sets: inputs of the pool may nearly repeat each other, or a "
            "few decide; measure the curve instead",
            name,
            found,
            _DRAWS,
        )
