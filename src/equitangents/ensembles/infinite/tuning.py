"""Choosing among ensembles by leave-one-out or by marginal likelihood: one decomposition for every kernel matrix.

Candidates that differ in ridge, time or learning rate share their decomposition; each costs O(N²) more.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equitangents.ensembles.infinite.densities import sample_evidence
from equitangents.ensembles.infinite.grids import PATH, Point, points, same_matrix
from equitangents.ensembles.infinite.leave_one_out import LabelsLeftOut, LeaveOneOut
from equitangents.ensembles.infinite.training_problem import Training
from equitangents.ensembles.infinite.tuned import Candidate, Tuning
from equitangents.ensembles.training.settings import check_choice
from equitangents.errors import InvalidArgumentError
from equitangents.statistics import Estimate, bootstrap_intervals, exactly, no_interval

logger = logging.getLogger("equitangents")

CRITERIA = ("leave_one_out", "marginal_likelihood")
_BARE_MENTION = (
    1.0  # a difference of log likelihoods below it is "not worth more than a bare mention" (Kass & Raftery 1995)
)


@dataclass(frozen=True)
class Score:
    """A candidate's score, what decides between equal scores (smaller is better), and each sample's part of it."""

    measure: str
    larger_is_better: bool
    value: float
    second: float = 0.0
    samples: np.ndarray | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better; what is no number comes last."""
        value = -self.value if self.larger_is_better else self.value
        return (value, self.second) if math.isfinite(value) else (math.inf, math.inf)


def tune(model: Any, grid: Any, X: Any, y: Any, criterion: str) -> Tuning:
    """Score every candidate of the grid on X, y and fit the best; `InfiniteEnsemble.tune` says how."""
    check_choice("criterion", criterion, CRITERIA)
    candidates = points(model, grid)
    if criterion == "marginal_likelihood":
        _refuse_what_has_no_part(candidates)
    start = time.perf_counter()
    scores: list[Score | None] = [None] * len(candidates)
    errors: list[Exception | None] = [None] * len(candidates)
    matrices, best, solved = 0, -1, None
    for places in same_matrix(candidates):
        # The largest ridge first: what only a ridge makes positive definite is decomposed with it.
        order = sorted(places, key=lambda i: (-candidates[i].ensemble.ridge, i))
        try:
            ensemble, training = candidates[order[0]].ensemble._prepare(X, y)
            _ = training.mean_problem
            matrices += 1
        except InvalidArgumentError as error:
            for i in places:
                errors[i] = error
            continue
        for i in order:
            point = candidates[i]
            here = training if i == order[0] else None
            try:
                here = here or training.with_settings(replace(point.ensemble._check_parameters(), solver="eigh"))
                found = _score(candidates[order[0]].ensemble, ensemble, here, float(point.ensemble.time), criterion)
            except InvalidArgumentError as error:
                errors[i] = error
                continue
            scores[i] = found
            if math.isfinite(found.value) and (best < 0 or (*found.rank, i) < (*_known(scores[best]).rank, best)):
                best, solved = i, here
    if best < 0:
        raise next((e for e in errors if e is not None), None) or InvalidArgumentError(
            "no candidate has a finite score"
        )
    assert solved is not None
    chosen = candidates[best].ensemble
    chosen._solve(chosen._prepare(X, y)[0], solved)
    table = _table(candidates, scores, errors, best, criterion)
    top = _known(scores[best])
    result = Tuning(
        criterion,
        top.measure,
        top.larger_is_better,
        table,
        chosen,
        best,
        len(solved.given.x),
        matrices,
        time.perf_counter() - start,
    )
    logger.info("tune: %s", result.summary())
    return result


def _refuse_what_has_no_part(candidates: list[Point]) -> None:
    for name in (*PATH[1:], "dynamics"):
        if len({repr(point.values.get(name)) for point in candidates}) > 1:
            raise InvalidArgumentError(
                f"grid varies {name}, which has no part in the marginal likelihood; take criterion='leave_one_out'"
            )


def _score(model: Any, ensemble: Any, training: Training, t: float, criterion: str) -> Score:
    if criterion == "marginal_likelihood":
        return Score("log marginal likelihood", True, sample_evidence(training).log_density)
    found: LeaveOneOut | LabelsLeftOut = model._left_out(ensemble, training, t)
    if isinstance(found, LabelsLeftOut):
        hits = found.hits.astype(np.float64)
        return Score("leave-one-out accuracy", True, found.accuracy, found.mean_squared_error, hits)
    return Score("leave-one-out mean squared error", False, found.mean_squared_error, 0.0, found.squared_errors)


def _known(score: Score | None) -> Score:
    assert score is not None
    return score


def _table(
    candidates: list[Point], scores: list[Score | None], errors: list[Exception | None], best: int, criterion: str
) -> tuple[Candidate, ...]:
    top = _known(scores[best])
    differences = _differences(scores, best)
    rows = []
    for point, score, error, difference in zip(candidates, scores, errors, differences, strict=True):
        value = math.nan if score is None or not math.isfinite(score.value) else score.value
        note = str(error) if error else ("" if math.isfinite(value) else "the score is not a finite number")
        if criterion == "marginal_likelihood":
            tied = bool(top.value - value < _BARE_MENTION)
        else:
            apart = difference.has_interval and not difference.low <= 0 <= difference.high
            tied = math.isfinite(value) and not apart
        rows.append(Candidate(point.values, value, difference, tied, note))
    return tuple(rows)


def _differences(scores: list[Score | None], best: int) -> list[Estimate]:
    """Each score minus the best one's; for means over samples with an interval, of pairs of the same sample."""
    top = _known(scores[best])
    found = [no_interval(math.nan if s is None else s.value - top.value) for s in scores]
    if top.samples is None:
        return [exactly(f.value) for f in found]
    known = [i for i, s in enumerate(scores) if s is not None and math.isfinite(s.value)]
    pairs = np.stack([_known(scores[i]).samples - top.samples for i in known], axis=1)
    means, low, high = bootstrap_intervals(pairs, bounds=(-1.0, 1.0) if top.larger_is_better else None)
    for i, mean, lower, upper, column in zip(known, means, low, high, pairs.T, strict=True):
        found[i] = exactly(0.0) if not column.any() else Estimate(float(mean), float(lower), float(upper))
    return found
