"""Runs of learning systems: trained networks as arXiv 2207.04612 counts them, draws of infinitely wide ones, kernels.

A run is one network trained on moved images, with the highest test accuracy along training. It counts if its training
accuracy reaches 95 %. The transformation, the initial weights and the images are those of the repetition.

Single infinitely wide networks are draws of GP(μ, Σ), the law of one trained network in the limit. The NTK's prediction
μ is the mean of infinitely many such networks, which a single one of finite width is not alike: its initial outputs are
still in what it predicts. A draw has them as well, and is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import numpy as np

from equitangents.ensembles import InfiniteEnsemble
from equitangents.extending import FiniteNetwork, Workers
from equitangents.kernels import KernelFunction
from equitangents.solvers import solve
from equitangents_studies.common.system_images import SystemImages
from equitangents_studies.framework.study import Arrays, Task
from equitangents_studies.systems import GradientInference, System, transformation

COUNTED = 0.95
"""Training accuracy from which a run counts."""

KEYS = ("best", "last", "learnt", "epochs")


def counted_runs(
    group: str,
    net: FiniteNetwork,
    learning: GradientInference,
    seed: int,
    images: Sequence[SystemImages],
    *,
    first_alone: bool,
) -> np.ndarray:
    """(repetitions, 4), KEYS: the highest test accuracy along training, the last, that on training data, and epochs.

    Repetition r has the seed + r. `first_alone`: the others wait for the first, which compiles.
    """
    with Workers() as workers:
        of = partial(_one, group, net, learning, seed, images)
        return np.array(workers.map(of, range(len(images)), first_alone=first_alone))


def by_key(rows: Sequence[np.ndarray]) -> Arrays:
    """Several of them as arrays (…, repetitions) by key."""
    stacked = np.stack(rows)
    return {key: stacked[..., k] for k, key in enumerate(KEYS)}


def counting(best: np.ndarray, learnt: np.ndarray) -> np.ndarray:
    """Accuracies in percent, NaN for runs that do not count."""
    return np.where(learnt >= COUNTED, 100 * best, np.nan)


def _one(
    group: str, net: FiniteNetwork, learning: GradientInference, seed: int, images: Sequence[SystemImages], r: int
) -> list[float]:
    one = images[r]
    fitted = System(group, net, learning, seed + r).fit(one.train_x, one.train_y, watch=(one.test_x, one.test_y))
    trained = fitted.trained
    along = trained.watched[:, 0]
    return [float(along.max()), float(along[-1]), float(trained.accuracies[0]), float(trained.epochs[0])]


DRAWS = 50
"""Networks drawn on each set of images."""


def draw_accuracies(
    net: KernelFunction,
    images: Sequence[SystemImages],
    groups: Sequence[str],
    ridge: float,
    seed: int,
    task: Task,
    draws: int = DRAWS,
) -> Arrays:
    """`draws` (groups, repetitions, draws) and `mean` (groups, repetitions): test accuracies of single draws, and of μ.

    Repetition r moves its images by the elements that the seed + r draws, as networks do.
    """
    single = np.zeros((len(groups), len(images), draws))
    mean = np.zeros(single.shape[:2])
    for i, group in enumerate(groups):
        for r, one in enumerate(images):
            tau = transformation(group, one.train_x.shape[1:], seed=seed + r)
            x, test = (np.asarray(tau(part), np.float32) for part in (one.train_x, one.test_x))
            right = right_of(one.test_y)
            ensemble = InfiniteEnsemble(net, ridge=ridge).fit(x, one.targets)
            mean[i, r] = right(ensemble.predict(test))
            single[i, r] = right(ensemble.sample(test, draws, key=jax.random.key(seed + r)))
            task.step(i * len(images) + r + 1, len(groups) * len(images))
    return {"draws": single, "mean": mean}


def right_of(labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The share of inputs that outputs (…, inputs, classes) classify rightly."""
    return lambda outputs: np.asarray((outputs.argmax(axis=-1) == labels).mean(axis=-1))


def predicted(K: np.ndarray, across: np.ndarray, targets: np.ndarray, ridge: float) -> np.ndarray:
    """Kernel regression in float64: Θ(x, X)(Θ + δ)⁻¹Y, δ = ridge · (mean diagonal)."""
    weights = solve(np.asarray(K, np.float64), targets, ridge=ridge, solver="cholesky").coefficients
    return across.astype(np.float64) @ weights


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest value of b; NaN where anything is not finite."""
    difference = np.max(np.abs(np.asarray(a, np.float64) - b)) / np.max(np.abs(b))
    return float(difference) if np.isfinite(a).all() else math.nan
