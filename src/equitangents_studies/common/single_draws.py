"""Accuracies of single infinitely wide networks: draws of GP(μ, Σ), the law of one trained network in the limit.

The NTK's prediction μ is the mean of infinitely many such networks, which a single one of finite width is not alike:
its initial outputs are still in what it predicts. A draw has them as well, and is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np

from equitangents.ensembles import InfiniteEnsemble
from equitangents.kernels import KernelFunction
from equitangents_studies.common.system_images import SystemImages
from equitangents_studies.framework.study import Arrays, Task
from equitangents_studies.systems import transformation

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
