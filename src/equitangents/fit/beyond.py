"""Beyond the samples: how accuracy grows with their number, and what turning left-out images changes.

With r turns in the group the angles are 360°/r · k/9, k = 1 … 8; beyond the image's border its edge is read on. Each
image is predicted by the chosen network trained without its fold, with the ridge and temperature of the others.
"""

from __future__ import annotations

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from equitangents.actions.images import ImageMotions, ImageTurns, ResampledRotations
from equitangents.ensembles.standardisation import Standardisation
from equitangents.errors import InvalidArgumentError
from equitangents.fit.assessing import predicted
from equitangents.fit.problem import Problem
from equitangents.fit.result import Grown, Turned
from equitangents.fit.searching import Result
from equitangents.groups import cyclic
from equitangents.statistics import bootstrap

_ANGLES = 8
_FEWEST, _MOST = 40, 1_600  # turned copies in all
_SHARES = (0.125, 0.25, 0.5, 1.0)
_LEAST = 10  # samples of a part


def growth(result: Result, problem: Problem, rows: Int[np.ndarray, " scored"], seed: int) -> tuple[Grown, ...]:
    """How accuracy on the scored samples grows: each fold by networks trained on parts of the others, of whole sets.

    The ridge and temperature of a part are its own.
    """
    rng = np.random.default_rng(seed)
    every = np.arange(len(problem.sets))
    orders = [rng.permutation(np.setdiff1d(every, fold)) for fold in problem.folds]
    found = []
    for share in _SHARES:
        right, counts = np.full(len(problem.labels), np.nan), []
        for fold, order in zip(problem.folds, orders, strict=True):
            part = problem.part(order[: max(1, round(share * len(order)))].tolist())
            counts.append(len(part.rows))
            if not part.is_enough(_LEAST):
                break
            inside = problem.inside(fold)
            try:
                _, outputs = predicted(result.gram, problem, part, result.gram.matrix[inside])
            except InvalidArgumentError:
                break
            right[inside] = outputs.argmax(axis=1) == problem.labels[inside]
        if np.isfinite(right[rows]).all():
            found.append(Grown(round(float(np.mean(counts))), bootstrap(right[rows], bounds=(0.0, 1.0))))
    return tuple(found)


def doubled(curve: tuple[Grown, ...]) -> float | None:
    """The accuracy that is expected of twice the samples; None where the curve does not say it.

    The error is taken to fall by the ratio by which it fell from half of them, e(2m) = e(m)²/e(m/2).
    """
    if len(curve) < 2:
        return None
    half, whole = (1 - each.accuracy.value for each in curve[-2:])
    return 1 - whole**2 / half if 0 < whole <= half else None


def turning(
    result: Result,
    x: Float[np.ndarray, "n height width channels"],
    standardisation: Standardisation | None,
    problem: Problem,
    seconds: float,
    seed: int,
) -> tuple[Turned, ...]:
    """The upright images and their copies at each angle, of as many images as can be predicted in `seconds`.

    Empty where images are no squares, the group is another one, or fewer than 40 copies can be predicted.
    """
    n, group = len(x), result.trial.action
    known = group is None or isinstance(group, (ImageTurns, ResampledRotations))
    count = min(_MOST, _ANGLES * n, int(seconds * result.tried.images_a_second))
    if not known or x.shape[1] != x.shape[2] or count < _FEWEST:
        return ()
    order = (1 if group is None else group.turns) * (_ANGLES + 1)
    action = ImageMotions(cyclic(order), lambda g: (360.0 * g / order, False), outside="edge")
    at = np.arange(count)  # every image once before any twice
    rows, elements = np.random.default_rng(seed).permutation(n)[at % n], 1 + (at + at // n) % _ANGLES
    copies = np.empty((count, *x.shape[1:]))
    for k in range(1, _ANGLES + 1):  # turned as they were given, and then standardised
        copies[elements == k] = action(k, np.asarray(x[rows[elements == k]], np.float64))
    logits = left_out(result, problem, copies if standardisation is None else standardisation(copies), rows)
    used = np.unique(rows)
    upright = problem.together(each for _, each in result.assessed.folds)
    found = [_turned(0.0, upright[used], problem.labels[used])]
    for k in range(1, _ANGLES + 1):
        here = elements == k
        found.append(_turned(360.0 * k / order, logits[here], problem.labels[rows[here]]))
    return tuple(found)


def left_out(
    result: Result, problem: Problem, copies: Float[np.ndarray, "m height width channels"], rows: np.ndarray
) -> Float[np.ndarray, "m classes"]:
    """Logits of inputs, each by the network trained without the fold of the sample in its row."""
    dtype = np.dtype(result.gram.precision)
    kernels = result.trial.kernel.kernel(copies.astype(dtype), result.trial.training.x.astype(dtype))
    cross = np.asarray(getattr(kernels, result.tried.kernel), np.float64)
    found = np.full((len(rows), len(problem.classes)), np.nan)
    for rest, inside in problem.split():
        here = np.isin(rows, inside)
        if here.any():
            best, outputs = predicted(result.gram, problem, rest, cross[here])
            found[here] = best.beta * outputs
    return found


def _turned(angle: float, logits: np.ndarray, labels: np.ndarray) -> Turned:
    probabilities = scipy.special.softmax(logits, axis=1)
    right = (probabilities.argmax(axis=1) == labels) * 1.0
    return Turned(angle, len(labels), bootstrap(right, bounds=(0.0, 1.0)), float(probabilities.max(axis=1).mean()))
