"""Baselines that are fitted: networks trained together, kernel regression, and averages over orbits."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from equitangents import nn
from equitangents.ensembles import DeepEnsembleClassifier, InfiniteEnsembleClassifier
from equitangents_studies.baselines.baseline import CountedBaseline, Problem
from equitangents_studies.baselines.networks import Network, count_multiplications, count_parameters
from equitangents_studies.baselines.outcome import checked


class TrainedNetworks:
    """`members` networks of one architecture, trained by Adam on the cross-entropy, from independent weights.

    With `augmented` every image is turned by an element drawn anew for each member and epoch, so that all networks of
    a comparison take the same number of steps.
    """

    def __init__(self, net: Network, problem: Problem, *, members: int = 1, augmented: bool = False) -> None:
        self.net, self.problem, self.members = net, problem, members
        self.ensemble = DeepEnsembleClassifier(
            net,
            members=members,
            augmentation=problem.action if augmented else None,
            augmentation_mode="random" if augmented else "full",
            optimizer="adam",
            learning_rate=problem.learning_rate,
            epochs=problem.epochs,
            batch_size=problem.batch,
            seed=problem.seed,
        )

    @property
    def parameters(self) -> int:
        """How many numbers all members together have learnt."""
        return self.members * count_parameters(self.net, self.problem.shape)

    @property
    def multiplications(self) -> int:
        """Multiplications of one prediction for one image, all members together."""
        return self.members * count_multiplications(self.net, self.problem.shape)

    def fit(self, x: Float[np.ndarray, "n height width channels"], y: Int[np.ndarray, " n"]) -> TrainedNetworks:
        """Train all members on the same images."""
        self.ensemble.fit(x, y)
        return self

    def predict(self, x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n classes"]:
        """Probabilities of the classes of `fit`, mean over members."""
        return self.every_class(self.ensemble.predict_proba(x))

    def predict_members(self, x: Float[np.ndarray, "n height width channels"]) -> np.ndarray:
        """Probabilities of every member, (members, N, classes)."""
        outputs = self.ensemble.predict_members(x).astype(np.float64)
        outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        return self.every_class(outputs / outputs.sum(axis=-1, keepdims=True))

    def every_class(self, probabilities: np.ndarray) -> np.ndarray:
        """Columns for the classes that `fit` saw no image of, too: probability 0."""
        if len(self.ensemble.classes_) == self.problem.classes:
            return probabilities
        full = np.zeros((*probabilities.shape[:-1], self.problem.classes))
        full[..., self.ensemble.classes_] = probabilities
        return full


_RIDGE = 1e-3
_ROWS = 1000


class KernelMachine:
    """The mean of infinitely many, infinitely wide networks that were trained to the end with a little weight decay."""

    def __init__(self, net: nn.Sequential, problem: Problem, *, augmented: bool) -> None:
        self.problem = problem
        augmentation = problem.action if augmented else None
        self._model = InfiniteEnsembleClassifier(net, augmentation=augmentation, time=float("inf"), ridge=_RIDGE)

    @property
    def parameters(self) -> None:
        """Infinitely many; what is kept are coefficients of training images."""
        return None

    def fit(self, x: np.ndarray, y: np.ndarray) -> KernelMachine:
        """Solve for the first `kernel_images` images."""
        count = self.problem.kernel_images
        self._model.fit(x[:count].astype(np.float32), y[:count])
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Mean outputs, (N, classes)."""
        rows = [self._model.ensemble_.predict(x[i : i + _ROWS].astype(np.float32)) for i in range(0, len(x), _ROWS)]
        outputs = np.concatenate(rows)
        full = np.full((len(x), self.problem.classes), outputs.min() - 1.0)
        full[:, self._model.classes_] = outputs
        return full


class Averaged:
    """A baseline averaged over the orbit of every input: f̄(x) = (1/|G|) Σ_g f(ρ(g)x).

    Invariant exactly where ρ is exact; where it resamples, f̄(ρ(h)x) sees images that were resampled twice.

    Of a baseline that gives labels, not scores, it is the vote.
    """

    def __init__(self, baseline: CountedBaseline, problem: Problem) -> None:
        self.baseline, self.action, self.classes = baseline, problem.action, problem.classes

    @property
    def parameters(self) -> int:
        """Parameters of the baseline that is averaged."""
        return int(self.baseline.parameters)

    @property
    def multiplications(self) -> int:
        """Multiplications of one prediction for each of the |G| elements."""
        return int(self.action.group.order * self.baseline.multiplications)

    def fit(self, x: np.ndarray, y: np.ndarray) -> Averaged:
        """Train the baseline whose predictions are averaged."""
        self.baseline.fit(x, y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Mean scores over the orbit, (N, classes)."""
        order = self.action.group.order
        total = np.zeros((len(x), self.classes))
        for g in range(order):
            output = checked("the baseline that is averaged", self.baseline.predict(self.action(g, x)), *total.shape)
            total += np.eye(self.classes)[output.astype(int)] if output.ndim == 1 else output
        return total / order
