"""One network trained as arXiv 2207.04612 counts runs: on moved images, with the highest test accuracy along training.

A run counts if its training accuracy reaches 95 %. The transformation, the initial weights and the images are those of
the repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from equitangents.extending import FiniteNetwork, Workers
from equitangents_studies.common.system_images import SystemImages
from equitangents_studies.framework.study import Arrays
from equitangents_studies.systems import GradientInference, System

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
