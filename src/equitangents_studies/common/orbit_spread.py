"""What a Gaussian process and an ensemble say about f(gx) − f(x): expected squares, bias and fluctuation.

Of the mean of M members, E |f̄(gx) − f̄(x)|² = B + A/M: B the square of the expected change, A the variance of one's.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.ensembles import InfiniteEnsemble
from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.common.orbits import by_element, deviations, orbit_batch


def predicted_parts(
    model: InfiniteEnsemble, action: Action, x: np.ndarray, times: np.ndarray
) -> tuple[Float[np.ndarray, " times"], Float[np.ndarray, " times"]]:
    """(A, B) at infinite width, means over inputs and g ≠ e: `expected_squares`, and |μ(gx) − μ(x)|²."""
    mean, covariance = model.predict(orbit_batch(action, x), time=times, return_cov=True)
    bias = deviations(action, by_element(action, mean[..., None])[..., 0])
    return expected_squares(action, covariance, len(x)), (bias**2).mean(axis=(1, 2))


def expected_squares(
    action: Action, covariance: Float[np.ndarray, "times order_n order_n"], n: int
) -> Float[np.ndarray, " times"]:
    """Mean over inputs and g ≠ e of Σ(gx,gx) + Σ(x,x) − 2 Σ(gx,x): the variance of one network's change."""
    order, e, k = action.group.order, action.group.identity, np.arange(n)
    c = covariance.reshape(len(covariance), order, n, order, n)
    terms = [c[:, g, k, g, k] + c[:, e, k, e, k] - 2 * c[:, g, k, e, k] for g in range(order) if g != e]
    return np.mean(terms, axis=(0, 2))


def fluctuation(squares: Float[np.ndarray, " members"], bias: float, level: float = 0.95) -> Estimate:
    """A from the members' mean square changes, less B; the interval is over members."""
    return bootstrap(squares, lambda m: m - bias, confidence=level)


def squares_of_means(
    d: Float[np.ndarray, "members values"], sizes: tuple[int, ...]
) -> Float[np.ndarray, "batches sizes"]:
    """Mean square change of means of M members for every M of `sizes`, a row for every batch of the largest."""
    largest = max(sizes)
    batches = d[: len(d) // largest * largest].reshape(-1, largest, d.shape[1])
    of = lambda m: (batches.reshape(len(batches), -1, m, d.shape[1]).mean(axis=2) ** 2).mean(axis=(1, 2))
    return np.stack([of(m) for m in sizes], axis=1)
