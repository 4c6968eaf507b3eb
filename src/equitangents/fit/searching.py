"""The search for the best candidate within a time: kernels tile by tile, both kernels and all ridges of each scored.

Where not all candidates fit into the time, they are first scored on the samples of one fold, and then tried in the
order of these scores. That fold is in no score that is reported: what is scored has decided nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import scipy.special

from equitangents._types import AnyAction, Numbers, Targets
from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.ensembles.infinite.predictor import kernel_diagonal
from equitangents.ensembles.infinite.training import Training
from equitangents.errors import InvalidArgumentError
from equitangents.fit.assessing import Assessed, Gram, Problem, as_good, assessed, best_of, chosen_of
from equitangents.fit.candidates import Candidate, FeatureNetwork
from equitangents.fit.result import FAST, Tried, named
from equitangents.kernels import KernelFunction, Kernels, orbit_average
from equitangents.kernels.cost import CostedKernel, KernelCost
from equitangents.kernels.orbit import OrbitAverage
from equitangents.solvers.spectral import Eigh

_TILES, _SIDE = 8, 16  # of a side of a kernel matrix, at most, and samples of one, about
_FIELDS = ("nngp", "ntk")
_FIRST = 0.25  # of the time, after which no further candidate is scored on one fold
_LEAST = 30  # samples of a fold that candidates are scored on
_SHORT = 0.01  # of the time that is left: what is tried in any case
_LONG = 0.5  # seconds: shorter ones are compiled for longer than they run
_DOUBLE = 3.0  # times: what a kernel in double precision takes, at most


@dataclass(frozen=True)
class Step:
    """How far a choice is: what is tried, the share of it that is done, seconds that are left, the best so far."""

    name: str
    share: float
    seconds_left: float
    best: Tried | None


Progress = Callable[[Step], None]


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate with a group, given as augmentation (None: no copies), and the data as it is trained on."""

    candidate: Candidate
    group: Any
    training: Training

    @property
    def name(self) -> str:
        """Name of the candidate, with the group."""
        return named(self.candidate.name, self.group_name)

    def of(self, x: np.ndarray) -> Trial:
        """The same of other inputs."""
        return replace(self, training=replace(self.training, x=x))

    @property
    def group_name(self) -> str:
        """That of the group of `action`; "" for none."""
        return "" if self.action is None else self.action.group.name

    @property
    def action(self) -> AnyAction:
        """The action on the copies, or that over which the network is an average; None without a group."""
        net = self.candidate.net
        return net.action if isinstance(net, OrbitAverage) else self.training.augmentation

    @property
    def kernel(self) -> KernelFunction:
        """The network's, averaged over the group."""
        action = self.training.augmentation
        return self.candidate.net if action is None else orbit_average(self.candidate.net, action)

    def seconds(self, samples: int) -> float:
        """What the kernel is known to take."""
        return self._cost(self.kernel, samples).seconds

    @cached_property
    def work(self) -> int:
        """Operations of the network's kernel, without a group: what makes it heavier or lighter than others."""
        net = self.candidate.net
        cost = self._cost(net.base if isinstance(net, OrbitAverage) else net, len(self.training.x))
        return cost.element_layers + cost.multiply_adds

    def _cost(self, kernel: Any, samples: int) -> KernelCost:
        x = self.training.x
        dtype = x.dtype if x.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        return cast(CostedKernel, kernel).kernel_cost(x.shape[1:], samples, None, dtype)


@dataclass(frozen=True, eq=False)
class Result:
    """A trial with one of its kernels, assessed; both kernels, while it is as good as the best.

    double: in float64.
    """

    tried: Tried
    assessed: Assessed
    trial: Trial
    double: bool
    kernels: Kernels | None

    @cached_property
    def gram(self) -> Gram:
        """The kernel."""
        assert self.kernels is not None
        return _gram(self.trial, self.kernels, self.tried.kernel)


@dataclass(eq=False)
class Search:
    """What was tried so far.

    fast: whether candidates that would predict fewer than `FAST` images a second are left out, but for the cheapest.
    screened: whether candidates were first scored on fold 0; else their order is that of their cost.
    """

    deadline: float
    progress: Progress | None
    fast: bool = False
    results: list[Result] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    interrupted: bool = False
    screened: bool = False
    _ratios: list[float] = field(default_factory=list)  # of the time that kernels took to that foretold
    _assessing: float = 0.0  # seconds of the last

    @property
    def _slower(self) -> float:
        return max(self._ratios, default=1.0)

    @property
    def chosen(self) -> int:
        """The number of the best of little work that is as good as the best."""
        return chosen_of([each.assessed.best for each in self.results], [each.trial.work for each in self.results])

    def best(self) -> Result:
        """The chosen one; where others led since its kernels were computed, they are computed again, once."""
        found = self.results[self.chosen]
        if found.kernels is None:
            found = self.results[self.chosen] = replace(found, kernels=self._computed(found.trial, in_time=False))
        return found

    def report(self, name: str, share: float) -> None:
        """Say how far it is."""
        if self.progress is not None:
            best = self.results[self.chosen].tried if self.results else None
            self.progress(Step(name, share, max(0.0, self.deadline - time.perf_counter()), best))

    def run(self, trials: Sequence[Trial], problem: Problem) -> None:
        """Try the cheapest, and others in the order of their scores on one fold, or of their cost where all fit."""
        n, fold = len(problem.labels), problem.part(problem.folds[0])
        costs = {trial: trial.seconds(n) for trial in trials}
        first, *order = sorted(trials, key=costs.__getitem__)
        self._try(first, problem, costs[first])  # in any case
        every = max(1.0, self._slower) * sum(costs.values())  # other layers may keep to what is foretold
        if time.perf_counter() + every > self.deadline and len(fold.rows) >= _LEAST and len(fold.sets) > 1:
            order = self._screened(order, problem, costs)
        for trial in order:
            slow = self.fast and (n + 1) / 2 < FAST * self._slower * costs[trial]
            if slow or not self._try(trial, problem, costs[trial]):
                self.untried.append(trial.name)
        best = self.results[self.chosen] if self.results else None
        if best is not None and best.tried.ends and best.trial.training.x.dtype == np.float32:
            # again in double precision, where its ridge is the smallest that single precision allows
            double = best.trial.of(best.trial.training.x.astype(np.float64))
            self._try(double, problem, _DOUBLE * best.tried.seconds / self._slower, double=True)

    def _screened(self, order: list[Trial], problem: Problem, costs: dict[Trial, float]) -> list[Trial]:
        """Those that take next to no time first; by their scores on one fold, those without one by their cost."""
        start = time.perf_counter()
        until = start + _FIRST * (self.deadline - start)
        part = problem.part(problem.folds[0])
        scores: dict[Trial, float] = {}
        for trial in order:
            some = trial.of(trial.training.x[part.rows])
            late = time.perf_counter() + self._slower * some.seconds(len(part.rows)) > until
            kernels = None if late or self._is_late(costs[trial]) else self._computed(some)
            if kernels is None:
                continue
            for name in _FIELDS:
                with suppress(InvalidArgumentError):
                    found = best_of(_gram(some, kernels, name), problem, part)[1]
                    scores[trial] = min(found.log_loss, scores.get(trial, math.inf))
        self.screened = bool(scores)
        short = _SHORT * (self.deadline - time.perf_counter())
        return sorted(order, key=lambda t: (costs[t] > short, scores.get(t, math.inf), costs[t]))

    def _is_late(self, seconds: float) -> bool:
        """Whether what is known to take so long does not end in time; never before there is a result."""
        late = time.perf_counter() + self._slower * seconds + self._assessing > self.deadline
        return late and bool(self.results)

    def _try(self, trial: Trial, problem: Problem, seconds: float, *, double: bool = False) -> bool:
        """Compute and assess both kernels, if that ends in time; whether it does. The best are kept with theirs."""
        if self._is_late(seconds):
            return False
        start = time.perf_counter()
        kernels = self._computed(trial)
        if kernels is None:
            return False
        took = time.perf_counter() - start
        if seconds > _LONG:
            self._ratios.append(took / seconds)
        speed = (len(problem.labels) + 1) / 2 / max(took, 1e-9)
        for name in _FIELDS:
            gram = _gram(trial, kernels, name)
            try:
                found = assessed(gram, problem)
            except InvalidArgumentError as error:
                self.refused.append((f"{trial.name} ({name})", str(error)))
                continue
            best, about = found.best, (trial.candidate.name, trial.group_name, name, gram.precision)
            tried = Tried(*about, best.ridge, best.log_loss, best.accuracy, took, speed, best.ridge == found.least)
            self.results.append(Result(tried, found, trial, double, kernels))
            kept = as_good([each.assessed.best for each in self.results])
            self.results = [r if i in kept else replace(r, kernels=None) for i, r in enumerate(self.results)]
        self._assessing = time.perf_counter() - start - took
        return True

    def _computed(self, trial: Trial, in_time: bool = True) -> Kernels | None:
        """Both kernels of a trial, tile by tile; None where another has a score and the time is too short."""
        x, kernel = trial.training.x, trial.kernel
        n = len(x)
        if isinstance(trial.candidate.net, FeatureNetwork):
            return kernel.kernel(x)  # at once: features are computed anew in each tile
        nngp, ntk = (np.empty((n, n), x.dtype if x.dtype.kind == "f" else np.float64) for _ in range(2))
        edges = np.linspace(0, n, min(_TILES, 1 + n // _SIDE) + 1).astype(int)
        parts = [slice(a, b) for a, b in pairwise(edges)]
        pairs, done, start = n * (n + 1) / 2, 0.0, time.perf_counter()
        for i, a in enumerate(parts):
            for b in parts[i:]:
                k = kernel.kernel(x[a]) if a == b else kernel.kernel(x[a], x[b])
                for whole, part in ((nngp, k.nngp), (ntk, k.ntk)):
                    whole[a, b], whole[b, a] = part, np.asarray(part).T
                size = (a.stop - a.start) * (b.stop - b.start)
                done += size / 2 if a == b else size
                now = time.perf_counter()
                self.report(trial.name, done / pairs)
                late = now + (now - start) * (pairs - done) / done > self.deadline
                if late and in_time and i and self.results:
                    return None
        return Kernels(nngp, ntk)

    def probabilities(self, problem: Problem) -> np.ndarray:
        """Class probabilities (n, K) of every sample, by the candidate that is chosen on the rest of its fold.

        Double precision takes no part: whether it was tried hangs on all labels.
        """
        single = [each for each in self.results if not each.double]
        work = [each.trial.work for each in single]
        of_folds = ([each.assessed.folds[f] for each in single] for f in range(len(problem.folds)))
        logits = (parts[chosen_of([best for best, _ in parts], work)][1] for parts in of_folds)
        return problem.together(scipy.special.softmax(each, axis=1) for each in logits)

    def fitted(self, x: Numbers, y: Targets, options: dict[str, Any]) -> InfiniteEnsembleClassifier:
        """The chosen model, solved with the kernels that are there."""
        found = self.best()
        best, net = found.tried, found.trial.candidate.net
        options = {**options, "augmentation": found.trial.group}
        model = InfiniteEnsembleClassifier(net, ridge=best.ridge, kernel=cast(Any, best.kernel), **options)
        training = model._prepare(np.asarray(x, np.float64) if found.double else x, y)
        held = training.with_settings(replace(training.settings, held=found.kernels, method=Eigh()))
        _ = held.mean_problem  # decomposed; the kernels are not kept with the model
        return model._solve(held.with_settings(training.settings))


def _gram(trial: Trial, kernels: Kernels, name: str) -> Gram:
    """One of both kernels of a trial, with its diagonal before it was averaged over a group."""
    action, matrix = trial.training.augmentation, np.asarray(getattr(kernels, name))
    order = 1 if action is None else action.group.order
    variances = (
        np.diag(matrix) if order == 1 else kernel_diagonal(trial.candidate.net, trial.training.x, cast(Any, name))
    )
    return Gram(matrix.astype(np.float64), variances.astype(np.float64), order, matrix.dtype.name)
