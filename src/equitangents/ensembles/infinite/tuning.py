"""Choosing among ensembles by leave-one-out, with one decomposition per kernel matrix.

A grid's candidates are all combinations of its values. Those that differ in ridge, time or learning rate (`PATH`) share
their decomposition, at O(N²) each; other parameters change the kernel matrix.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from equitangents._types import Numbers, Targets
from equitangents.ensembles.infinite.leave_one_out import LabelsLeftOut, LeaveOneOut
from equitangents.ensembles.infinite.training import Training
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.formatting import duration
from equitangents.inference.spectrum import Ridge
from equitangents.kernels.random_features import RandomFeatures
from equitangents.keywords import unknown
from equitangents.nn.variants import vary
from equitangents.solvers.spectral import Eigh
from equitangents.statistics import Estimate, bootstrap_intervals, exactly, no_interval

_SHOWN = 10
PATH = ("ridge", "time", "learning_rate")
NETWORK = ("depth", "W_std", "b_std", "nonlinearity")
logger = logging.getLogger("equitangents")


@dataclass(frozen=True)
class TuningCandidate:
    """One combination of the grid's values.

    params: in the form of the grid. score: NaN if it could not be computed; `note` holds the reason. difference: score
    minus the best one's, with its 95 % interval over training samples. tied: whether that interval contains 0.
    """

    params: Mapping[str, Any]
    score: float
    difference: Estimate
    tied: bool
    note: str = ""


E = TypeVar("E", bound=BaseEstimator)


@dataclass(frozen=True, repr=False)
class Tuning(Generic[E]):
    """The candidates of a grid, in the grid's order; `print` shows the best ten.

    measure: the kind of score ("leave-one-out mean squared error", "leave-one-out accuracy").
    best: the best candidate's ensemble, fitted to all samples. matrices: number of kernel matrices computed and
    decomposed. seconds: wall-clock time, including the fit of the best. standardised_by: the samples that standardise
    inputs, see `LeaveOneOut`.
    """

    measure: str
    candidates: tuple[TuningCandidate, ...]
    best: E
    best_index: int
    matrices: int
    seconds: float
    standardised_by: str = "nothing"

    @property
    def best_params(self) -> dict[str, Any]:
        """The best candidate's values, in the form of the grid."""
        return dict(self.candidates[self.best_index].params)

    @property
    def best_score(self) -> float:
        """The best candidate's score."""
        return self.candidates[self.best_index].score

    @property
    def ties(self) -> tuple[TuningCandidate, ...]:
        """The other candidates whose score does not differ significantly from the best."""
        return tuple(c for i, c in enumerate(self.candidates) if c.tied and i != self.best_index)

    def __repr__(self) -> str:
        best, sign = self.candidates[self.best_index], -1 if is_classifier(self.best) else 1
        scored = [c for c in self.candidates if not math.isnan(c.score)]
        scored.sort(key=lambda c: (c is not best, sign * c.score))
        mark = lambda c: "best" if c is best else "tied" if c.tied else ""
        rows = [
            ("score", self.measure),
            ("inputs standardised by", self.standardised_by),
            ("candidates with a score", f"{len(scored)} of {len(self.candidates)}"),
            ("kernel matrices, time", f"{self.matrices}, {duration(self.seconds)}"),
            *((f"{c.score:.4g}", f"{dict(c.params)}  {mark(c)}".rstrip()) for c in scored[:_SHOWN]),
        ]
        return "\n".join(f"{name:<24}{value}" for name, value in rows)


@dataclass(frozen=True)
class Point:
    """One candidate: its values in the form of the grid, and its ensemble, not fitted."""

    values: dict[str, Any]
    ensemble: BaseEstimator
    matrix: tuple[int, ...]  # candidates with the same share a kernel matrix


def points(model: BaseEstimator, grid: object) -> list[Point]:
    """Every combination of the grid's values, or of several grids', in order; the last name varies fastest.

    Raises InvalidArgumentError or InvalidTypeError for names and values that the ensemble cannot take.
    """
    found: list[Point] = []
    for number, one in enumerate(grid if isinstance(grid, list | tuple) else [grid]):
        lists = _lists(model, one)
        for places in itertools.product(*(range(len(values)) for values in lists.values())):
            values = {name: lists[name][i] for name, i in zip(lists, places, strict=True)}
            fixed = (i for name, i in zip(lists, places, strict=True) if name not in PATH)
            found.append(Point(values, _ensemble(model, values), (number, *fixed)))
    if not found:
        raise InvalidArgumentError("grid", grid, remedy="it holds no candidate")
    return found


def _lists(model: BaseEstimator, grid: object) -> dict[str, list[Any]]:
    if not isinstance(grid, Mapping):
        raise InvalidTypeError("grid", grid, "a mapping of names to lists of values, or a list of such")
    known = [*model.get_params(deep=False), *NETWORK]
    lists: dict[str, list[Any]] = {}
    for name, values in grid.items():
        if name not in known:
            raise unknown("grid", name, sorted(known))
        values = np.atleast_1d(values).tolist() if isinstance(values, np.ndarray) else values
        lists[name] = list(values) if isinstance(values, list | tuple | range) else [values]  # else the only one
        if not lists[name]:
            raise InvalidArgumentError("grid", values, "at least one value", at=name)
    return lists


def _ensemble(model: BaseEstimator, values: Mapping[str, Any]) -> Any:
    """`model` with these values, not fitted, and checked."""
    params = {name: value for name, value in values.items() if name not in NETWORK}
    if params.get("augmentation", model.augmentation) is None and "label_action" not in values:
        params["label_action"] = None  # it moves labels along with inputs, which stay
    varied = {name: values[name] for name in NETWORK if name in values}
    net = params.get("net", model.net)
    if callable(net) and not hasattr(net, "kernel"):
        params["net"] = net(**varied)
    elif varied:
        params["net"] = vary(net, **varied)
    ensemble = clone(model).set_params(**params)
    ensemble._check_parameters()
    return ensemble


@dataclass(frozen=True)
class Score:
    """A candidate's score, its sort key (smallest first), and each sample's contribution."""

    value: float
    rank: tuple[float, ...]
    samples: np.ndarray

    @classmethod
    def of(cls, found: LeaveOneOut | LabelsLeftOut) -> Score:
        """The score of leave-one-out predictions."""
        if isinstance(found, LabelsLeftOut):
            rank = (-found.accuracy, found.outputs.mean_squared_error)
            return cls(found.accuracy, rank, found.hits.astype(np.float64))
        return cls(found.mean_squared_error, (found.mean_squared_error,), found.squared_errors)


def tune(model: E, grid: object, x: Numbers, y: Targets) -> Tuning[E]:
    """Score every candidate of the grid on x, y and fit the best; see `InfiniteEnsemble.tune`."""
    candidates, start, matrices = points(model, grid), time.perf_counter(), 0
    scores: dict[int, Score] = {}
    errors: dict[int, Exception] = {}
    solved: Training | None = None  # the best candidate's so far
    sharing: dict[tuple[int, ...], list[int]] = {}  # by kernel matrix
    for i, point in enumerate(candidates):
        sharing.setdefault(point.matrix, []).append(i)
    for places in sharing.values():
        # The largest ridge first: what only a ridge makes positive definite is decomposed with it.
        order = sorted(places, key=lambda i: (-Ridge.read(candidates[i].ensemble.ridge).least, i))
        first = candidates[order[0]].ensemble
        try:
            training = first._prepare(x, y).decomposed
        except InvalidArgumentError as error:
            errors |= dict.fromkeys(places, error)
            continue
        matrices += 1
        for i in order:
            here, each = training, candidates[i].ensemble
            try:
                if each is not first:
                    here = training.with_settings(replace(each._check_parameters(), method=Eigh()))
                scores[i] = Score.of(first._left_out(here, float(each.time)))
            except InvalidArgumentError as error:
                errors[i] = error
            else:
                solved = here if _best(scores) == i else solved
    while (best := _best(scores)) >= 0:
        chosen = candidates[best].ensemble
        try:
            own = chosen._prepare(x, y)
            chosen._solve(solved if solved is not None and _as_its_own(solved, own) else own)
            break
        except InvalidArgumentError as error:  # its own solver fails where a decomposition gave a score
            del scores[best]
            errors[best], solved = error, None
    else:
        raise errors[min(errors)] if errors else InvalidArgumentError("no candidate has a finite score")
    classifies = is_classifier(chosen)
    result = Tuning(
        "leave-one-out accuracy" if classifies else "leave-one-out mean squared error",
        _table(candidates, scores, errors, best, (-1.0, 1.0) if classifies else None),
        chosen,
        best,
        matrices,
        time.perf_counter() - start,
        "all samples" if any(point.ensemble.standardise for point in candidates) else "nothing",
    )
    logger.info("tune: %s, score %.4g", result.best_params, result.best_score)
    return result


def _best(scores: Mapping[int, Score]) -> int:
    """Index of the best finite score, the first of equal ones; −1 if there is none."""
    finite = (i for i, score in scores.items() if math.isfinite(score.value))
    return min(finite, key=lambda i: (*scores[i].rank, i), default=-1)


def _as_its_own(scored: Training, own: Training) -> bool:
    """Whether the scored training is solved as the ensemble's own fit would solve it.

    A decomposition equals "auto" and every exact solver, except for kernels of features, which have their own solver.
    """
    method = own.settings.method
    any_exact = method is None and not isinstance(own.kernel, RandomFeatures)
    return any_exact or scored.settings.method == method or isinstance(method, Eigh)


def _table(
    candidates: list[Point],
    scores: dict[int, Score],
    errors: dict[int, Exception],
    best: int,
    bounds: tuple[float, float] | None,
) -> tuple[TuningCandidate, ...]:
    """All candidates; differences of mean scores have intervals from paired samples."""
    known = [i for i in sorted(scores) if math.isfinite(scores[i].value)]
    pairs = np.stack([scores[i].samples - scores[best].samples for i in known], axis=1)
    intervals = zip(*bootstrap_intervals(pairs, bounds=bounds), strict=True)
    differences = {
        i: Estimate(*map(float, interval)) if pairs[:, at].any() else exactly(0.0)
        for at, (i, interval) in enumerate(zip(known, intervals, strict=True))
    }
    rows = []
    for i, point in enumerate(candidates):
        difference = differences.get(i, no_interval(math.nan))
        value = scores[i].value if i in known else math.nan
        tied = i in known and not (difference.has_interval and not difference.low <= 0 <= difference.high)
        note = str(errors[i]) if i in errors else "" if i in known else "the score is not a finite number"
        rows.append(TuningCandidate(point.values, value, difference, tied, note))
    return tuple(rows)
