"""Infinitely wide ensembles in the studies: times in units of the data, and distances between predictions.

A unit of time is N/(η λ_max): after one, the fastest direction of the training kernel has decayed to 1/e.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equitangents.actions import Action
from equitangents.ensembles import InfiniteEnsemble
from equitangents.extending import ArrayLike
from equitangents.kernels import KernelFunction
from equitangents_studies.common.orbits import by_element, orbit_batch


def unit_times(model: InfiniteEnsemble, units: Sequence[float] | np.ndarray) -> np.ndarray:
    """Training times of a fitted `model` after `units` of time."""
    return np.asarray(units, dtype=np.float64) * float(model.max_learning_rate_) / 2 / model.learning_rate


def largest_rate(net: KernelFunction, x: np.ndarray, y: np.ndarray, **options: Any) -> float:
    """The largest learning rate at which gradient descent in steps does not grow."""
    return float(InfiniteEnsemble(net, time=0.0, **options).fit(x, y).max_learning_rate_)


def gradient_descent(
    net: KernelFunction, x: np.ndarray, y: np.ndarray, rate: float, **options: Any
) -> InfiniteEnsemble:
    """An ensemble fitted by gradient descent in steps, with `rate` times the largest stable learning rate."""
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
