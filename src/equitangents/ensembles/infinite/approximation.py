"""How far what is trained on random features is from what the exact kernel would give: both, on a small sample."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from equitangents._types import ArrayLike
from equitangents.ensembles.infinite import problem
from equitangents.ensembles.infinite.training import Training
from equitangents.kernels.random_features import FeatureMap

_SAMPLE = 256  # training inputs whose exact kernel is computed
_TRAINED = 0.75  # of them; the others are predicted


@dataclass(frozen=True)
class Approximation:
    """Features against the exact kernel, on `samples` random training inputs, of which `predicted` are held out.

    difference: root mean square of the difference between both predictions at the held-out inputs, over that of the
    exact ones; both trained on the other inputs, with the ensemble's time, ridge and dynamics. kernel_error: of the
    kernels between all of them, centred (without the part that is the same for all inputs), in the Frobenius norm over
    that of the exact one. Both are of the sample: with more inputs at the same ridge, more features are needed.
    """

    difference: float
    kernel_error: float
    samples: int
    predicted: int


def approximation(training: Training, time: float) -> Approximation | None:
    """What features cost a training in accuracy; None for an exact kernel."""
    kernel = training.kernel
    if not isinstance(kernel, FeatureMap):
        return None
    chosen = np.random.default_rng(0).permutation(len(training.x))[:_SAMPLE]
    labels = training.labels if training.labels.ndim == 2 else training.labels[0]
    x, y = np.asarray(training.x)[chosen], labels[chosen]
    trained = max(1, int(_TRAINED * len(x)))
    settings = replace(training.settings, held=None, store=None, solver="auto")
    predicted = []
    for each in (kernel.exact, kernel):
        solved = problem.dense(each, x[:trained], y[:trained], settings)
        predicted.append(solved.means(x[trained:], np.array([time]))[0])
    exact, ours = predicted
    one, other = (_centred(getattr(each.kernel(x), settings.field)) for each in (kernel.exact, kernel))
    return Approximation(_relative(ours, exact), _relative(other, one), len(x), len(x) - trained)


def _centred(kernel: ArrayLike) -> np.ndarray:
    k = np.asarray(kernel, np.float64)
    return np.asarray(k - k.mean(axis=0) - k.mean(axis=1)[:, None] + k.mean())


def _relative(found: np.ndarray, exact: np.ndarray) -> float:
    size = float(np.linalg.norm(exact))
    return float(np.linalg.norm(found - exact)) / size if size > 0 else 0.0
