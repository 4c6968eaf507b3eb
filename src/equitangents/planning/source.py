"""From what a plan is made: the law of infinitely wide networks, a pilot of trained ones, or both.

ensemble                                      theory        pilot
fitted infinite                               it            what is given; with data, trained here
network, or unfitted finite ensemble          none          trained here on the data
fitted finite                                 none          its own members
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from equitangents._types import AnyAction, AnyModel, ArrayLike, Network, Numbers, Targets, Times
from equitangents.actions import Action
from equitangents.actions.group_action import GroupAction
from equitangents.ensembles import (
    BaggedInfiniteEnsemble,
    DeepEnsemble,
    DeepEnsembleClassifier,
    InfiniteEnsemble,
    InfiniteEnsembleClassifier,
)
from equitangents.ensembles.deep.finite import FiniteEnsemble
from equitangents.ensembles.deep.predictions import Classification
from equitangents.ensembles.fields.kernel import FieldKernel, kernel_symmetry
from equitangents.ensembles.fields.points import FieldPoints, PointAction
from equitangents.ensembles.fields.targets import FieldRows, Positions, field_rows, moved_positions, value_keeping
from equitangents.ensembles.networks import as_network
from equitangents.ensembles.orbits.statistics import check_time
from equitangents.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    MemoryLimitError,
    NetworkError,
    NotFittedError,
)
from equitangents.nn.mean_law import MeanLaw, commutes, mean_law
from equitangents.planning.pilot import PilotTraining, deep_like, train
from equitangents.validation import check_whole, is_whole

Data = tuple[Numbers, Targets] | None
PILOT = 20
_LEAST = 3


class HasMembers(Protocol):
    """A fitted ensemble whose members can be asked one by one."""

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """The outputs of every member, (members, N, outputs)."""


@dataclass(frozen=True, eq=False)
class Source:
    """theory: a fitted infinite regression, or None. pilot: a fitted finite ensemble or anything with
    `predict_members`, or None. x, truth: inputs and targets or indices of labels. time: of the theory, or None.
    samples: of training, if known.
    """

    x: np.ndarray
    truth: np.ndarray | None
    theory: AnyModel
    pilot: AnyModel
    training: PilotTraining | None
    optimizer: object
    time: float | None
    samples: int | None

    @property
    def planned(self) -> AnyModel:
        """What is planned for: the theory, or the pilot that is a smaller one of its kind."""
        return self.pilot if self.theory is None else self.theory

    @property
    def net(self) -> Network:
        """The network of the members."""
        return getattr(self.planned, "net", None) or self.planned.ensemble.net

    @property
    def augmentation(self) -> AnyAction:
        """By what the members' data are augmented, or None."""
        return self.planned.augmentation_

    @property
    def label_action(self) -> AnyAction:
        """How their labels move along with inputs, or None."""
        return getattr(self.planned, "label_action", None)

    @property
    def fields(self) -> FieldRows | None:
        """How outputs lie in rows, where they are fields."""
        return field_rows(self.planned)

    def mean_law(self, action: Action, output_action: GroupAction | None) -> MeanLaw | None:
        """What is known of the mean of infinitely many networks without a look at the pilot; None: nothing.

        It is equivariant at any width after training on all transformed copies if the initial weights are as likely as
        turned ones, and training does not single out directions of the weights (arXiv 2410.01452).
        """
        if self.augmentation is None or self.augmentation != action:
            return None
        moved = self.label_action
        if self.fields is not None and moved is None:
            moved = value_keeping(self.augmentation)  # fields go with their positions
        if moved != output_action:
            return None
        if self.fields is None:
            return mean_law(self.net, action, self.x, self.optimizer)
        if not (commutes(self.optimizer, action) and callable(getattr(self.net, "kernel", None))):
            return None
        try:
            positions = Positions(self.fields.grid)
            points = PointAction(action, moved_positions(action, self.label_action, positions))
            symmetry = kernel_symmetry(FieldKernel(self.net), points, FieldPoints.of(self.x, positions.count))
        except (NetworkError, MemoryLimitError):  # a network without a kernel: nothing is known of it
            return None
        return MeanLaw(None, True) if symmetry.invariant else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """What `plan_ensemble` was asked, its arguments checked; y is None where no error is measured."""

    ensemble: AnyModel
    action: Action
    x: Numbers
    y: Targets | None
    output_action: GroupAction | None
    pilot: AnyModel
    data: Data
    time: Times | None
    seed: int


def make_source(asked: Asked) -> Source:
    """Sort out what was given to `plan_ensemble`, and train the pilot if one is wanted."""
    ensemble = asked.ensemble
    if isinstance(ensemble, InfiniteEnsemble | InfiniteEnsembleClassifier | BaggedInfiniteEnsemble):
        return _of_infinite(asked)
    if asked.time is not None:
        raise InvalidArgumentError(
            f"time is {asked.time!r}, which infinitely wide networks have; finite ones are trained for their epochs"
        )
    return _of_finite(ensemble if isinstance(ensemble, FiniteEnsemble) else _ensemble_of(asked), asked)


def _of_infinite(asked: Asked) -> Source:
    ensemble, data = asked.ensemble, asked.data
    trained, count = _pilot_or_count(asked.pilot, data)
    if data is not None and not ensemble.__sklearn_is_fitted__():
        ensemble = type(ensemble)(**ensemble.get_params(deep=False)).fit(*_pair(data))
    theory, inputs, truth = ensemble._orbit_question(asked.x, asked.y)
    time = check_time(theory, asked.time)
    training, optimizer = None, getattr(trained, "optimizer", "gd")
    samples = _samples(theory)
    if count is not None:
        if isinstance(ensemble, BaggedInfiniteEnsemble):
            raise InvalidArgumentError(
                "pilot is to be trained, which a BaggedInfiniteEnsemble does not say how to; give a DeepEnsemble"
            )
        pair = _pair(data)
        trained, training = train(deep_like(ensemble, time, asked.seed), *pair, count)
        samples = len(pair[0])
    return Source(inputs, truth, theory, trained, training, optimizer, time, samples)


def _of_finite(ensemble: AnyModel, asked: Asked) -> Source:
    pilot = asked.pilot
    if pilot is not None and not is_whole(pilot):
        raise InvalidTypeError("pilot", pilot, remedy="of a finite ensemble it is a number of networks to be trained")
    training, samples = None, None
    if asked.data is not None:
        pair = _pair(asked.data)
        ensemble, training = train(ensemble, *pair, _count(pilot))
        samples = len(pair[0])
    elif not ensemble.__sklearn_is_fitted__():
        raise NotFittedError(
            f"ensemble is a {type(ensemble).__name__} that is not fitted, and data is None; give data=(X, y), on which "
            f"a pilot of {PILOT} networks is trained, or fit it"
        )
    ensemble, inputs, truth = ensemble._orbit_question(asked.x, asked.y)
    return Source(inputs, truth, None, ensemble, training, ensemble.optimizer, None, samples)


def _ensemble_of(asked: Asked) -> AnyModel:
    """A network's ensemble with the usual settings, trained on all transformed copies."""
    net = asked.ensemble
    try:
        as_network(net)
    except InvalidTypeError:
        raise InvalidTypeError(
            "ensemble",
            net,
            "a fitted InfiniteEnsemble, InfiniteEnsembleClassifier or BaggedInfiniteEnsemble, a "
            "DeepEnsemble, or a network with data=(X, y)",
        ) from None
    if asked.data is None:
        raise InvalidArgumentError(
            "data", None, remedy="a network is planned for with data=(X, y), on which a pilot is trained"
        )
    kind = DeepEnsembleClassifier if are_labels(np.asarray(_pair(asked.data)[1])) else DeepEnsemble
    return kind(net, augmentation=asked.action, label_action=asked.output_action, seed=asked.seed)


def are_labels(y: np.ndarray) -> bool:
    """Whether targets are class labels: whole numbers, text or truth values, in one column."""
    text = y.dtype.kind == "O" and all(isinstance(label, str) for label in y.flat)
    return y.ndim == 1 and (text or y.dtype.kind in "iuUSb")


def pilot_outputs(pilot: AnyModel, batch: np.ndarray) -> np.ndarray:
    """What the mean is taken of, (networks, N, K): outputs, or probabilities of a classifier trained for those."""
    outputs = np.asarray(pilot.predict_members(batch), np.float64)
    if len(outputs) < _LEAST:
        raise InvalidArgumentError(f"pilot has {len(outputs)} members; it needs at least {_LEAST}")
    if not np.isfinite(outputs).all():
        raise InvalidArgumentError("the pilot's outputs are not finite; its training diverged")
    if predicts_probabilities(pilot):
        outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        outputs /= outputs.sum(axis=-1, keepdims=True)
    return outputs


def predicts_probabilities(pilot: AnyModel) -> bool:
    """Whether an ensemble's prediction is the mean of its members' probabilities."""
    return isinstance(pilot, Classification) and pilot._loss == "cross_entropy"


def _pilot_or_count(pilot: AnyModel, data: Data) -> tuple[AnyModel, int | None]:
    """(a pilot that is given, how many networks are to be trained), at most one of which is not None."""
    if pilot is None:
        return None, None if data is None else PILOT
    if is_whole(pilot) and pilot == 0:
        return None, None
    if is_whole(pilot) and data is not None:
        return None, check_whole(
            "pilot", pilot, _LEAST, wanted=f"a whole number, at least {_LEAST}, or 0 for theory alone"
        )
    if not callable(getattr(pilot, "predict_members", None)):
        raise InvalidTypeError(
            "pilot", pilot, "a fitted DeepEnsemble, or a number of networks with data=(X, y) to train on"
        )
    return pilot, None


def _count(pilot: AnyModel) -> int:
    if pilot is None:
        return PILOT
    check_whole("pilot", pilot, _LEAST)
    return int(pilot)


def _pair(data: Data) -> tuple[ArrayLike, Targets]:
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise InvalidTypeError("data", type(data), "(X, y), inputs and targets", verb="is of type")
    return cast(ArrayLike, data[0]), data[1]


def _samples(theory: AnyModel) -> int | None:
    """How many it was trained on."""
    training = getattr(theory, "_training", None)
    return None if training is None else len(training.given.x)
