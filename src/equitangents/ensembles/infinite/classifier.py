"""Classification by infinitely wide networks: regression on one-hot targets minus 1/K, decided by the largest output.

P(class k) = P(output k is the largest) under the outputs' Gaussian law N(μ_t(x), σ_t²(x)) after training.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets

from equitangents._types import Numbers, Times
from equitangents.ensembles.infinite.base import InfiniteEnsembleBase
from equitangents.ensembles.infinite.leave_one_out import LabelsLeftOut
from equitangents.ensembles.infinite.regressor import InfiniteEnsemble
from equitangents.ensembles.inputs import check_inputs
from equitangents.errors import InvalidArgumentError, NotFiniteError, ShapeError
from equitangents.inference import argmax_probabilities
from equitangents.validation import check_same_length


class InfiniteEnsembleClassifier(ClassifierMixin, InfiniteEnsembleBase):
    """`InfiniteEnsemble` on one-hot targets minus 1/K; parameters as there.

    The network needs no particular number of outputs: its kernel is that of one. `label_action` acts on the targets
    (N, K), columns in the order of `classes_` (a permutation of classes, say); None: labels are invariant.

    Attributes:
        classes_: the K distinct labels, sorted, of any type.
        ensemble_: the fitted `InfiniteEnsemble`, for means, covariances and samples of the K outputs.
        solver_: as there.
        solution_: as there.
        max_learning_rate_: as there.
        n_features_in_: as there.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(512), et.nn.Relu(), et.nn.Dense(2))
    >>> x = np.array([[1.0, 0.0], [0.9, 0.2], [-1.0, 0.0], [-0.8, 0.1]])
    >>> model = et.InfiniteEnsembleClassifier(net).fit(x, ["cat", "cat", "dog", "dog"])
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['cat']
    """

    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"x": UNUSED}

    def fit(self, X: Numbers, y: Numbers) -> InfiniteEnsembleClassifier:
        """Train on X as `InfiniteEnsemble.fit` takes it and y (N,) labels of any type, at least two different ones.

        With augmentation y may also be (|G|, N): y[g, i] is the label of the copy ρ_X(g) x_i.
        """
        return self._solve(*self._prepare(X, y))

    def _prepare(self, X: Numbers, y: Numbers) -> tuple[InfiniteEnsemble, Any]:
        """(the regression that is to be solved, its problem), checked and not yet solved."""
        self.__dict__.pop("ensemble_", None)
        x = check_inputs(self, X, self.input_shape, reset=True)
        labels = check_labels(y, copies=None if self.augmentation is None else len(x))
        if labels.ndim == 1:
            check_same_length("X", x, "y", labels)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidArgumentError(
                f"y holds one class, {self.classes_.tolist()[0]!r}; a classifier needs more than 1 class to tell apart"
            )
        self._data = x, labels
        targets = centred_one_hot(index.reshape(labels.shape), len(self.classes_))
        return InfiniteEnsemble(**self.get_params(deep=False))._prepare(x, targets)

    def _solve(self, ensemble: InfiniteEnsemble, training: Any) -> InfiniteEnsembleClassifier:
        """Solve the regression and keep it."""
        ensemble._solve(ensemble, training)
        self.solver_ = ensemble.solver_
        self.solution_ = ensemble.solution_
        self.augmentation_ = ensemble.augmentation_
        self.max_learning_rate_ = ensemble.max_learning_rate_
        self.ensemble_ = ensemble
        return self

    @property
    def log_marginal_likelihood_(self) -> float:
        """That of the regression on one-hot targets minus 1/K (`ensemble_.log_marginal_likelihood_`)."""
        self._check_fitted()
        return self.ensemble_.log_marginal_likelihood_

    def log_marginal_likelihood_gradient(self, *names: str) -> dict[str, float]:
        """That of the regression on one-hot targets minus 1/K."""
        self._check_fitted()
        return self.ensemble_.log_marginal_likelihood_gradient(*names)

    @property
    def log_marginal_likelihood_slope_(self) -> float:
        """The derivative of `log_marginal_likelihood_` by `ridge`, in closed form: 0 at the best ridge."""
        self._check_fitted()
        return self.ensemble_.log_marginal_likelihood_slope_

    @property
    def leave_one_out_(self) -> LabelsLeftOut:
        """Each sample's label predicted by this classifier trained without it, and the share that is right.

        As `InfiniteEnsemble.leave_one_out_`. The classes are those of all samples: a class of one sample keeps its
        output when that sample is left out.
        """
        self._check_fitted()
        return self._left_out(self.ensemble_, self.ensemble_._training, float(self.time))

    def _left_out(self, ensemble: InfiniteEnsemble, training: Any, time: float) -> LabelsLeftOut:
        outputs = ensemble._left_out(ensemble, training, time)
        predictions = self.classes_[np.argmax(outputs.predictions, axis=1)]
        labels = self.classes_[np.argmax(outputs.predictions + outputs.residuals, axis=1)]
        return LabelsLeftOut(predictions, labels, outputs)

    def predict(self, x: Numbers, time: Times | None = None) -> np.ndarray:
        """The class with the largest mean output, (M,), or (T, M) for an array of T times."""
        ensemble, x = self._fitted(x)
        return self.classes_[np.argmax(ensemble.predict(x, time), axis=-1)]

    def predict_proba(self, x: Numbers, time: Times | None = None) -> np.ndarray:
        """Probability that a class's output is the largest in one trained network: (M, K) or (T, M, K).

        The largest probability is that of the predicted class. With augmentation the first call solves what variances
        need (`ensemble_.covariance_solver_`).
        """
        ensemble, x = self._fitted(x)
        mean, std = ensemble.predict(x, time, return_std=True)
        K = len(self.classes_)
        return argmax_probabilities(mean.reshape(-1, K), std.reshape(-1)).reshape(mean.shape)

    def _orbit_question(self, x: Any, y: Any) -> tuple[InfiniteEnsemble, Any, np.ndarray | None]:
        """(the ensemble whose outputs are measured, x, indices of the labels or None), checked."""
        ensemble, x = self._fitted(x)
        if y is None:
            return ensemble, x, None
        labels = check_labels(y)
        check_same_length("x", x, "y", labels)
        index = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        if (self.classes_[index] != labels).any():
            raise InvalidArgumentError(f"y holds labels beyond those of fit, {self.classes_.tolist()}")
        return ensemble, x, index

    def _fitted(self, x: Any) -> tuple[InfiniteEnsemble, Any]:
        self._check_fitted()
        return self.ensemble_, check_inputs(self, x, self.input_shape, reset=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")


def check_labels(y: Any, copies: int | None = None) -> np.ndarray:
    """y as a 1-d array of discrete labels; a column (N, 1) is flattened with a warning, as scikit-learn does.

    With `copies`, the number N of samples, it may also hold a row of N labels for each element of a group.
    """
    if y is None:
        raise InvalidArgumentError(
            "this classifier requires y to be passed, but the target y is None; expected labels (N,)"
        )
    y = np.asarray(y)
    if copies is not None and y.ndim == 2 and y.shape[1] == copies:
        return check_labels(y.ravel()).reshape(y.shape)
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: y has shape (N, 1), expected (N,)",
            DataConversionWarning,
            stacklevel=3,
        )
        y = y[:, 0]
    if y.ndim != 1 or y.size == 0:
        raise ShapeError(f"y has shape {y.shape}; expected labels of shape (N,)")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise NotFiniteError("y holds NaN or infinite values; labels must be known")
    try:
        check_classification_targets(y)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"y holds no class labels: {error}") from None
    return y


def centred_one_hot(index: np.ndarray, classes: int) -> np.ndarray:
    """Targets (N, K): 1 − 1/K for the sample's class, −1/K for the others.

    >>> import numpy as np
    >>> centred_one_hot(np.array([0, 1]), 2).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    return np.eye(classes)[index] - 1 / classes
