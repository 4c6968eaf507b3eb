"""The best infinitely wide classifier of some hundred images or vectors, by left-out samples, within some minutes.

Candidates are tried from the cheapest on. What one costs is known from `kernel_cost`, scaled by how far earlier ones
were off, and then from its own first tiles: it is tried where it ends in time. Both of its kernels, all ridges and all
folds are read from one computation (`assessing`); the model that is chosen is solved with the kernels that are there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from equitangents._types import Numbers, Targets
from equitangents.actions.named import ActionLike
from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.ensembles.infinite.trained_kernel import kernel_diagonal
from equitangents.ensembles.infinite.training_problem import Training
from equitangents.ensembles.labels import indices_of
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.fit.assessing import Assessed, assessed
from equitangents.fit.baselines import NAMES
from equitangents.fit.baselines import baselines as baselines_of
from equitangents.fit.candidates import Candidate, candidates
from equitangents.fit.left_out import Gram
from equitangents.fit.problem import Problem, make_problem
from equitangents.fit.result import Choice, Scored, Tried, scored
from equitangents.kernels import KernelFunction, Kernels, orbit_average
from equitangents.kernels.cost.forecast import CostedKernel, as_part
from equitangents.nn import Sequential
from equitangents.validation import check_number, check_whole

LEAST, MOST = 4, 2_000
"""Samples of a choice: kernels are held in memory and decomposed for every fold."""

_TILES = 8  # of a side of a kernel matrix
_SHARE = 0.9  # of the time, after which nothing new is begun: the model has to be fitted
_BESIDE = 0.3  # of the time, after which no further baseline is begun
_FIELDS = ("nngp", "ntk")


@dataclass(frozen=True)
class Step:
    """How far a choice is: what is tried, the share of it that is done, seconds that are left, the best so far."""

    name: str
    share: float
    seconds_left: float
    best: Tried | None


Progress = Callable[[Step], None]


def auto(
    x: Numbers,
    y: Targets,
    *,
    augmentation: ActionLike | None = None,
    together: Numbers | None = None,
    minutes: float = 5.0,
    baselines: bool = True,
    standardise: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Choice:
    """The classifier of the smallest log loss of left-out samples, of dense, convolutional and pooled networks.

    Scores are exact: each sample is predicted by the model trained without its set. Ridges, both kernels (all layers
    trained, or the last alone) and sizes of images are chosen with the network. What is said of the chosen one is not
    the score that chose it: each of five folds is predicted by a choice made on the others, the temperature included.
    Inputs are standardised by all samples.

    Args:
        x: (N, features), or images (N, H, W, C); 4 to 2,000 of them.
        y: (N,) labels of any type.
        augmentation: the name of a group or an exact action, all of whose copies are trained on: see
            `InfiniteEnsemble`.
        together: (N,) what samples that belong together have in common, such as the slide that a tile is of: they are
            left out together, and lie in one fold. None: each sample is left out alone.
        minutes: what the choice may take, fit included; the cheapest network is tried in any case. Ctrl-C takes the
            best so far.
        baselines: whether the majority, nearest neighbours, a random forest and a support vector machine are fitted on
            the same folds.
        standardise: as in `InfiniteEnsemble`.
        seed: of the folds and of the forest.
        progress: is called with a `Step` now and then.

    Raises InvalidArgumentError for other inputs and labels, fewer than three sets, a class in one set alone, a group
    under which kernels are not known to be invariant, and where no candidate has a score.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(40, 3))
    >>> choice = auto(x, x[:, 0] > 0, baselines=False, minutes=1)
    >>> choice.score.accuracy.value > 0.7, choice.model.predict(x[:1]).tolist() == [bool(x[0, 0] > 0)]
    (True, True)
    """
    start = time.perf_counter()
    check_number("minutes", minutes, "a positive number", lambda m: 0 < m < math.inf)
    seed = check_whole("seed", seed, 0, 2**32 - 1)
    search = _Search(start + 60 * minutes * _SHARE, progress)
    shape = np.shape(x)
    if len(shape) not in (2, 4):
        raise ShapeError(f"x has shape {shape}; expected vectors (N, features) or images (N, H, W, C)")
    if not LEAST <= shape[0] <= MOST:
        raise InvalidArgumentError(f"x has {shape[0]:,} samples; expected {LEAST} to {MOST:,}: take InfiniteEnsemble")
    options = {"augmentation": augmentation, "standardise": standardise, "calibrate": True}
    every = candidates(shape[1:])
    first = InfiniteEnsembleClassifier(every[0].net, **cast(Any, options))
    _, training = first._prepare(x, y)
    labels = indices_of(first._data[1], first.classes_)
    problem = make_problem(labels, tuple(map(str, first.classes_)), together, seed)
    if training.augmentation is not None and training.reason is not None:
        raise InvalidArgumentError(
            f"augmentation is {augmentation!r}, with which copies are solved one by one ({training.reason}); expected "
            "a group of quarter turns and reflections, such as C4 or D4: name a network for this one"
        )
    others: dict[str, np.ndarray] = {}
    try:
        for name, probabilities in baselines_of(training.x, problem, training.augmentation, seed) if baselines else ():
            others[name] = probabilities
            search.told(name, 1.0)
            if time.perf_counter() > start + 60 * minutes * _BESIDE:
                break
        search.run(every, training, problem)
    except KeyboardInterrupt:
        if not search.results:
            raise
        search.interrupted = True
    if not search.results:
        raise search.nothing()
    model = search.fitted(x, y, options)
    score = scored("chosen", search.probabilities(problem), labels, problem.classes, problem.sets)
    return Choice(
        model,
        tuple(each.tried for each in search.results),
        search.chosen,
        score,
        tuple(_scored(others, problem, score)),
        tuple(search.untried),
        tuple(search.refused),
        NAMES[len(others) :] if baselines else (),
        len(problem.folds),
        None if together is None else len(problem.sets),
        time.perf_counter() - start,
        search.interrupted,
    )


def _scored(others: dict[str, np.ndarray], problem: Problem, score: Scored) -> Iterator[Scored]:
    for name, probabilities in others.items():
        yield scored(name, probabilities, problem.labels, problem.classes, problem.sets, score.held)


@dataclass(frozen=True, eq=False)
class _Result:
    """A candidate's network with one of its kernels, assessed."""

    tried: Tried
    assessed: Assessed
    net: Sequential
    kernels: Kernels | None  # where it was the best when it was tried


@dataclass(eq=False)
class _Search:
    """What was tried so far."""

    deadline: float
    progress: Progress | None
    results: list[_Result] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    interrupted: bool = False
    _slower: float = 1.0  # than foretold, the worst so far
    _assessing: float = 0.0  # seconds of the last

    @property
    def chosen(self) -> int:
        """The number of the best; of equal ones the first."""
        return min(range(len(self.results)), key=lambda i: self.results[i].tried.log_loss)

    def told(self, name: str, share: float) -> None:
        """Say how far it is."""
        if self.progress is not None:
            best = self.results[self.chosen].tried if self.results else None
            self.progress(Step(name, share, max(0.0, self.deadline - time.perf_counter()), best))

    def run(self, every: tuple[Candidate, ...], training: Training, problem: Problem) -> None:
        """Try candidates from the cheapest on."""
        x, action = training.x, training.augmentation
        kernel_of = lambda each: each.net if action is None else orbit_average(each.net, action)
        cost = lambda each: _seconds(kernel_of(each), x)
        for each, seconds in sorted(((each, cost(each)) for each in every), key=lambda pair: pair[1]):
            late = time.perf_counter() + self._slower * seconds + self._assessing > self.deadline
            if late and self.results:  # there is one in any case
                self.untried.append(each.name)
                continue
            start = time.perf_counter()
            kernels = self._computed(each.name, kernel_of(each), x)
            if kernels is None:
                self.untried.append(each.name)
                continue
            took = time.perf_counter() - start
            self._slower = max(self._slower, took / max(seconds, 1e-3)) if took > 1 else self._slower
            self._assess(each, kernels, training, problem, took)
            self._assessing = time.perf_counter() - start - took

    def _computed(self, name: str, kernel: KernelFunction, x: np.ndarray) -> Kernels | None:
        """Both kernels of x with itself, tile by tile; None where another has a score and the time is too short."""
        n = len(x)
        nngp, ntk = (np.empty((n, n), x.dtype if x.dtype.kind == "f" else np.float64) for _ in range(2))
        edges = np.linspace(0, n, min(_TILES, n) + 1).astype(int)
        parts = [slice(a, b) for a, b in pairwise(edges)]
        pairs, done, start = n * (n + 1) / 2, 0.0, time.perf_counter()
        with as_part():
            for i, a in enumerate(parts):
                for b in parts[i:]:
                    k = kernel.kernel(x[a]) if a == b else kernel.kernel(x[a], x[b])
                    for whole, part in ((nngp, k.nngp), (ntk, k.ntk)):
                        whole[a, b], whole[b, a] = part, np.asarray(part).T
                    size = (a.stop - a.start) * (b.stop - b.start)
                    done += size / 2 if a == b else size
                    now = time.perf_counter()
                    self.told(name, done / pairs)
                    late = now + (now - start) * (pairs - done) / done > self.deadline
                    if late and i and self.results:
                        return None
        return Kernels(nngp, ntk)

    def _assess(self, each: Candidate, kernels: Kernels, training: Training, problem: Problem, seconds: float) -> None:
        """Both kernels of a candidate; the best so far is kept with its kernels."""
        order = 1 if training.augmentation is None else training.augmentation.group.order
        for name in _FIELDS:
            matrix = np.asarray(getattr(kernels, name))
            variances = np.diag(matrix) if order == 1 else kernel_diagonal(each.net, training.x, cast(Any, name))
            gram = Gram(matrix.astype(np.float64), variances.astype(np.float64), order, matrix.dtype.name)
            try:
                found = assessed(gram, problem)
            except InvalidArgumentError as error:
                self.refused.append((f"{each.name} ({name})", str(error)))
                continue
            best = found.best
            tried = Tried(each.name, name, best.ridge, best.log_loss, best.accuracy, seconds, best.ridge == found.least)
            leads = not self.results or best.log_loss < self.results[self.chosen].tried.log_loss
            self.results.append(_Result(tried, found, each.net, kernels if leads else None))
            if leads:  # all others are worse
                self.results[:-1] = [replace(other, kernels=None) for other in self.results[:-1]]

    def probabilities(self, problem: Problem) -> np.ndarray:
        """Of every sample, by the candidate that is best on the rest of its fold, (n, K)."""
        found = np.full((len(problem.labels), len(problem.classes)), np.nan)
        for f, fold in enumerate(problem.folds):
            _, logits = min((each.assessed.folds[f] for each in self.results), key=lambda part: part[0].log_loss)
            found[problem.inside(fold)] = np.exp(logits - logits.max(axis=1, keepdims=True))
        return found / found.sum(axis=1, keepdims=True)

    def fitted(self, x: Numbers, y: Targets, options: dict[str, Any]) -> InfiniteEnsembleClassifier:
        """The chosen model, solved with the kernels that are there."""
        found = self.results[self.chosen]
        best = found.tried
        model = InfiniteEnsembleClassifier(found.net, ridge=best.ridge, kernel=cast(Any, best.kernel), **options)
        regression, training = model._prepare(x, y)
        held = training.with_settings(replace(training.settings, held=found.kernels, solver="eigh"))
        _ = held.mean_problem  # decomposed; the kernels are not kept with the model
        return model._solve(regression, held.with_settings(training.settings))

    def nothing(self) -> InvalidArgumentError:
        """The error where no candidate has a score."""
        name, why = self.refused[0]
        return InvalidArgumentError(f"no network has a score: {name}: {why}")


def _seconds(kernel: Any, x: np.ndarray) -> float:
    dtype = x.dtype if x.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    return cast(CostedKernel, kernel).kernel_cost(x.shape[1:], len(x), None, dtype).seconds
