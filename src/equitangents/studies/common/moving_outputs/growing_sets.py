"""Errors of kernels that learn from the same growing training sets, and how many images one saves another.

Each draw has training and test images of its own; its training sets are nested. All kernels have the same ridge
relative to their mean diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.linalg
from jaxtyping import Float

from equitangents.statistics import Estimate, bootstrap
from equitangents.studies.common.moving_outputs.kernels import PairKernel, Symmetry, as_columns, moved_kernels
from equitangents.systems.matched_errors import log_factor_at_end

SHOWN = 4  # test inputs whose predictions are kept for figures
Scores = Mapping[str, Callable[[np.ndarray, np.ndarray], float]]
Sets = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training inputs and targets, test inputs and targets."""


def learnt(
    K: Float[np.ndarray, "m m"], B: Float[np.ndarray, "t m"], y: Float[np.ndarray, "m outputs"], ridge: float
) -> Float[np.ndarray, "t outputs"]:
    """What the kernel predicts after training to the end: B (K + ridge · mean diagonal)⁻¹ y."""
    system = (K + K.T) / 2
    system[np.diag_indices_from(system)] += ridge * float(np.diagonal(K).mean())
    weights = scipy.linalg.cho_solve(scipy.linalg.cho_factor(system, overwrite_a=True, check_finite=False), y)
    found: np.ndarray = B @ weights
    return found


def scores_of_a_draw(
    kernel: PairKernel,
    symmetries: Mapping[str, Symmetry],
    sets: Sets,
    positions: tuple[int, ...],
    sizes: Sequence[int],
    ridge: float,
    scores: Scores,
    step: Callable[[float, float], None],
) -> dict[str, np.ndarray]:
    """`score_name` (sizes,) of every score and symmetry, and `shown_name` (sizes, SHOWN, …), what is predicted of a few
    test inputs.
    """
    x, y, test, target = sets
    grams = moved_kernels(kernel, symmetries, x, x, positions, lambda a, b: step(a / b, 3))
    cross = moved_kernels(kernel, symmetries, test, x, positions, lambda a, b: step(1 + a / b, 3))
    found = {f"{score}_{name}": np.zeros(len(sizes)) for name in symmetries for score in scores}
    for i, name in enumerate(symmetries):
        each, shown = len(grams[name]) // len(x), []
        for j, size in enumerate(sizes):
            few = size * each
            right = as_columns(y[:size], few)
            predicted = learnt(grams[name][:few, :few], cross[name][:, :few], right, ridge).reshape(target.shape)
            for score, of in scores.items():
                found[f"{score}_{name}"][j] = of(predicted, target)
            shown.append(predicted[:SHOWN])
        found[f"shown_{name}"] = np.stack(shown)
        step(2 + (i + 1) / len(symmetries), 3)
    return found


def images_saved(
    sizes: Sequence[int],
    without: Float[np.ndarray, "draws sizes"],
    with_group: Float[np.ndarray, "draws sizes"],
    level: float = 0.95,
) -> Estimate:
    """How many times as many images the first kernel needs as the second for the smallest error that both reach.

    Of mean errors over draws, sizes interpolated on logarithms; with the bootstrap's interval over draws. No more than
    the largest over the smallest size can be measured.
    """
    n = np.asarray(sizes, np.float64)

    def factor(means: np.ndarray) -> np.ndarray:
        return np.array([math.exp(log_factor_at_end(n, first, second)) for first, second in means])

    most = float(n[-1] / n[0])
    return bootstrap(np.stack([without, with_group], axis=1), factor, level=level, bounds=(1 / most, most))
