"""Infinitely wide ensembles in the studies: times in units of the data, and the distribution of f(gx) − f(x).

A unit of time is N/(η λ_max): after one, the fastest direction of the training kernel has decayed to 1/e. For the mean
of M members E |f̄(gx) − f̄(x)|² = B + A/M: B is the squared expected change, A one member's variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action
from equitangents.ensembles import InfiniteEnsemble
from equitangents.extending import ArrayLike
from equitangents.kernels import KernelFunction
from equitangents_studies.common.orbits import by_element, deviations, orbit_batch


def unit_times(model: InfiniteEnsemble, units: Sequence[float] | np.ndarray) -> np.ndarray:
    """Training times of a fitted `model` after `units` of time."""
    return np.asarray(units, dtype=np.float64) * float(model.max_learning_rate_) / 2 / model.learning_rate


def largest_rate(net: KernelFunction, x: np.ndarray, y: np.ndarray, **options: Any) -> float:
    """The largest stable learning rate of gradient descent."""
    return float(InfiniteEnsemble(net, time=0.0, **options).fit(x, y).max_learning_rate_)


def gradient_descent(
    net: KernelFunction, x: np.ndarray, y: np.ndarray, rate: float, **options: Any
) -> InfiniteEnsemble:
    """An ensemble fitted by gradient descent (discrete steps) with `rate` times the largest stable learning rate."""
    # The fastest direction is shared by all inputs and labels, so that only invariant labels are sure to show it.
    invariant = {key: value for key, value in options.items() if key != "label_action"}
    trials = (options, invariant) if "label_action" in options else (options,)
    largest = min(largest_rate(net, x, y, **trial) for trial in trials)
    settings = {**options, "learning_rate": rate * largest, "dynamics": "discrete"}
    return InfiniteEnsemble(net, time=0.0, **settings).fit(x, y)


def orbit_means(model: InfiniteEnsemble, action: Action, x: np.ndarray, times: np.ndarray) -> np.ndarray:
    """μ_t on every orbit: (T, |G|, N, outputs)."""
    mean = model.predict(orbit_batch(action, x), time=times)
    return by_element(action, mean if mean.ndim == 3 else mean[..., None])


def largest_difference(a: ArrayLike, b: ArrayLike) -> float:
    """max |a − b| / max |b|."""
    return float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(b).max())


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


def squares_of_means(
    d: Float[np.ndarray, "members values"], sizes: tuple[int, ...]
) -> Float[np.ndarray, "batches sizes"]:
    """Mean square change of means of M members for every M of `sizes`, a row for every batch of the largest."""
    largest = max(sizes)
    batches = d[: len(d) // largest * largest].reshape(-1, largest, d.shape[1])
    of = lambda m: (batches.reshape(len(batches), -1, m, d.shape[1]).mean(axis=2) ** 2).mean(axis=(1, 2))
    return np.stack([of(m) for m in sizes], axis=1)
