"""A learning system: a data transformation, an architecture, and an inference algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.extending import Numbers, Targets, check_array, check_network, check_same_length, check_whole
from equitangents_studies.systems.architectures import architecture, with_outputs
from equitangents_studies.systems.curves import centred_classes
from equitangents_studies.systems.descent import GradientInference, KernelInference, TrainedMembers, inference
from equitangents_studies.systems.transformations import Transformation, transformation


@final
@dataclass(frozen=True)
class System:
    """The triple (data, model, inference): a record that is fitted to data.

    Args:
        data: the transformation of training and test inputs: the name of a group, of which `seed` draws an element,
            or a `Transformation`. "I": none.
        architecture: a name ("VEC", with the source's depth and width), what `architecture(...)` returns, or any
            network with `init` and `apply` (or `kernel`). A final Dense layer is given as many outputs as there are
            classes; other networks must have them.
        inference: a name ("NTK", "NNGP", "NN", "NN+"), or what `inference(...)` returns.
        seed: of the transformation and of the members.

    >>> import numpy as np, equitangents as et
    >>> rng = np.random.default_rng(0)
    >>> x, labels = rng.normal(size=(20, 4, 4, 3)), np.arange(20) % 5
    >>> system = et.systems.System("O(3)^d", et.systems.architecture("VEC", depth=2), "NTK")
    >>> fitted = system.fit(x[:15], labels[:15])
    >>> fitted.predict(x[15:]).shape, fitted.score(x[:15], labels[:15])
    ((5, 5), 1.0)

    Source: Xiao & Pennington 2022, arXiv 2207.04612.
    """

    data: str | Transformation = "I"
    architecture: Any = "VEC"
    inference: Any = "NTK"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, made in (("architecture", architecture), ("inference", inference)):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, made(getattr(self, name)))
        if not any(callable(getattr(self.architecture, method, None)) for method in ("kernel", "apply")):
            raise InvalidTypeError("architecture", self.architecture, "a name such as 'VEC', or a network")
        if not isinstance(self.inference, KernelInference | GradientInference):
            wanted = "'NTK', 'NNGP', 'NN' or 'NN+', or what inference() gives"
            raise InvalidTypeError("inference", self.inference, wanted)
        check_whole("seed", self.seed, 0)

    def with_seed(self, seed: int) -> System:
        """This system with another seed, hence another group element and other members."""
        return System(self.data, self.architecture, self.inference, seed)

    def transformation(self, shape: tuple[int, ...]) -> Transformation:
        """The transformation of signals of `shape` = (*positions, channels)."""
        if isinstance(self.data, Transformation):
            return self.data
        return transformation(self.data, shape, seed=self.seed)

    def fit(self, x: Numbers, y: Numbers, *, watch: tuple[Numbers, Targets] | None = None) -> FittedSystem:
        """The system trained on x (N, *positions, channels) and y.

        y: labels (N,), of whole numbers, texts or booleans: targets are 1 − 1/K for the class and −1/K for the others;
        or targets, floating numbers (N,) or (N, K). `watch`: (inputs, labels) whose accuracy is noted after every epoch
        (finite networks).
        """
        return fit_moved(self, x, y, None, watch)


def fit_moved(
    system: System, x: Numbers, y: Numbers, tau: Transformation | None, watch: tuple[Numbers, Targets] | None = None
) -> FittedSystem:
    """As `system.fit` on data already moved by `tau`, from its coupled initialisation (None: a plain one)."""
    x = np.asarray(check_array("x", x, min_rank=2))
    targets, classes, index = _targets(y, len(x))
    if watch is not None and not (isinstance(watch, tuple | list) and len(watch) == 2):
        raise InvalidTypeError("watch", type(watch), "a pair (inputs, labels)", verb="is of type")
    net = with_outputs(system.architecture, targets.shape[1])
    check_network(getattr(net, "net", net), x)
    move = system.transformation(x.shape[1:])
    if isinstance(system.inference, KernelInference):
        if watch is not None:
            raise InvalidArgumentError("watch", watch, "None, since a kernel has no epochs")
        return FittedSystem(system, move, classes, system.inference.fit(net, move(x), targets))
    noted = None
    if watch is not None:
        others = check_array("watch[0]", watch[0], min_rank=2)
        noted = (np.asarray(move(others)), _numbers(classes, watch[1], len(others), "watch[0]", "watch[1]"))
    model = system.inference.fit(net, move(x), targets, index, seed=system.seed, coupling=tau, watch=noted)
    return FittedSystem(system, move, classes, model)


@final
@dataclass(frozen=True, eq=False)
class FittedSystem:
    """A trained system; it moves the inputs that it is given by its transformation.

    Args:
        system: the system that was fitted.
        transformation: moves inputs.
        classes: the labels in order of the outputs; None where targets were numbers.
        model: the model that inference fitted.
    """

    system: System
    transformation: Transformation
    classes: np.ndarray | None
    model: InfiniteEnsemble | TrainedMembers

    def predict(self, x: Numbers) -> np.ndarray:
        """Outputs (N, K): the mean over members, or over infinitely many networks."""
        return self.model.predict(self.transformation(x))

    def predict_members(self, x: Numbers) -> np.ndarray:
        """Every member's outputs, (members, N, K), of finite networks."""
        if isinstance(self.model, InfiniteEnsemble):
            raise InvalidArgumentError("a model of infinite width has no members to list; predict gives their mean")
        return self.model.predict_members(self.transformation(x))

    def score(self, x: Numbers, y: Numbers) -> float:
        """Accuracy of the mean prediction for labels y (N,)."""
        return float(self._right(self.predict, x, y))

    def member_scores(self, x: Numbers, y: Numbers) -> np.ndarray:
        """The score of every member, (members,)."""
        return self._right(self.predict_members, x, y)

    def _right(self, predict: Any, x: Numbers, y: Numbers) -> Any:
        inputs = check_array("x", x, min_rank=2, allow_empty=True)
        index = _numbers(self.classes, y, len(inputs))
        outputs = predict(inputs)
        return np.mean((outputs.argmax(axis=-1) == index) & np.isfinite(outputs).all(axis=-1), axis=-1)

    @property
    def trained(self) -> TrainedMembers:
        """The members' training: epochs, losses, accuracies."""
        if isinstance(self.model, InfiniteEnsemble):
            raise InvalidArgumentError("a kernel is not trained in epochs")
        return self.model


def _targets(y: Targets, samples: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """(targets (N, K), classes, class index of each sample); the last two are None for numbers."""
    labels = np.asarray(y)
    if labels.dtype.kind == "f":
        targets = np.asarray(check_array("y", labels, rank=(1, 2)), np.float64)
        check_same_length("x", range(samples), "y", targets)
        return targets.reshape(samples, -1), None, None
    labels = _labels(y, samples, "x", "y")
    try:
        classes, index = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise InvalidTypeError("y", labels.tolist(), "labels of one kind", str(error), verb="holds") from None
    if len(classes) < 2:
        raise InvalidArgumentError("y", classes.tolist(), "at least two classes", verb="holds")
    return centred_classes(index, len(classes)), classes, index


def _labels(y: Targets, samples: int, of: str, name: str) -> np.ndarray:
    """Check labels, one per sample; `of` and `name` are the names of inputs and labels in errors."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ShapeError(name, labels.shape, "labels (N,)")
    check_same_length(of, range(samples), name, labels)
    if labels.dtype.kind == "c":
        raise InvalidTypeError(name, labels.dtype, "whole numbers, texts or booleans", verb="has dtype")
    return labels


def _numbers(classes: np.ndarray | None, y: Targets, samples: int, of: str = "x", name: str = "y") -> np.ndarray:
    """Class index of each label; −1 for labels that were not in training."""
    if classes is None:
        raise InvalidArgumentError("the system was fitted to numbers; a score needs labels as y")
    labels = _labels(y, samples, of, name).tolist()
    known = {label: number for number, label in enumerate(classes.tolist())}
    if {isinstance(label, str) for label in labels} - {isinstance(label, str) for label in known}:
        raise InvalidTypeError(name, labels[:3], "labels as the system was fitted to", str(classes[:3].tolist()))
    return np.array([known.get(label, -1) for label in labels], int)
