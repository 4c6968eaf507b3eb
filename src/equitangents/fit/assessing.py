"""How good one kernel is: its best ridge by left-out samples, among all samples and in each fold's rest.

The score is the log loss, the mean over classes of −log softmax(β f_i) at the label, f_i being outputs without the set
of sample i and β that of the smallest. A fold's samples are predicted by the rest, with the ridge and β that it chose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError
from equitangents.fit.left_out import Gram, Solved, calibrated, log_losses, weights_of
from equitangents.fit.problem import Part, Problem

_AS_GOOD = 1e-3  # of a log loss
_LIGHT = 1_000  # times the least work


@dataclass(frozen=True, eq=False)
class Best:
    """The best ridge of a kernel on some samples: its score, β, and the share of left-out samples that are right.

    losses: (sets,) what each set adds to the score.
    """

    log_loss: float
    ridge: float
    beta: float
    accuracy: float
    losses: Float[np.ndarray, " sets"]


@dataclass(frozen=True, eq=False)
class Assessed:
    """A kernel on all samples, and for each fold its `Best` on the rest and the fold's logits (b, K).

    least: the smallest ridge of the grid with which the kernel is invertible in its precision.
    """

    best: Best
    least: float
    folds: tuple[tuple[Best, Float[np.ndarray, "b classes"]], ...]


def assessed(gram: Gram, problem: Problem) -> Assessed:
    """The kernel of all samples, assessed; InvalidArgumentError where no ridge of the grid makes it invertible."""
    whole, best = best_of(gram, problem, problem.whole)
    folds = []
    for rest, inside in problem.split():
        solved, chosen = best_of(gram.part(rest.rows), problem, rest)
        outputs = solved.predicted(gram.matrix[np.ix_(inside, rest.rows)], chosen.ridge)
        folds.append((chosen, chosen.beta * outputs))
    return Assessed(best, whole.ridges[0], tuple(folds))


def best_of(gram: Gram, problem: Problem, part: Part) -> tuple[Solved, Best]:
    """The kernel of a part, decomposed, and its best ridge; raises as `assessed`."""
    labels = problem.labels[part.rows]
    weights = weights_of(labels)
    solved = Solved(gram, problem.targets[part.rows], part.sets)
    outputs = np.stack([solved.left_out(ridge) for ridge in solved.ridges]) if solved.ridges else np.empty(0)
    if not outputs.size:
        raise InvalidArgumentError("the kernel is not positive definite with any ridge of the grid")
    betas = calibrated(outputs, labels)
    losses = log_losses(betas[:, None, None] * outputs, labels) * weights / weights.sum()
    scores = losses.sum(axis=1)
    if not np.isfinite(scores).any():
        raise InvalidArgumentError("no ridge of the grid gives finite predictions of left-out samples")
    at = _within(np.where(np.isfinite(scores), scores, math.inf))
    hits = outputs[at].argmax(axis=1) == labels
    of_sets = np.array([losses[at, rows].sum() for rows in part.sets])
    return solved, Best(float(scores[at]), solved.ridges[at], float(betas[at]), float(hits.mean()), of_sets)


def as_good(found: Sequence[Best]) -> list[int]:
    """The numbers of those whose score is behind the best by at most a standard error of the difference, over sets."""
    best = min(found, key=lambda each: each.log_loss)

    def is_as_good(each: Best) -> bool:
        behind, n = each.losses - best.losses, len(best.losses)
        return bool(behind.sum() ** 2 <= n * behind.var(ddof=1)) or each.log_loss == best.log_loss

    return [i for i, each in enumerate(found) if is_as_good(each)]


def chosen_of(found: Sequence[Best], work: Sequence[int]) -> int:
    """The number of the best of little work among those that are as good as the best: at most 1,000 times the least.

    After the rule of one standard error (Breiman, Friedman, Olshen & Stone, *Classification and Regression Trees*,
    1984), which takes the least.
    """
    kept = as_good(found)
    most = _LIGHT * min(work[i] for i in kept)
    return min((i for i in kept if work[i] <= most), key=lambda i: (found[i].log_loss, work[i]))


def _within(scores: Float[np.ndarray, " ridges"]) -> int:
    """The number of the smallest score; at an end of the grid of the ridge that is farthest from it and as good.

    There predictions no longer change with the ridge, unless it is the smallest that the kernel's precision allows.
    """
    at = int(np.argmin(scores))
    as_good = scores <= scores[at] + _AS_GOOD
    if at == len(scores) - 1:
        return len(scores) - int(np.argmin(as_good[::-1])) if not as_good.all() else 0
    if at == 0:
        return int(np.argmin(as_good)) - 1 if not as_good.all() else len(scores) - 1
    return at
