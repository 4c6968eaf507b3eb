"""Errors of kernels that learn from the same growing training sets, and how many inputs one saves another.

Each draw has training and test inputs of its own; its training sets are nested. All kernels have the same ridge
relative to their mean diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from equitangents.solvers import solve
from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.moving_outputs.kernels import (
    Symmetry,
    as_columns,
    moved_copies,
    moved_kernels,
    moved_targets,
)
from equitangents_studies.common.moving_outputs.problem import RIGHT, Problem
from equitangents_studies.framework.study import Arrays, Task
from equitangents_studies.systems.factors import log_factor_at_end

SHOWN = 4  # test inputs whose predictions are kept for figures
_MOST_ROWS = 2400  # of the kernel of all moved copies, which is solved as it stands


def learnt(
    K: Float[np.ndarray, "m m"], B: Float[np.ndarray, "t m"], y: Float[np.ndarray, "m outputs"], ridge: float
) -> Float[np.ndarray, "t outputs"]:
    """What the kernel predicts after training to the end: B (K + ridge)⁻¹ y."""
    system = K + K.T
    system /= 2
    solution = solve(system, y, ridge=ridge, ridge_unit=1.0, solver="cholesky", overwrite=True)
    return np.asarray(B @ solution.coefficients)


def unit(K: Float[np.ndarray, "m m"]) -> float:
    """The mean diagonal, to which ridges are relative."""
    return float(np.diagonal(K).mean())


def without_negative(K: Float[np.ndarray, "m m"]) -> Float[np.ndarray, "m m"]:
    """A kernel known to a tolerance, with its negative eigenvalues set to 0."""
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    found: np.ndarray = (vectors * np.maximum(values, 0)) @ vectors.T
    return found


def scores_of_a_draw(p: Problem, k: int, task: Task) -> Arrays:
    """`score_name` (sizes,) of every score and symmetry, and `shown_name` (sizes, SHOWN, …), what is predicted of a few
    test inputs; `apart` (sizes,), how far training on all moved copies under the right symmetry is from its kernel,
    relative to the largest output, where they are not too many, as `explicit` (sizes,) says.
    """
    x, y, test, target = p.draw(k)
    grams = moved_kernels(p.kernel, p.symmetries, x, x, p.positions, lambda a, b: task.step(a / b, 4))
    cross = moved_kernels(p.kernel, p.symmetries, test, x, p.positions, lambda a, b: task.step(1 + a / b, 4))
    sizes = len(p.sizes)
    found: Arrays = {f"{score}_{name}": np.zeros(sizes) for name in p.symmetries for score in p.scores}
    copies = len(p.symmetries[RIGHT].chosen) * math.prod(p.positions)
    found["explicit"] = np.asarray(p.sizes) * copies <= _MOST_ROWS
    found["apart"] = np.full(sizes, np.nan)
    for i, (name, symmetry) in enumerate(p.symmetries.items()):
        if symmetry.whole is not None:
            grams[name] = without_negative(grams[name])
        each, shown = len(grams[name]) // len(x), []
        for j, size in enumerate(p.sizes):
            few = size * each
            K, B = grams[name][:few, :few], cross[name][:, :few]
            predicted = learnt(K, B, as_columns(y[:size], few), p.ridge * unit(K)).reshape(target.shape)
            for score, s in p.scores.items():
                found[f"{score}_{name}"][j] = s.of(predicted, target)
            shown.append(predicted[:SHOWN])
            if name == RIGHT and found["explicit"][j]:
                other = by_augmentation(p, x[:size], y[:size], test, p.ridge * unit(K))
                found["apart"][j] = largest_difference(other.reshape(target.shape), predicted)
        found[f"shown_{name}"] = np.stack(shown)
        task.step(2 + 2 * (i + 1) / len(p.symmetries), 4)
    return found


def by_augmentation(
    p: Problem,
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    test: Float[np.ndarray, "m ..."],
    ridge: float,
) -> Float[np.ndarray, "rows outputs"]:
    """What the plain kernel predicts of `test` after training on all copies of x with their targets.

    The ridge is that of the mean over copies: |G| times as large for their sum.
    """
    symmetry = p.symmetries[RIGHT]
    bare, copies = Symmetry("", symmetry.inputs), moved_copies(symmetry, x)
    K = moved_kernels(p.kernel, {"": bare}, copies, copies, p.positions)[""]
    B = moved_kernels(p.kernel, {"": bare}, test, copies, p.positions)[""]
    return learnt(K, B, as_columns(moved_targets(symmetry, y, p.positions), len(K)), ridge * len(symmetry.chosen))


def inputs_saved(
    sizes: Sequence[int],
    without: Float[np.ndarray, "draws sizes"],
    with_group: Float[np.ndarray, "draws sizes"],
    level: float = 0.95,
) -> Estimate:
    """How many times as many inputs the first kernel needs as the second for the smallest error that both reach.

    Of mean errors over draws, sizes interpolated on logarithms; with the bootstrap's interval of its logarithm
    over draws. No more than the largest over the smallest size can be measured.
    """
    n = np.asarray(sizes, np.float64)
    logs = lambda means: np.array([log_factor_at_end(n, first, second) for first, second in means])
    most = math.log(n[-1] / n[0])
    found = bootstrap(np.stack([without, with_group], axis=1), logs, confidence=level, bounds=(-most, most))
    return Estimate(math.exp(found.value), math.exp(found.low), math.exp(found.high), level)
