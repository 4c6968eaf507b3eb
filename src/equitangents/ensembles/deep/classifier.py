"""Classification by an ensemble of finite networks, one output a class.

cross_entropy  P(k) = (1/M) Σ_i softmax(f(x; θ_i))_k
mse            targets one-hot minus 1/K; P(k) = P(output k is the largest) of a Gaussian with the members' mean and std
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special
from sklearn.base import ClassifierMixin

from equitangents._types import Numbers
from equitangents.ensembles.deep.base import DeepEnsembleBase
from equitangents.ensembles.infinite.classifier import centred_one_hot, check_labels
from equitangents.ensembles.inputs import check_inputs
from equitangents.errors import InvalidArgumentError
from equitangents.inference import argmax_probabilities
from equitangents.validation import check_same_length


class DeepEnsembleClassifier(ClassifierMixin, DeepEnsembleBase):
    """`DeepEnsemble` on labels; parameters as there; the loss is "cross_entropy" unless `training` says another.

    The network's last layer makes one output a class. `label_action` acts on the targets (N, K), columns in the order
    of `classes_`: with "cross_entropy" it must permute classes.

    Attributes:
        classes_: the K distinct labels, sorted, of any type.
        params_, history_, recorded_, …: as there; recorded are outputs, not probabilities.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(64), et.nn.Relu(), et.nn.Dense(2))
    >>> x = np.array([[1.0, 0.0], [0.9, 0.2], [-1.0, 0.0], [-0.8, 0.1]])
    >>> model = et.DeepEnsembleClassifier(net, members=4, training=et.ensembles.Training(learning_rate=1.0))
    >>> model = model.fit(x, ["cat", "cat", "dog", "dog"])
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['cat']
    """

    _default_loss = "cross_entropy"

    def fit(
        self,
        X: Numbers,
        y: Numbers,
        *,
        record: Mapping[str, Any] | None = None,
        record_at: Sequence[int] | None = None,
        resume: bool = False,
    ) -> DeepEnsembleClassifier:
        """Train on X as `DeepEnsemble.fit` takes it and y (N,) labels of any type, at least two different ones."""
        self._forget()
        x = check_inputs(self, X, self.input_shape, reset=True)
        labels = check_labels(y)
        check_same_length("X", x, "y", labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidArgumentError(
                f"y holds one class, {self.classes_[0]!r}; a classifier needs more than 1 class to tell apart"
            )
        self._fit(x, self._targets(index), record, record_at, resume)
        return self

    def extend(
        self, members: int, X: Numbers, y: Numbers, *, record: Mapping[str, Any] | None = None, resume: bool = False
    ) -> DeepEnsembleClassifier:
        """Train members up to `members` in all on the same data; see `DeepEnsemble.extend`."""
        self._check_fitted()
        x = check_inputs(self, X, self.input_shape, reset=False)
        labels = check_labels(y)
        check_same_length("X", x, "y", labels)
        index = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        if (self.classes_[index] != labels).any():
            raise InvalidArgumentError(f"y holds labels beyond those of fit, {self.classes_.tolist()}")
        self._extend(members, x, self._targets(index), record, resume)
        return self

    def predict(self, X: Numbers) -> np.ndarray:
        """The class with the largest probability, (N,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_proba(self, X: Numbers) -> np.ndarray:
        """Probability of every class, (N, K), columns in the order of `classes_`.

        With "cross_entropy" the mean of the members' softmax; with "mse" the probability that a class's output is the
        largest in one member, outputs being Gaussian with the members' mean and standard deviation.
        """
        x = self._query(X)
        if self._loss == "mse":
            return argmax_probabilities(*self._moments(x))
        probabilities = (scipy.special.softmax(f.astype(np.float64), axis=2) for f in self._member_outputs(x))
        return np.concatenate([p.mean(axis=0) for p in probabilities])

    def _targets(self, index: np.ndarray) -> np.ndarray:
        if self._loss == "mse":
            return centred_one_hot(index, len(self.classes_))
        return np.eye(len(self.classes_))[index]
