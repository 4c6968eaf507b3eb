"""How accuracy grows with samples: each fold predicted by the chosen network trained on parts of the others.

The ridge and temperature of a part are its own. With twice the samples the error is taken to fall by the ratio by which
it fell from half of them, e(2m) = e(m)²/e(m/2).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from equitangents.errors import InvalidArgumentError
from equitangents.fit.assessing import best_of
from equitangents.fit.problem import Problem
from equitangents.fit.result import Grown
from equitangents.fit.searching import Result
from equitangents.statistics import bootstrap

_SHARES = (0.125, 0.25, 0.5, 1.0)
_LEAST = 10  # samples of a part


def growth(result: Result, problem: Problem, rows: Int[np.ndarray, " scored"], seed: int) -> tuple[Grown, ...]:
    """The learning curve of the chosen network on the scored samples; parts hold whole sets."""
    assert result.gram is not None
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
            try:
                solved, best = best_of(result.gram.part(part.rows), problem, part)
            except InvalidArgumentError:
                break
            inside = problem.inside(fold)
            outputs = solved.predicted(result.gram.matrix[np.ix_(inside, part.rows)], best.ridge)
            right[inside] = outputs.argmax(axis=1) == problem.labels[inside]
        if np.isfinite(right[rows]).all():
            found.append(Grown(round(float(np.mean(counts))), bootstrap(right[rows], bounds=(0.0, 1.0))))
    return tuple(found)


def doubled(curve: tuple[Grown, ...]) -> float | None:
    """The accuracy that is expected of twice the samples; None where the curve does not say it."""
    if len(curve) < 2:
        return None
    half, whole = (1 - each.accuracy.value for each in curve[-2:])
    return 1 - whole**2 / half if 0 < whole <= half else None
