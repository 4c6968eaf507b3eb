"""Ensembles of finite networks, trained by any library: fitting, extending, predicting, saving.

f̄(x) = (1/M) Σ_i f(x; θ_i), member i a function only of (seed, i).

regression      mean, standard deviation and covariance over members
classification  cross_entropy: P(k) = (1/M) Σ_i softmax(f(x; θ_i))_k
                mse: targets one-hot minus 1/K; P(k) = P(output k is the largest) of a Gaussian with the members' mean
                and std
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, overload

import jax
import numpy as np
import scipy.special
from sklearn.exceptions import ConvergenceWarning

from equitangents._types import AnyModel, FileName, MeanStd, Numbers, Targets, Tree
from equitangents.actions import as_action
from equitangents.actions.subset import ActionSubset, augmenting_elements
from equitangents.ensembles import saved_folder
from equitangents.ensembles.estimator import (
    Estimator,
    StandardisedInputs,
    centred_one_hot,
    check_actions,
    check_inputs,
    check_targets,
    classes_of,
    indices_of,
    label_rows,
    labels_of,
    target_rows,
)
from equitangents.ensembles.fields import OutputPositions
from equitangents.ensembles.training.checkpoints import check_same
from equitangents.ensembles.training.network_job import check_room
from equitangents.ensembles.training.recipe import LOSSES
from equitangents.ensembles.training.run import Augmented, Job, Trained, augment, joined, record_fingerprint, train
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.inference.probabilities import argmax_probabilities
from equitangents.keywords import named_also
from equitangents.progress import callback_of
from equitangents.scale.place import local
from equitangents.validation import check_choice, check_number, check_whole

_FITTED = ("params_", "params0_", "history_", "recorded_", "recorded_epochs_")
OPTIMIZERS = ("gd", "sgd", "momentum", "adam")
_LOOKED_AT = 64  # inputs on which members are tested for divergence


class FiniteEnsemble(StandardisedInputs, Estimator):
    """Finite networks trained from independent initialisations.

    Base of `DeepEnsemble` and `equitangents.torch.Ensemble`, and their classifiers.
    """

    fitted_attribute = "params_"
    _default_loss: ClassVar[str]

    members: int
    input_shape: tuple[int, ...] | None
    checkpoint_dir: FileName | None
    checkpoint_every: int

    n_outputs_: int
    positions_: tuple[int, ...] = ()  # of outputs that are fields

    @named_also(X="x")
    def fit(
        self,
        x: Numbers,
        y: Targets,
        *,
        record: Mapping[str, Numbers] | None = None,
        record_at: Sequence[int] | None = None,
        resume: bool = False,
    ) -> Self:
        """Train all members on x (N, features) or (N, *positions, channels) and y (N,) or (N, outputs).

        For networks that end on positions y is (N, *positions, outputs), or (N, *positions); the loss is half the sum
        of squares over positions and outputs, averaged over samples. Classifiers take labels of any type, (N,) or (N,
        *positions), at least two different ones.

        Args:
            x: inputs.
            y: targets.
            record: inputs by name; the outputs of every member at them are kept in `recorded_[name]`,
                (len(recorded_epochs_), members, n, outputs).
            record_at: the epochs to record, 0 for the initialisation; None: all from 0 on.
            resume: continue from the newest checkpoint in `checkpoint_dir`, if there is one. Its parameters and data
                must be the same, except that `epochs` may have grown.

        Raises:
            InvalidArgumentError: for bad input; InvalidTypeError likewise.
            NetworkError: if the network's outputs do not match y.
            MemoryLimitError: before allocating too much.
            MissingLibraryError: if the library that trains is not installed.
        """
        for name in _FITTED:  # so that a fit that fails leaves nothing to predict with
            self.__dict__.pop(name, None)
        inputs, targets = self._data(x, y, reset=True)
        augmentation = as_action("augmentation", self.augmentation, np.shape(inputs))
        inputs = self._fit_inputs(inputs, self.net, augmentation)
        job = self._prepared(inputs, targets, 0, self.members)
        sets, epochs = self._record_sets(record, record_at)
        self.positions_, self.n_outputs_ = targets.shape[1:-1], targets.shape[-1]
        run = self._run(job, sets, epochs, resume)
        self.augmentation_ = augmentation
        self._keep(run)
        self._variation = job.recipe.variation
        self._fingerprint = job.fingerprint
        self._recorded_inputs = record_fingerprint(sets)
        self.__dict__.update(job.facts)
        self._warn_if_diverged(inputs)
        return self

    @named_also(X="x")
    def extend(
        self,
        members: int,
        x: Numbers,
        y: Targets,
        *,
        record: Mapping[str, Numbers] | None = None,
        resume: bool = False,
    ) -> Self:
        """Train further members on the same data, up to `members` in total; trained members do not change.

        The result equals that of `fit` with `members` members. `record` must be as in `fit`.
        """
        self._check_fitted()
        inputs, targets = self._data(x, y, reset=False)
        inputs = self._as_trained(inputs)
        check_whole("members", members, self._trained)
        if members == self._trained:
            return self
        job = self._prepared(inputs, targets, self._trained, members - self._trained)
        check_same(self._fingerprint, job.fingerprint, "this fitted ensemble")
        if len(self.history_) != self.epochs:
            raise InvalidArgumentError("epochs", self.epochs, len(self.history_), "as the members so far had")
        sets, epochs = self._record_sets(record, self.recorded_epochs_.tolist() if record else None)
        if record_fingerprint(sets) != getattr(self, "_recorded_inputs", None):
            raise InvalidArgumentError("record", list(sets), "the names and inputs that fit was given")
        run = self._run(job, sets, epochs, resume)
        epochs_so_far = self.recorded_epochs_.tolist()
        so_far = Trained(self.params_, self.params0_, self.history_, self.recorded_, epochs_so_far, self._chunk)
        self._keep(joined([so_far, run]))
        self.members = members
        self.__dict__.update(job.facts)
        self._warn_if_diverged(inputs)
        return self

    @named_also(X="x")
    def predict_members(self, x: Numbers) -> np.ndarray:
        """Outputs of every member, (members, N, outputs), or (members, N, *positions, outputs)."""
        inputs = self._query(x)
        needed = self._trained * len(inputs) * self._numbers * np.dtype(self.dtype).itemsize
        task = f"the outputs of {self._trained} members on {len(inputs)} inputs"
        check_room(task, 2 * needed, self.memory_limit, "predict in parts")
        return self._in_fields(np.concatenate(list(self._member_outputs(inputs)), axis=1))

    def member(self, i: int) -> AnyModel:
        """Member i as an object of its library: a PyTorch, Flax nnx or Equinox module ready to predict; (module, state)
        or (module, variables) if these are separate; (net, params) for networks with init and apply.

        With `standardise` its inputs are `standardisation_(x)`.
        """
        self._check_fitted()
        check_whole("i", i, 0, self._trained - 1)
        return self._member(i)

    def save(self, path: FileName) -> None:
        """Write parameters and fitted state atomically to a directory `path`, replacing an ensemble saved there.

        The folder holds JSON and arrays with checksums, no pickles. Networks of other libraries, functions that make
        modules, and functions such as optax optimizers are not saved: pass them to `load`.
        """
        self._check_fitted()
        saved_folder.save_members(self, local("path", path))

    @classmethod
    def load(cls, path: FileName, **parameters: Any) -> Self:
        """The ensemble written by `save`; `parameters` replace those that were saved, or could not be saved.

        Only code of equitangents and of `parameters` runs, whoever wrote the folder. Raises StoreError for a folder
        that is damaged or holds something else.
        """
        loaded: Self = saved_folder.load_members(cls, local("path", path), parameters, cls._variables)
        return loaded

    def _prepared(self, x: np.ndarray, targets: np.ndarray, first: int, members: int) -> Job:
        """Checked, untrained members `first` to `first + members − 1` for x (N, …), targets (N, outputs) or fields.

        Checks everything before anything large is allocated. Raises InvalidArgumentError, InvalidTypeError,
        NotAnActionError, NetworkError, MemoryLimitError.
        """
        self._check_settings()
        augmentation = as_action("augmentation", self.augmentation, x.shape)
        check_actions(augmentation, self.label_action, x, targets)
        self._check_net(x)
        if augmentation is not None:
            order = len(augmenting_elements(augmentation))
            if isinstance(augmentation, ActionSubset) and np.ptp(augmentation.weights):
                remedy = (
                    "finite networks count every copy alike: repeat elements in place of weights, or draw them at "
                    "random, as actions.sampled(action, count) does of SO(3)"
                )
                raise InvalidArgumentError("augmentation", augmentation, remedy=remedy)
            needed = 2 * order * (np.asarray(x).nbytes + targets.nbytes)
            task = f"the {order} transformed copies of {len(x)} samples"
            check_room(task, needed, self.memory_limit, "take fewer samples or a subgroup")
        data = augment(augmentation, self.label_action, self.augmentation_mode, x, targets, self.dtype)
        if self._loss == "cross_entropy":
            _check_probabilities(data.y.reshape(-1, targets.shape[-1]))
        return self._job(data, first, members)

    def _run(self, job: Job, sets: dict[str, np.ndarray], epochs: tuple[int, ...], resume: bool) -> Trained:
        """Train members to the end; with `resume` from a checkpoint, if there is one."""
        numbers = sum(len(x) for x in sets.values()) * job.members * self._numbers
        needed = 2 * len(epochs) * numbers * np.dtype(job.dtype).itemsize
        check_room("the recorded outputs", needed, self.memory_limit, "record fewer inputs, or at fewer epochs")
        if resume and self.checkpoint_dir is None:
            raise InvalidArgumentError("checkpoint_dir", None, "a directory with resume=True")
        folder = None if self.checkpoint_dir is None else Path(self.checkpoint_dir)
        how: dict[str, Any] = {"resume": resume, "every": self.checkpoint_every, "progress": self.progress}
        run = train(job, self.epochs, sets, epochs, folder, **how)
        return run._replace(recorded={name: self._in_fields(a) for name, a in run.recorded.items()})

    def _record_sets(
        self, record: Mapping[str, Numbers] | None, record_at: Sequence[int] | None
    ) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
        """(recorded inputs by name, standardised as in training; the epochs to record)."""
        sets, epochs = _check_record(record, record_at, self.epochs)
        return {name: self._inputs(x) for name, x in sets.items()}, epochs

    def _keep(self, run: Trained) -> None:
        self.params_, self.params0_, self.history_, self.recorded_, epochs, self._chunk = run
        self.recorded_epochs_ = np.array(epochs, dtype=int)

    @property
    def _loss(self) -> str:
        return self._default_loss if self.loss is None else self.loss

    @property
    def _trained(self) -> int:
        return self.history_.shape[1]

    @property
    def _numbers(self) -> int:
        return self.n_outputs_ * math.prod(self.positions_)

    def _inputs(self, x: Numbers) -> np.ndarray:
        inputs = self._as_trained(check_inputs(self, x, self.input_shape, reset=False))
        return np.asarray(inputs, self.dtype)

    def _query(self, x: Numbers) -> np.ndarray:
        self._check_fitted()
        return self._inputs(x)

    def _in_fields(self, values: np.ndarray) -> np.ndarray:
        """Rows (…, outputs) of all values of an output, reshaped to (…, *positions, outputs)."""
        return values.reshape(*values.shape[:-1], *self.positions_, -1) if self.positions_ else values

    def _moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation over members, (N, outputs) each."""
        ddof = 1 if self._trained > 1 else 0
        pairs = []
        for part in self._member_outputs(x):
            part = part.astype(np.float64)
            pairs.append((part.mean(axis=0), part.std(axis=0, ddof=ddof)))
        mean, std = (np.concatenate(parts).astype(self.dtype) for parts in zip(*pairs, strict=True))
        return mean, std

    def _warn_if_diverged(self, x: np.ndarray) -> None:
        finite = np.isfinite(self.history_)
        bad = np.flatnonzero(~finite.all(axis=0) | self._diverged_at_last(x))
        if len(bad):
            first = finite[:, bad[0]]
            epoch = len(first) if first.all() else int(np.argmin(first)) + 1
            warnings.warn(
                f"training diverged for {len(bad)} of {self._trained} members (member {bad[0]} in epoch {epoch}); "
                "lower learning_rate, or that of an optimizer of your own",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _diverged_at_last(self, x: np.ndarray) -> np.ndarray:
        """Mask (members,) of members that became NaN or infinite in the last step; losses come before each step.

        Determined from outputs at some of x, since modules may hold masks of −inf, and computed only if possible.
        """
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.params_)]
        if not len(self.history_) or all(np.isfinite(a).all() for a in leaves if a.dtype.kind == "f"):
            return np.zeros(self._trained, bool)
        outputs = self._member_outputs(np.asarray(x[:_LOOKED_AT], self.dtype))
        return ~np.all([np.isfinite(part).all(axis=(1, 2)) for part in outputs], axis=0)

    def _check_settings(self) -> None:
        """Raise InvalidArgumentError or InvalidTypeError for invalid parameters, before looking at data."""
        check_whole("members", self.members, 1)
        check_whole("epochs", self.epochs, 0)
        check_whole("seed", self.seed, 0, 2**32 - 1)
        check_whole("checkpoint_every", self.checkpoint_every, 1)
        for name in ("batch_size", "members_per_chunk", "memory_limit"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        check_choice("loss", self.loss, (None, *LOSSES))
        check_choice("dtype", self.dtype, ("float32", "float64"))
        check_choice("augmentation_mode", self.augmentation_mode, ("full", "random"))
        check_number("learning_rate", self.learning_rate, "a finite number above 0", lambda v: v > 0)
        check_number("momentum", self.momentum, "a number from 0 to below 1", lambda v: 0 <= v < 1)
        callback_of(self.progress)

    def _check_net(self, x: np.ndarray) -> None:
        """Raise if the network cannot take these inputs, as far as that is known before augmentation."""

    @abstractmethod
    def _job(self, data: Augmented, first: int, members: int) -> Job:
        """Untrained members `first` to `first + members − 1` for checked data."""

    @abstractmethod
    def _member_outputs(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the outputs of all members, (members, rows, outputs), for successive blocks of rows."""

    @abstractmethod
    def _member(self, i: int) -> AnyModel:
        """One member as an object of its library."""

    def _ends_on(self, x: np.ndarray, y: Targets) -> OutputPositions | None:
        """The output positions of networks if targets are fields, else None."""
        return None if np.ndim(y) < 3 else OutputPositions(np.shape(y)[1:-1])

    @abstractmethod
    def _variables(self) -> Tree:
        """A tree with the structure of one member's variables."""


class Regression(FiniteEnsemble):
    """Mean and standard deviation over members."""

    _squeeze: bool

    @overload
    def predict(self, x: Numbers) -> np.ndarray: ...

    @overload
    def predict(self, x: Numbers, *, return_std: Literal[True], return_cov: Literal[False] = False) -> MeanStd: ...

    @overload
    def predict(self, x: Numbers, *, return_std: Literal[False] = False, return_cov: Literal[True]) -> MeanStd: ...

    @overload
    def predict(self, x: Numbers, return_std: bool = False, return_cov: bool = False) -> np.ndarray | MeanStd: ...

    @named_also(X="x")
    def predict(self, x: Numbers, return_std: bool = False, return_cov: bool = False) -> np.ndarray | MeanStd:
        """Mean over members, (N, outputs), or (N,) for 1-d y; for fields (N, *positions, outputs), in the form of y.

        With `return_std` also the standard deviation, of the mean's shape; with `return_cov` the covariance between
        inputs, (N, N) for 1-d y and (N, N, outputs) else; for fields (N, *positions, N, *positions), and an axis of
        outputs if y has one. Both are those of one member, divided by M − 1, and 0 for M = 1.
        """
        if return_std and return_cov:
            raise InvalidArgumentError("return_cov", return_cov, "False with return_std=True")
        inputs = self._query(x)
        if return_cov:
            mean, uncertainty = self._covariance(inputs)
        else:
            mean, uncertainty = (self._in_fields(part) for part in self._moments(inputs))
        if self._squeeze:
            mean, uncertainty = mean[..., 0], uncertainty[..., 0]
        return (mean, uncertainty) if return_std or return_cov else mean

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
    """Probabilities of classes, one output per class."""

    classes_: np.ndarray

    @named_also(X="x")
    def predict(self, x: Numbers) -> np.ndarray:
        """The class with the largest probability, (N,), or at every position, (N, *positions)."""
        probabilities = self.predict_proba(x)
        return self.classes_[np.argmax(probabilities, axis=-1)]

    @named_also(X="x")
    def predict_proba(self, x: Numbers) -> np.ndarray:
        """Probability of every class, (N, K), columns in the order of `classes_`; for fields (N, *positions, K).

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
        """(inputs, targets (N, K), for fields (N, *positions, K)); with `reset`, classes are the labels in y."""
        inputs = check_inputs(self, x, self.input_shape, reset=reset)
        labels, _ = labels_of(inputs, y, self._ends_on)
        if reset:
            self.classes_ = classes_of(labels)
        return inputs, self._targets(indices_of(labels, self.classes_))

    def _orbit_question(self, x: Numbers, y: Targets | None) -> tuple[Self, np.ndarray, np.ndarray | None]:
        """(this ensemble, x, indices of the labels or None), checked."""
        inputs = check_inputs(self, x, self.input_shape, reset=False)
        return self, inputs, label_rows(self, inputs, y)


def _check_record(record: object, record_at: object, epochs: int) -> tuple[dict[str, Any], tuple[int, ...]]:
    """(`record` as a dictionary, `record_at` sorted, by default every epoch from 0 on)."""
    if record is None:
        if record_at is not None:
            raise InvalidArgumentError("record_at", record_at, "None without record, the inputs whose outputs are kept")
        return {}, ()
    if not isinstance(record, Mapping) or not all(isinstance(name, str) for name in record):
        raise InvalidTypeError("record", type(record), "a dictionary of names and inputs X", verb="is of type")
    if record_at is None:
        return dict(record), tuple(range(epochs + 1))
    if not isinstance(record_at, Iterable):
        raise InvalidTypeError("record_at", record_at, "a list of epochs")
    for epoch in record_at:
        check_whole("an epoch of record_at", epoch, 0, epochs)
    return dict(record), tuple(sorted({int(epoch) for epoch in record_at}))


def _check_probabilities(y: np.ndarray) -> None:
    """Raise unless the rows of y are probabilities."""
    wrong = np.flatnonzero((y < 0).any(axis=1) | (abs(y.sum(axis=1) - 1) > 1e-5))
    if len(wrong):
        expected = "rows ≥ 0 that sum to 1, also after augmentation, for loss 'cross_entropy'"
        raise InvalidArgumentError("y", y[wrong[0]].tolist(), expected, at=int(wrong[0]))
