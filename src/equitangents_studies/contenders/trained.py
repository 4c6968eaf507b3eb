"""Networks as contenders: trained together, their probabilities averaged."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from equitangents.ensembles import DeepEnsembleClassifier
from equitangents_studies.contenders.networks import Network, count_multiplications, count_parameters
from equitangents_studies.contenders.problem import Problem


class TrainedNetworks:
    """`members` networks of one architecture, trained by Adam on the cross-entropy, from independent weights.

    With `augmented` every image is turned by an element drawn anew for each member and epoch, so that all networks of
    a comparison take the same number of steps.
    """

    def __init__(self, net: Network, problem: Problem, *, members: int = 1, augmented: bool = False) -> None:
        self.net, self.problem, self.members = net, problem, members
        self._model = DeepEnsembleClassifier(
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
        self._model.fit(x, y)
        return self

    def predict(self, x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n classes"]:
        """Probabilities of the classes of `fit`, mean over members."""
        return self.every_class(self._model.predict_proba(x))

    def predict_members(self, x: Float[np.ndarray, "n height width channels"]) -> np.ndarray:
        """Probabilities of every member, (members, N, classes)."""
        outputs = self._model.predict_members(x).astype(np.float64)
        outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        return self.every_class(outputs / outputs.sum(axis=-1, keepdims=True))

    def every_class(self, probabilities: np.ndarray) -> np.ndarray:
        """Columns for the classes that `fit` saw no image of, too: probability 0."""
        if len(self._model.classes_) == self.problem.classes:
            return probabilities
        full = np.zeros((*probabilities.shape[:-1], self.problem.classes))
        full[..., self._model.classes_] = probabilities
        return full
