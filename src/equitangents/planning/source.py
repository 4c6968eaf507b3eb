"""The source of a plan: the law of infinitely wide networks, or a pilot of trained ones.

ensemble                                      source
fitted infinite                               theory: the law of its members
network, or unfitted finite ensemble          a pilot, trained here on the data
fitted finite                                 a pilot: its own members
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

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
from equitangents.nn.admissible import MeanLaw, commutes, mean_law
from equitangents.planning.pilot import PilotTraining, train
from equitangents.validation import check_whole

Data = tuple[Numbers, Targets] | None
PILOT = 20  # networks
LEAST = 3
INFINITE = (InfiniteEnsemble, InfiniteEnsembleClassifier, BaggedInfiniteEnsemble)


@dataclass(frozen=True, eq=False)
class Source:
    """A fitted ensemble, and what is planned with it.

    ensemble: infinite (theory) or finite (a pilot). x, truth: inputs, and targets or indices of labels. training: of a
    pilot trained here, or None. time: of the theory, or None.
    """

    ensemble: AnyModel
    x: np.ndarray
    truth: np.ndarray | None
    training: PilotTraining | None
    time: float | None

    @property
    def infinite(self) -> bool:
        """Whether members are infinitely wide, so that the plan is theory's."""
        return isinstance(self.ensemble, INFINITE)

    @property
    def net(self) -> Network:
        """The network of the members."""
        return getattr(self.ensemble, "net", None) or self.ensemble.ensemble.net

    @property
    def augmentation(self) -> AnyAction:
        """The action by which the members' data are augmented, or None."""
        return self.ensemble.augmentation_

    @property
    def fields(self) -> FieldRows | None:
        """How outputs lie in rows, where they are fields."""
        return field_rows(self.ensemble)

    def mean_law(self, action: Action, output_action: GroupAction | None) -> MeanLaw | None:
        """What is known of the mean of infinitely many networks without a look at the pilot; None: nothing.

        It is equivariant at any width after training on all transformed copies if the initial weights are as likely as
        turned ones, and training does not single out directions of the weights (arXiv 2410.01452).
        """
        if self.augmentation is None or self.augmentation != action:
            return None
        moved = label_action = getattr(self.ensemble, "label_action", None)
        optimizer = getattr(self.ensemble, "optimizer", "gd")
        if self.fields is not None and moved is None:
            moved = value_keeping(self.augmentation)  # fields go with their positions
        if moved != output_action:
            return None
        if self.fields is None:
            return mean_law(self.net, action, self.x, optimizer)
        if not (commutes(optimizer, action) and callable(getattr(self.net, "kernel", None))):
            return None
        try:
            positions = Positions(self.fields.grid)
            points = PointAction(action, moved_positions(action, label_action, positions))
            symmetry = kernel_symmetry(FieldKernel(self.net), points, FieldPoints.of(self.x, positions.count))
        except (NetworkError, MemoryLimitError):  # a network without a kernel: nothing is known of it
            return None
        return MeanLaw(None, True) if symmetry.invariant else None


def make_source(
    ensemble: AnyModel,
    x: Numbers,
    y: Targets | None,
    *,
    action: Action,
    output_action: GroupAction | None,
    pilot: int | None,
    data: Data,
    time: Times | None,
    seed: int,
) -> Source:
    """The fitted ensemble that a plan is made from; a pilot is trained where there is none.

    Arguments are those of `plan_ensemble`, checked; y is None where no error is measured.
    """
    if isinstance(ensemble, INFINITE):
        if data is not None or pilot is not None:
            raise InvalidArgumentError(
                "pilot" if data is None else "data",
                "given",
                "none for an infinite ensemble, which is planned from theory",
                "give a DeepEnsemble or a network",
            )
        theory, inputs, truth = ensemble._orbit_question(x, y)
        return Source(theory, inputs, truth, None, check_time(theory, time))
    if time is not None:
        raise InvalidArgumentError("time", time, "None", "finite networks are trained for the epochs of their ensemble")
    if not isinstance(ensemble, FiniteEnsemble):
        ensemble = _ensemble_of(ensemble, action, output_action, data, seed)
    members = PILOT if pilot is None else check_whole("pilot", pilot, LEAST)
    training: PilotTraining | None = None
    if data is not None:
        ensemble, training = train(ensemble, *_pair(data), members)
    elif not ensemble.__sklearn_is_fitted__():
        raise NotFittedError(
            f"ensemble is a {type(ensemble).__name__} that is not fitted, and data is None; give data=(X, y), on which "
            f"a pilot of {PILOT} networks is trained, or fit it"
        )
    ensemble, inputs, truth = ensemble._orbit_question(x, y)
    return Source(ensemble, inputs, truth, training, None)


def _ensemble_of(
    net: Network, action: Action, output_action: GroupAction | None, data: Data, seed: int
) -> DeepEnsemble | DeepEnsembleClassifier:
    """A network's ensemble with the usual settings, trained on all transformed copies."""
    try:
        as_network(net)
    except InvalidTypeError:
        raise InvalidTypeError(
            "ensemble",
            net,
            "a fitted InfiniteEnsemble, InfiniteEnsembleClassifier or BaggedInfiniteEnsemble, a "
            "DeepEnsemble, or a network with data=(X, y)",
        ) from None
    if data is None:
        raise InvalidArgumentError("data is None; expected (X, y), on which a pilot of the network is trained")
    kind = DeepEnsembleClassifier if are_labels(np.asarray(_pair(data)[1])) else DeepEnsemble
    return kind(net, augmentation=action, label_action=output_action, seed=seed)


def are_labels(y: np.ndarray) -> bool:
    """Whether targets are class labels: whole numbers, text or truth values, in one column."""
    text = y.dtype.kind == "O" and all(isinstance(label, str) for label in y.flat)
    return y.ndim == 1 and (text or y.dtype.kind in "iuUSb")


def pilot_outputs(pilot: AnyModel, batch: np.ndarray) -> np.ndarray:
    """Members' outputs (networks, N, K), or their probabilities where those are averaged."""
    outputs = np.asarray(pilot.predict_members(batch), np.float64)
    if len(outputs) < LEAST:
        raise InvalidArgumentError("pilot", len(outputs), f"at least {LEAST}", verb="has members,")
    if not np.isfinite(outputs).all():
        raise InvalidArgumentError("the pilot's outputs are not finite; its training diverged")
    if predicts_probabilities(pilot):
        outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        outputs /= outputs.sum(axis=-1, keepdims=True)
    return outputs


def predicts_probabilities(pilot: AnyModel) -> bool:
    """Whether an ensemble's prediction is the mean of its members' probabilities."""
    return isinstance(pilot, Classification) and pilot._loss == "cross_entropy"


def _pair(data: Data) -> tuple[ArrayLike, Targets]:
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise InvalidTypeError("data", type(data), "(X, y), inputs and targets", verb="is of type")
    return cast(ArrayLike, data[0]), data[1]
