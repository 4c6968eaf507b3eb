"""The search for the best candidate within a time limit: kernels by tiles, NNGP and NTK with all ridges scored on each.

If the time does not suffice for all candidates, they are first scored on the samples of one fold and then tried in the
order of these scores. That fold is in no reported score.
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
from equitangents.fit.assessing import (
    Folds,
    Gram,
    KernelScore,
    near_best,
    score_kernel,
    select,
    select_ridge,
)
from equitangents.fit.candidates import FeatureNetwork, NetworkCandidate
from equitangents.fit.result import FAST, CandidateScore
from equitangents.kernels import KernelFunction, Kernels, orbit_average
from equitangents.kernels.cost import CostedKernel, KernelCost
from equitangents.kernels.orbit import OrbitAverage
from equitangents.solvers.spectral import Eigh

_TILES, _TILE_SIDE = 8, 16  # tiles per side of a kernel matrix, at most, and their samples, at least
_KERNELS = ("nngp", "ntk")
_SCREENING = 0.25  # of the time, at most, for scores on one fold
_MIN_FOLD = 30  # samples of a fold on which candidates are scored
_CHEAP = 0.01  # of the time left: candidates that are tried first
_KNOWN = 0.05  # of the pairs of a kernel: after these its own rate decides whether it ends in time
_MIN_SECONDS = 0.5  # of kernels whose time is compared with the estimate: shorter ones mostly compile
_DOUBLE = 3.0  # times: a kernel in float64 against float32, at most


@dataclass(frozen=True)
class Step:
    """Progress of a choice: what is tried, the share of it that is done, the seconds left, the best so far."""

    name: str
    share: float
    seconds_left: float
    best: CandidateScore | None


Progress = Callable[[Step], None]


@dataclass(frozen=True, eq=False)
class KernelTrial:
    """A candidate with a group given as augmentation (None: no copies), and its training data."""

    candidate: NetworkCandidate
    group: Any
    training: Training

    @property
    def name(self) -> str:
        """Name of the candidate, with the group."""
        return ", ".join(filter(None, (self.candidate.name, self.group_name)))

    def on(self, x: np.ndarray) -> KernelTrial:
        """The same trial on other inputs."""
        return replace(self, training=replace(self.training, x=x))

    @property
    def group_name(self) -> str:
        """Name of the group of `action`; "" for none."""
        return "" if self.action is None else self.action.group.name

    @property
    def action(self) -> AnyAction:
        """The action on the copies, or the one over which the network is averaged; None without a group."""
        net = self.candidate.net
        return net.action if isinstance(net, OrbitAverage) else self.training.augmentation

    @property
    def kernel(self) -> KernelFunction:
        """The network's kernel, averaged over the group."""
        action = self.training.augmentation
        return self.candidate.net if action is None else orbit_average(self.candidate.net, action)

    def seconds(self, samples: int) -> float:
        """Estimated time of the kernel of so many samples."""
        return self._cost(self.kernel, samples).seconds

    @cached_property
    def work(self) -> int:
        """Operations of the network's kernel without a group, by which networks are heavier or lighter than others."""
        net = self.candidate.net
        cost = self._cost(net.base if isinstance(net, OrbitAverage) else net, len(self.training.x))
        return cost.element_layers + cost.multiply_adds

    def _cost(self, kernel: Any, samples: int) -> KernelCost:
        x = self.training.x
        dtype = x.dtype if x.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        return cast(CostedKernel, kernel).kernel_cost(x.shape[1:], samples, None, dtype)

    def gram(self, kernels: Kernels, name: str) -> Gram:
        """One of its kernels, with the diagonal before the average over the group."""
        action, x, matrix = self.training.augmentation, self.training.x, np.asarray(getattr(kernels, name))
        order = 1 if action is None else action.group.order
        variances = np.diag(matrix) if order == 1 else kernel_diagonal(self.candidate.net, x, cast(Any, name))
        return Gram(matrix.astype(np.float64), variances.astype(np.float64), order, matrix.dtype.name)


@dataclass(frozen=True, eq=False)
class TrialResult:
    """Scores of a trial with one of its kernels."""

    tried: CandidateScore
    score: KernelScore
    trial: KernelTrial
    double: bool  # again, in float64
    kernels: Kernels | None  # both, as long as it is within one standard error of the best

    @cached_property
    def gram(self) -> Gram:
        """The kernel."""
        assert self.kernels is not None
        return self.trial.gram(self.kernels, self.tried.kernel)


@dataclass(eq=False)
class Search:
    """The candidates tried so far."""

    deadline: float
    progress: Progress | None
    fast: bool = False  # leave out candidates that would predict fewer than `FAST` images per second, but the cheapest
    results: list[TrialResult] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    interrupted: bool = False
    screened: bool = False  # whether candidates were first scored on fold 0; else they are tried by cost
    _ratios: list[float] = field(default_factory=list)  # of the times of kernels to their estimates
    _scoring: float = 0.0  # seconds of the last

    @property
    def _slowdown(self) -> float:
        return max(self._ratios, default=1.0)

    @property
    def chosen(self) -> int:
        """Index of the chosen result, see `select`."""
        return select([each.score.best for each in self.results], [each.trial.work for each in self.results])

    def best(self) -> TrialResult:
        """The chosen result; its kernels are computed again if they were dropped when others led."""
        best = self.results[self.chosen]
        if best.kernels is None:
            best = self.results[self.chosen] = replace(best, kernels=self._computed(best.trial, in_time=False))
        return best

    def report(self, name: str, share: float) -> None:
        """Report progress."""
        if self.progress is not None:
            best = self.results[self.chosen].tried if self.results else None
            self.progress(Step(name, share, max(0.0, self.deadline - time.perf_counter()), best))

    def run(self, trials: Sequence[KernelTrial], problem: Folds) -> None:
        """Try the cheapest, then the others by their scores on one fold, or by cost if there is time for all."""
        n, fold = len(problem.labels), problem.subset(problem.folds[0])
        costs = {trial: trial.seconds(n) for trial in trials}
        first, *order = sorted(trials, key=costs.__getitem__)
        self._try(first, problem, costs[first])  # in any case
        expected = max(1.0, self._slowdown) * sum(costs.values())  # other layers may keep to their estimates
        if time.perf_counter() + expected > self.deadline and len(fold.rows) >= _MIN_FOLD and len(fold.sets) > 1:
            order = self._screened(order, problem, costs)
        for trial in order:
            slow = self.fast and (n + 1) / 2 < FAST * self._slowdown * costs[trial]
            if slow or not self._try(trial, problem, costs[trial]):
                self.untried.append(trial.name)
        best = self.results[self.chosen] if self.results else None
        if best is not None and best.tried.at_smallest_ridge and best.trial.training.x.dtype == np.float32:
            # again in float64, which allows smaller ridges
            double = best.trial.on(best.trial.training.x.astype(np.float64))
            self._try(double, problem, _DOUBLE * best.tried.seconds / self._slowdown, double=True)

    def _screened(self, order: list[KernelTrial], problem: Folds, costs: dict[KernelTrial, float]) -> list[KernelTrial]:
        """Cheap trials first, then by their scores on fold 0, then those without a score by cost."""
        start = time.perf_counter()
        until = start + _SCREENING * (self.deadline - start)
        part = problem.subset(problem.folds[0])
        scores: dict[KernelTrial, float] = {}
        for trial in order:
            some = trial.on(trial.training.x[part.rows])
            late = time.perf_counter() + self._slowdown * some.seconds(len(part.rows)) > until
            kernels = None if late or self._is_late(costs[trial]) else self._computed(some)
            for name in () if kernels is None else _KERNELS:
                with suppress(InvalidArgumentError):
                    loss = select_ridge(some.gram(cast(Kernels, kernels), name), problem, part)[1].log_loss
                    scores[trial] = min(loss, scores.get(trial, math.inf))
        self.screened = bool(scores)
        cheap = _CHEAP * (self.deadline - time.perf_counter())
        return sorted(order, key=lambda t: (costs[t] > cheap, scores.get(t, math.inf), costs[t]))

    def _is_late(self, seconds: float) -> bool:
        """Whether a kernel would end too late even if it took half of this estimate; False until there is a result."""
        return bool(self.results) and time.perf_counter() + self._slowdown * seconds / 2 + self._scoring > self.deadline

    def _try(self, trial: KernelTrial, problem: Folds, seconds: float, *, double: bool = False) -> bool:
        """Compute and score both kernels; False if there is no time. Kernels within one error of the best are kept."""
        start = time.perf_counter()
        kernels = None if self._is_late(seconds) else self._computed(trial)
        if kernels is None:
            return False
        took = time.perf_counter() - start
        if seconds > _MIN_SECONDS:
            self._ratios.append(took / seconds)
        speed = (len(problem.labels) + 1) / 2 / max(took, 1e-9)
        for name in _KERNELS:
            gram = trial.gram(kernels, name)
            try:
                score = score_kernel(gram, problem)
            except InvalidArgumentError as error:
                self.refused.append((f"{trial.name} ({name})", str(error)))
                continue
            best, about = score.best, (trial.name, trial.group_name, name, gram.precision)
            at_smallest = best.ridge == score.smallest_ridge
            tried = CandidateScore(*about, best.ridge, best.log_loss, best.accuracy, took, speed, at_smallest)
            self.results.append(TrialResult(tried, score, trial, double, kernels))
            close = near_best([each.score.best for each in self.results])
            self.results = [r if i in close else replace(r, kernels=None) for i, r in enumerate(self.results)]
        self._scoring = time.perf_counter() - start - took
        return True

    def _computed(self, trial: KernelTrial, in_time: bool = True) -> Kernels | None:
        """Both kernels of a trial, tile by tile; None if there is a result already and the time is too short."""
        x, kernel = trial.training.x, trial.kernel
        n = len(x)
        if isinstance(trial.candidate.net, FeatureNetwork):
            return kernel.kernel(x)  # tiles would compute the features again
        nngp, ntk = (np.empty((n, n), x.dtype if x.dtype.kind == "f" else np.float64) for _ in range(2))
        edges = np.linspace(0, n, min(_TILES, 1 + n // _TILE_SIDE) + 1).astype(int)
        parts = [slice(a, b) for a, b in pairwise(edges)]
        pairs, done, start = n * (n + 1) / 2, 0.0, time.perf_counter()
        for i, a in enumerate(parts):
            for b in parts[i:]:
                k = kernel.kernel(x[a]) if a == b else kernel.kernel(x[a], x[b])
                for full, tile in ((nngp, k.nngp), (ntk, k.ntk)):
                    full[a, b], full[b, a] = tile, np.asarray(tile).T
                size = (a.stop - a.start) * (b.stop - b.start)
                done += size / 2 if a == b else size
                now = time.perf_counter()
                self.report(trial.name, done / pairs)
                late = now + (now - start) * (pairs - done) / done + self._scoring > self.deadline
                if late and in_time and done > _KNOWN * pairs and self.results:
                    return None
        return Kernels(nngp, ntk)

    def probabilities(self, problem: Folds) -> np.ndarray:
        """Class probabilities (n, K), those of a fold by the candidate chosen on its training part.

        Results in float64 are left out: whether they were tried depends on all labels.
        """
        single = [each for each in self.results if not each.double]
        work = [each.trial.work for each in single]
        folds = ([each.score.folds[f] for each in single] for f in range(len(problem.folds)))
        logits = (parts[select([best for best, _ in parts], work)][1] for parts in folds)
        return problem.merge(scipy.special.softmax(each, axis=1) for each in logits)

    def fitted(self, x: Numbers, y: Targets, options: dict[str, Any]) -> InfiniteEnsembleClassifier:
        """The chosen model, solved with the kernels already computed."""
        result = self.best()
        best, net = result.tried, result.trial.candidate.net
        options = {**options, "augmentation": result.trial.group}
        model = InfiniteEnsembleClassifier(net, ridge=best.ridge, kernel=cast(Any, best.kernel), **options)
        training = model._prepare(np.asarray(x, np.float64) if result.double else x, y)
        held = training.with_settings(replace(training.settings, held=result.kernels, method=Eigh()))
        _ = held.mean_problem  # decomposed; the kernels are not kept with the model
        return model._solve(held.with_settings(training.settings))
