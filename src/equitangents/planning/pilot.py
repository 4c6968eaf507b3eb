"""The source of a plan: infinitely wide networks, or a pilot of m trained networks.

The law of trained ensembles of finite width is drawn from the outputs z_i (n, |G|, K) of the pilot on orbits, carried
back by ρ_Y. z_i = s_i + d_i, its mean over the orbit and the rest. With weights w of the pilot's networks,
Dirichlet(1, …, 1), and ξ_i ~ N(0, 1), one draw is
    mean of infinitely many   c s̄ + √c Σ_i w_i (s_i − s̄),  c = 1 − tr S²/(m |s̄|²): the size of s̄ without its noise
    one network about it      Σ_i √w_i ξ_i (s_i − s̄ + d_i)
so that draws vary as new ensembles and new pilots would. If training is equivariant, the mean of infinitely many has no
d, and a network is as likely as its transformed copies d_i(h·), which are all used; otherwise d is drawn as s is.

ensemble                                      source
fitted infinite                               theory: the law of its members
network, or unfitted finite ensemble          a pilot, trained here on the data
fitted finite                                 a pilot: its own members
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from jaxtyping import Float
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from equitangents._types import AnyAction, AnyModel, ArrayLike, Network, Numbers, Targets, Times
from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.ensembles import (
    DeepEnsemble,
    DeepEnsembleClassifier,
    InfiniteEnsemble,
    InfiniteEnsembleClassifier,
)
from equitangents.ensembles.fields import (
    FieldKernel,
    FieldPoints,
    OutputPositions,
    PointAction,
    field_shape,
    kernel_symmetry,
    moved_positions,
    value_keeping,
)
from equitangents.ensembles.finite import Classification, FiniteEnsemble
from equitangents.ensembles.networks import as_network
from equitangents.ensembles.orbits import OrbitLaw
from equitangents.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    MemoryLimitError,
    NetworkError,
    NotFittedError,
)
from equitangents.groups import Group
from equitangents.inference.dynamics import one_time
from equitangents.memory import check_memory
from equitangents.metrics.on_orbits import carried_back, moved
from equitangents.nn.admissible import MeanLaw, commutes, mean_law
from equitangents.validation import check_whole

logger = logging.getLogger("equitangents.pilot")
_REPLICATES, _DRAWS = 16, 200  # resampled pilots, and least draws of each
_TEMPORARIES = 3  # arrays of all draws in memory
_COPIES = 400  # most transformed copies of the pilot's networks


@dataclass(frozen=True)
class Pilot:
    """The trained networks of a plan.

    members            their number
    epochs, seconds    of their training; None for an ensemble fitted before
    """

    members: int
    epochs: int | None = None
    seconds: float | None = None


def train(ensemble: AnyModel, x: Numbers, y: Targets, members: int) -> tuple[AnyModel, Pilot]:
    """The first `members` networks of an ensemble, trained on x and y."""
    trained = clone(ensemble).set_params(members=members, checkpoint_dir=None)
    logger.info("training a pilot of %d networks for %d epochs", members, trained.epochs)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an error below
        trained.fit(x, y)
    bad = int((~np.isfinite(trained.history_).all(axis=0)).sum())
    if bad:
        raise InvalidArgumentError(
            "learning_rate",
            trained.learning_rate,
            "one at which no pilot network diverges",
            f"lower it: {bad} diverged",
        )
    return trained, Pilot(members, trained.epochs, time.perf_counter() - begin)


@dataclass(frozen=True, eq=False)
class PilotDraws:
    """Outputs of a pilot on orbits.

    equivariant: whether the mean of infinitely many networks is. about: targets if errors are measured, else None: 0;
    the mean is shrunk towards it.
    """

    outputs: Float[np.ndarray, "networks n order outputs"]
    group: Group
    output_action: AnyAction | None
    equivariant: bool
    about: Float[np.ndarray, "n outputs"] | None
    rng: np.random.Generator

    def replicates(self, draws: int) -> Iterator[OrbitLaw]:
        """Laws of resampled pilots, with the same random numbers, so that they differ only by the pilot."""
        each, m = max(2, min(draws, max(_DRAWS, draws // 4))), len(self.outputs)
        state = int(self.rng.integers(2**63))
        weights = self.rng.dirichlet(np.ones(m), size=_REPLICATES)
        for w in weights:
            same = replace(self, rng=np.random.default_rng(state))
            yield same.law(each, np.tile(w, (each, 1)))

    def law(self, draws: int, weights: Float[np.ndarray, "draws networks"] | None = None) -> OrbitLaw:
        """`draws` ensembles of networks like the pilot's; random weights in each draw if `weights` is None."""
        outputs, group, rng, m = self.outputs, self.group, self.rng, len(self.outputs)
        check_memory(
            f"{draws} draws of an ensemble on {outputs.shape[1]} orbits of {group.order} points",
            8 * outputs[0].size * (_TEMPORARIES * draws + max(m, _COPIES)),
            None,
            "ask for fewer inputs or draws",
        )
        z = carried_back(self.output_action, outputs)
        mean = z.mean(axis=2, keepdims=True)
        rest = z - mean
        w = rng.dirichlet(np.ones(m), size=draws) if weights is None else weights
        centre = 0.0 if self.about is None else self.about[:, None, :]
        whole, offsets = _mean(mean, w, centre, least=1 / m)
        scale = np.sqrt(m / (m - 1))
        of_networks = scale * (mean - mean.mean(axis=0))
        if self.equivariant:
            elements = _elements(group, m, rng)
            copies = np.stack([of_networks + rest[:, :, group.table[h]] for h in elements], axis=1)
        else:
            lasting, rest_offsets = _mean(rest, w, 0.0, least=0.0)
            whole, offsets = whole + lasting, offsets + rest_offsets
            copies = (of_networks + scale * (rest - rest.mean(axis=0)))[:, None]
        count = copies.shape[1]
        noise = rng.normal(size=(draws, m, count)) * np.sqrt(w / count)[:, :, None]
        fluctuations = (noise.reshape(draws, -1) @ copies.reshape(m * count, -1)).reshape(draws, *z.shape[1:])
        whole = np.broadcast_to(whole, z.shape[1:])
        action = self.output_action
        if action is None:
            return OrbitLaw(whole, fluctuations, offsets)
        offsets = np.broadcast_to(offsets, (draws, *z.shape[1:]))
        # f_g = ρ_Y(g) z_g
        on = lambda z: np.stack([moved(action, g, z[..., g, :]) for g in range(group.order)], axis=-2)
        return OrbitLaw(on(whole), on(fluctuations), on(offsets))


def _mean(
    parts: np.ndarray, w: np.ndarray, centre: np.ndarray | float, *, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """(mean of infinitely many networks (n, points, K), draws of its deviation).

    least: the share of the pilot's mean that is kept even if it may be noise.
    """
    m = len(parts)
    mean = parts.mean(axis=0)
    about, single = mean - centre, parts - mean
    noise = float((single**2).sum()) / (m - 1) / m
    size = float((about**2).sum())
    share = max(least, 1 - noise / size) if size > 0 else 0.0
    # Dirichlet weights make a variance of (m − 1)/(m + 1) of that of a mean of m
    scale = np.sqrt(share * (m + 1) / (m - 1))
    drawn = (w @ single.reshape(m, -1)).reshape(len(w), *mean.shape)
    return centre + share * about, scale * drawn


def _elements(group: Group, networks: int, rng: np.random.Generator) -> np.ndarray:
    """The elements that transform copies: all, or a sample of a large group."""
    most = max(1, _COPIES // networks)
    if group.order <= most:
        return np.arange(group.order)
    return rng.choice(group.order, most, replace=False)


Data = tuple[Numbers, Targets] | None
PILOT = 20  # networks
LEAST = 3
INFINITE = (InfiniteEnsemble, InfiniteEnsembleClassifier)


@dataclass(frozen=True, eq=False)
class Source:
    """A fitted ensemble with the inputs of the plan.

    ensemble: infinite (theory) or finite (a pilot). x, truth: inputs, and targets or indices of labels. pilot: if
    trained here. time: training time in theory, or None.
    """

    ensemble: AnyModel
    x: np.ndarray
    truth: np.ndarray | None
    pilot: Pilot | None
    time: float | None

    @property
    def infinite(self) -> bool:
        """Whether members are infinitely wide, and the plan is from theory."""
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
    def fields(self) -> tuple[int, ...] | None:
        """(*positions, outputs) of outputs that are fields."""
        return field_shape(self.ensemble)

    def mean_law(self, action: Action, output_action: GroupAction | None) -> MeanLaw | None:
        """The law of the mean of infinitely many networks, independent of the pilot; None: unknown.

        After training on all transformed copies it is equivariant at any width, if the distribution of initial weights
        is invariant and training does not single out directions of the weights (arXiv 2410.01452).
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
            positions = OutputPositions(self.fields[:-1])
            points = PointAction(action, moved_positions(action, label_action, positions))
            symmetry = kernel_symmetry(FieldKernel(self.net), points, FieldPoints.of(self.x, positions.count))
        except (NetworkError, MemoryLimitError):  # a network without a kernel
            return None
        return MeanLaw(None, True) if symmetry is not None else None


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
    """The fitted ensemble of a plan; a pilot is trained if needed.

    Checked arguments of `plan_ensemble`; y is None if no error is measured.
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
        return Source(theory, inputs, truth, None, one_time(theory.time if time is None else time))
    if time is not None:
        raise InvalidArgumentError("time", time, "None", "finite networks are trained for the epochs of their ensemble")
    if not isinstance(ensemble, FiniteEnsemble):
        ensemble = _ensemble_of(ensemble, action, output_action, data, seed)
    members = PILOT if pilot is None else check_whole("pilot", pilot, LEAST)
    trained: Pilot | None = None
    if data is not None:
        ensemble, trained = train(ensemble, *_pair(data), members)
    elif not ensemble.__sklearn_is_fitted__():
        raise NotFittedError(
            f"ensemble is a {type(ensemble).__name__} that is not fitted, and data is None; give data=(X, y), on which "
            f"a pilot of {PILOT} networks is trained, or fit it"
        )
    ensemble, inputs, truth = ensemble._orbit_question(x, y)
    return Source(ensemble, inputs, truth, trained, None)


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
            "a fitted InfiniteEnsemble or InfiniteEnsembleClassifier, a DeepEnsemble, or a network with data=(X, y)",
        ) from None
    if data is None:
        raise InvalidArgumentError("data", None, "(X, y), on which a pilot of the network is trained")
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
        bad = tuple(np.argwhere(~np.isfinite(outputs))[0].tolist())
        raise InvalidArgumentError("pilot", bad, remedy="its training diverged", verb="has non-finite outputs at index")
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
