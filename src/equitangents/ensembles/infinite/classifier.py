"""Classification by infinitely wide networks: regression on one-hot targets minus 1/K; the largest output decides.

P(class k) = P(output k is the largest) under the outputs' Gaussian law N(μ_t(x), σ_t²(x)) after training: the fraction
of networks that vote for k. Calibrated: P(class k) = softmax(μ_t(x)/T)_k, the frequency of correct predictions. T is
fitted to exact leave-one-out predictions (`leave_one_out`), so that no sample is set aside for calibration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.special

from equitangents._types import Numbers, Times
from equitangents.ensembles.estimator import (
    FieldClassifierMixin,
    centred_one_hot,
    check_inputs,
    classes_of,
    indices_of,
    label_rows,
    labels_of,
)
from equitangents.ensembles.fields import OutputPositions, output_positions
from equitangents.ensembles.infinite.leave_one_out import LabelsLeftOut
from equitangents.ensembles.infinite.predictor import TrainingSettings
from equitangents.ensembles.infinite.regressor import InfiniteEnsemble, InfiniteEnsembleBase
from equitangents.ensembles.infinite.training import Training
from equitangents.errors import InvalidArgumentError
from equitangents.inference.dynamics import as_times
from equitangents.inference.probabilities import argmax_probabilities, fitted_temperature
from equitangents.keywords import named_also


@dataclass(eq=False, repr=False)
class InfiniteEnsembleClassifier(FieldClassifierMixin, InfiniteEnsembleBase):
    """`InfiniteEnsemble` on one-hot targets minus 1/K; parameters as there, and `calibrate`.

    The network may have any number of outputs: its kernel is that of one. `label_action` acts on the targets
    (N, K), columns in the order of `classes_` (a permutation of classes, say); None: labels are invariant.

    A network that ends on positions is fitted to labels at every position, y (N, *positions), as in segmentation.
    Predictions then have positions, and `score` counts each of them. A label action acts on (N, *positions, K); None:
    labels move with their positions.

    Args:
        net: like all other parameters, as in `InfiniteEnsemble`.
        calibrate: probabilities softmax(μ_t(x)/T)_k, with the temperature T of the smallest log loss of
            `leave_one_out_` (`fitted_temperature`), instead of the fraction of networks whose output k is the largest.
            With `standardise`, left-out samples are standardised by all samples. It decomposes the training kernel
            whatever `solver` is, and raises the errors of `leave_one_out_`.

    Attributes:
        temperature_: T, in the unit of targets; inf (probabilities 1/K) if left-out samples are predicted no better
            than by chance. None without `calibrate`.
        classes_: the K distinct labels, sorted, of any type.
        positions_: the grid of labels, () for one label per sample.
        ensemble_: the fitted `InfiniteEnsemble`, for means, covariances and samples of the K outputs.
            `solver_`, `solution_`, `max_learning_rate_` and `n_features_in_` as there.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(512), et.nn.Relu(), et.nn.Dense(2))
    >>> x = np.array([[1.0, 0.0], [0.9, 0.2], [-1.0, 0.0], [-0.8, 0.1]])
    >>> model = et.InfiniteEnsembleClassifier(net).fit(x, ["cat", "cat", "dog", "dog"])
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['cat']
    """

    fitted_attribute = "solution_"

    calibrate: bool = False
    temperature_: float | None = field(init=False, default=None)

    @named_also(X="x")
    def fit(self, x: Numbers, y: Numbers) -> InfiniteEnsembleClassifier:
        """Train on x, as in `InfiniteEnsemble.fit`, and labels y (N,) of any type, at least two different ones.

        For networks that end on positions y is (N, *positions).
        """
        return self._solve(self._prepare(x, y))

    def _prepare(self, X: Numbers, y: Numbers) -> Training:
        """The regression's problem, checked and not yet solved."""
        self.__dict__.pop("solution_", None)
        self._check_parameters()
        x = check_inputs(self, X, self.input_shape, reset=True)
        labels, positions = labels_of(x, y, self._ends_on)
        self.classes_ = classes_of(labels)
        self.positions_: tuple[int, ...] = () if positions is None else positions.shape
        self._data = x, labels
        targets = centred_one_hot(indices_of(labels, self.classes_), len(self.classes_))
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "calibrate"}
        self.ensemble_ = InfiniteEnsemble(**parameters)
        return self.ensemble_._prepare(x, targets)

    def _check_parameters(self) -> TrainingSettings:
        if not isinstance(self.calibrate, bool | np.bool_):
            raise InvalidArgumentError("calibrate", self.calibrate, "True or False")
        return super()._check_parameters()

    def _solve(self, training: Training) -> InfiniteEnsembleClassifier:
        """Solve the regression."""
        self.ensemble_._solve(training)
        self.temperature_ = self._temperature(float(self.time)) if self.calibrate else None
        for name in ("solver_", "augmentation_", "max_learning_rate_", "standardisation_", "solution_"):
            setattr(self, name, getattr(self.ensemble_, name))
        return self

    def _calibrate(self) -> None:
        """Calibrate a fitted classifier; raises the errors of `leave_one_out_`, and then changes nothing."""
        self.temperature_ = self._temperature(float(self.time))
        self.calibrate = True

    @property
    def leave_one_out_(self) -> LabelsLeftOut:
        """Each sample's label predicted by this classifier trained without it, and the fraction of correct labels.

        As `InfiniteEnsemble.leave_one_out_`. The classes are those of all samples: a class of one sample keeps its
        output when that sample is left out.
        """
        self._check_fitted()
        return self._left_out(self._solved, float(self.time))

    def _left_out(self, training: Training, time: float) -> LabelsLeftOut:
        outputs = self.ensemble_._left_out(training, time)
        predictions = self.classes_[np.argmax(outputs.predictions, axis=-1)]
        labels = self.classes_[np.argmax(outputs.predictions + outputs.residuals, axis=-1)]
        return LabelsLeftOut(predictions, labels, outputs)

    @named_also(X="x")
    def predict(self, x: Numbers, time: Times | None = None) -> np.ndarray:
        """The class with the largest mean output, (M,) or (M, *positions); for T times with a leading axis T."""
        ensemble, x = self._fitted(x)
        return self.classes_[np.argmax(ensemble.predict(x, time), axis=-1)]

    @named_also(X="x")
    def predict_proba(self, x: Numbers, time: Times | None = None) -> np.ndarray:
        """Probability that a class's output is the largest in one trained network: (M, K) or (T, M, K).

        It is the fraction of networks that vote for the class. With `calibrate` it is softmax(μ/T) instead, the
        frequency of correct predictions; each training time has its own temperature.

        For fields (M, *positions, K), each position separately. The largest probability is that of the predicted class.
        With augmentation and without `calibrate`, the first call solves the problem for variances
        (`ensemble_.covariance_solver_`).
        """
        ensemble, x = self._fitted(x)
        if self.temperature_ is not None:
            times, single = as_times(self.time if time is None else time)
            own = float(ensemble.time)
            temperatures = [self.temperature_ if t == own else self._temperature(float(t)) for t in times]
            pairs = zip(ensemble.predict(x, times), temperatures, strict=True)
            found = np.stack([scipy.special.softmax(mean / T, axis=-1) for mean, T in pairs])
            return found[0] if single else found
        if getattr(self.net, "equivariant_outputs", None) is not None:
            expected = "True for equivariant outputs, which depend on one another"
            raise InvalidArgumentError("calibrate", self.calibrate, expected)
        mean, std = ensemble.predict(x, time, return_std=True)
        return argmax_probabilities(mean.reshape(-1, mean.shape[-1]), std.reshape(-1)).reshape(mean.shape)

    def _temperature(self, time: float) -> float:
        left_out = self.ensemble_._left_out(self._solved, time)
        return fitted_temperature(left_out.predictions, left_out.predictions + left_out.residuals)

    def _orbit_question(self, x: Numbers, y: Numbers | None) -> tuple[InfiniteEnsemble, np.ndarray, np.ndarray | None]:
        """(the regression ensemble behind the classifier, x, label indices or None), checked."""
        ensemble, x = self._fitted(x)
        return *ensemble._orbit_question(x, None)[:2], label_rows(self, x, y)

    def _ends_on(self, x: np.ndarray, targets: np.ndarray) -> OutputPositions | None:
        positions = output_positions(self.net, x, targets)
        return None if positions is None or positions.equivariant else positions

    def _fitted(self, x: Numbers) -> tuple[InfiniteEnsemble, np.ndarray]:
        self._check_fitted()
        return self.ensemble_, check_inputs(self, x, self.input_shape, reset=False)
