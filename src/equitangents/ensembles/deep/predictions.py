"""What ensembles of finite networks predict, given the outputs of their members.

regression      mean, standard deviation and covariance over members
classification  cross_entropy: P(k) = (1/M) Σ_i softmax(f(x; θ_i))_k
                mse: targets one-hot minus 1/K; P(k) = P(output k is the largest) of a Gaussian with the members' mean
                and std
"""

from __future__ import annotations

import math
from typing import Literal, Self, overload

import numpy as np
import scipy.special

from equitangents._types import Numbers, Spread, Targets
from equitangents.ensembles.deep.finite import FiniteEnsemble
from equitangents.ensembles.estimator import (
    centred_one_hot,
    check_inputs,
    check_targets,
    classes_of,
    indices_of,
    label_rows,
    labels_of,
    target_rows,
)
from equitangents.ensembles.training.plan import check_room
from equitangents.errors import InvalidArgumentError
from equitangents.inference.probabilities import argmax_probabilities
from equitangents.keywords import named_also


class Regression(FiniteEnsemble):
    """Mean and spread over members."""

    _squeeze: bool

    @overload
    def predict(self, x: Numbers) -> np.ndarray: ...

    @overload
    def predict(self, x: Numbers, *, return_std: Literal[True], return_cov: Literal[False] = False) -> Spread: ...

    @overload
    def predict(self, x: Numbers, *, return_std: Literal[False] = False, return_cov: Literal[True]) -> Spread: ...

    @overload
    def predict(self, x: Numbers, return_std: bool = False, return_cov: bool = False) -> np.ndarray | Spread: ...

    @named_also(X="x")
    def predict(self, x: Numbers, return_std: bool = False, return_cov: bool = False) -> np.ndarray | Spread:
        """Mean over members, (N, outputs), or (N,) for 1-d y; of fields (N, *positions, outputs), as y was given.

        With `return_std` also their standard deviation, of the mean's shape; with `return_cov` their covariance
        between inputs, (N, N) for 1-d y and (N, N, outputs) else; of fields (N, *positions, N, *positions), and an
        axis of outputs if y has one. Both are those of one member, divided by M − 1, and 0 for M = 1.
        """
        if return_std and return_cov:
            raise InvalidArgumentError("return_std and return_cov are both True; at most one can be")
        inputs = self._query(x)
        if return_cov:
            mean, spread = self._covariance(inputs)
        else:
            mean, spread = (self._in_fields(part) for part in self._moments(inputs))
        if self._squeeze:
            mean, spread = mean[..., 0], spread[..., 0]
        return (mean, spread) if return_std or return_cov else mean

    def _covariance(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = len(x) * math.prod(self.positions_)
        needed = 8 * self.n_outputs_ * points * (2 * points + 3 * self._trained)
        check_room(f"the covariance between {len(x)} inputs", needed, self.memory_limit, "predict in parts")
        fields = self.predict_members(x)
        outputs = fields.reshape(self._trained, points, -1).astype(np.float64)
        mean = outputs.mean(axis=0)
        centred = outputs - mean
        covariance = np.einsum("mik,mjk->ijk", centred, centred, optimize=True) / max(1, self._trained - 1)
        shape = fields.shape[1:-1]
        mean, covariance = mean.reshape(*shape, -1), covariance.reshape(*shape, *shape, -1)
        return mean.astype(self.dtype), covariance.astype(self.dtype)

    def _data(self, x: Numbers, y: Targets, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        inputs = check_inputs(self, x, self.input_shape, reset=reset)
        _, targets, squeeze = check_targets(inputs, y, self._ends_on(inputs, y))
        if reset:
            self._squeeze = squeeze
        return inputs, targets

    def _orbit_question(self, x: Numbers, y: Targets | None) -> tuple[Self, np.ndarray, np.ndarray | None]:
        """(this ensemble, x, targets (n, outputs) or None), checked."""
        inputs = check_inputs(self, x, self.input_shape, reset=False)
        return self, inputs, target_rows(self, inputs, y)


class Classification(FiniteEnsemble):
    """Probabilities of classes, one output each."""

    classes_: np.ndarray

    @named_also(X="x")
    def predict(self, x: Numbers) -> np.ndarray:
        """The class with the largest probability, (N,); of fields that at every position, (N, *positions)."""
        probabilities = self.predict_proba(x)
        return self.classes_[np.argmax(probabilities, axis=-1)]

    @named_also(X="x")
    def predict_proba(self, x: Numbers) -> np.ndarray:
        """Probability of every class, (N, K), columns in the order of `classes_`; of fields (N, *positions, K).

        With "cross_entropy" the mean of the members' softmax; with "mse" the probability that a class's output is the
        largest in one member, outputs being Gaussian with the members' mean and standard deviation.
        """
        inputs = self._query(x)
        if self._loss == "mse":
            mean, std = (self._in_fields(part) for part in self._moments(inputs))
            K = len(self.classes_)
            return argmax_probabilities(mean.reshape(-1, K), std.reshape(-1, K)).reshape(mean.shape)
        fields = (self._in_fields(f.astype(np.float64)) for f in self._member_outputs(inputs))
        return np.concatenate([scipy.special.softmax(f, axis=-1).mean(axis=0) for f in fields])

    def _targets(self, index: np.ndarray) -> np.ndarray:
        if self._loss == "mse":
            return centred_one_hot(index, len(self.classes_))
        return np.eye(len(self.classes_))[index]

    def _data(self, x: Numbers, y: Targets, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """(inputs, targets (N, K), of fields (N, *positions, K)); with `reset` the labels of y are the classes."""
        inputs = check_inputs(self, x, self.input_shape, reset=reset)
        labels, _ = labels_of(inputs, y, self._ends_on)
        if reset:
            self.classes_ = classes_of(labels)
        return inputs, self._targets(indices_of(labels, self.classes_))

    def _orbit_question(self, x: Numbers, y: Targets | None) -> tuple[Self, np.ndarray, np.ndarray | None]:
        """(this ensemble, x, indices of the labels or None), checked."""
        inputs = check_inputs(self, x, self.input_shape, reset=False)
        return self, inputs, label_rows(self, inputs, y)
