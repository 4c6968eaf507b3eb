"""Ensembles of finite networks trained together by JAX: their parameters, with records and shorthands.

f̄(x) = (1/M) Σ_i f(x; θ_i), member i a function of (seed, i) alone; of a classifier with one output a class
cross_entropy  P(k) = (1/M) Σ_i softmax(f(x; θ_i))_k
mse            targets one-hot minus 1/K; P(k) = P(output k is the largest) of a Gaussian with the members' mean and std
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self, Unpack

from sklearn.base import BaseEstimator

from equitangents._protocols import ExecutorLike
from equitangents._types import Network
from equitangents.actions.group_action import GroupAction
from equitangents.actions.named import ActionLike
from equitangents.ensembles.deep.finite import FiniteEnsemble
from equitangents.ensembles.deep.predictions import Classification, Regression
from equitangents.ensembles.deep.records import (
    ENTRIES,
    Checkpoints,
    Entry,
    Shorthands,
    Training,
    check_given_once,
    check_nested,
    entries_of,
)
from equitangents.ensembles.estimator import FieldClassifierMixin, FieldRegressorMixin
from equitangents.ensembles.training.backend import JaxBackend
from equitangents.ensembles.training.run import TrainingState
from equitangents.ensembles.training.variations import Variation
from equitangents.errors import InvalidArgumentError
from equitangents.scale.progress import ProgressCallback
from equitangents.validation import is_whole


class DeepEnsembleBase(FiniteEnsemble):
    """Finite networks trained together by JAX; DeepEnsemble says what the parameters are."""

    _backend = JaxBackend()

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Show scikit-learn the parameters that are stored, without the shorthands, of which it would make one more."""
        super().__init_subclass__(**keywords)
        signature = inspect.signature(cls.__init__)
        stored = [p for p in list(signature.parameters.values())[1:] if p.kind is not p.VAR_KEYWORD]
        cls.__signature__ = signature.replace(parameters=stored, return_annotation=inspect.Signature.empty)

    shorthands: ClassVar[tuple[str, ...]] = tuple(ENTRIES)
    optimizer, learning_rate, epochs = Entry("optimizer"), Entry("learning_rate"), Entry("epochs")
    batch_size, momentum, loss = Entry("batch_size"), Entry("momentum"), Entry("loss")
    equivariance_penalty = Entry("equivariance_penalty")

    def __init__(
        self,
        net: Network,
        members: int = 10,
        augmentation: ActionLike | None = None,
        label_action: GroupAction | None = None,
        augmentation_mode: str = "full",
        *,
        training: Training | None = None,
        variation: Variation | None = None,
        zero_output: bool = False,
        seed: int = 0,
        input_shape: tuple[int, ...] | None = None,
        dtype: str = "float32",
        members_per_chunk: int | None = None,
        memory_limit: int | None = None,
        checkpoints: Checkpoints | None = None,
        callback: Callable[[int, TrainingState], None] | None = None,
        progress: bool | ProgressCallback = False,
        executor: ExecutorLike | None = None,
        standardise: bool = False,
        **entries: Unpack[Shorthands],
    ) -> None:
        self.net = net
        self.members = members
        self.augmentation = augmentation
        self.label_action = label_action
        self.augmentation_mode = augmentation_mode
        self.training = training
        self.variation = variation
        self.zero_output = zero_output
        self.seed = seed
        self.input_shape = input_shape
        self.dtype = dtype
        self.members_per_chunk = members_per_chunk
        self.memory_limit = memory_limit
        self.checkpoints = checkpoints
        self.callback = callback
        self.progress = progress
        self.executor = executor
        self.standardise = standardise
        check_given_once({"training": training, "checkpoints": checkpoints}, entries)
        for name, value in entries.items():
            setattr(self, name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also the entries of `training` and `checkpoints`.

        An entry goes by two names, "training__epochs" and "epochs".
        """
        return super().get_params(deep) | (entries_of(self) if deep else {})

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; returns self. Networks and actions are immutable: give new ones.

        "training__epochs" and "epochs" both set that entry alone; the others stay.
        """
        check_nested(params)
        nested = {f"{record}__{field}": name for name, (record, field) in ENTRIES.items()}
        whole = {name: value for name, value in params.items() if name not in ENTRIES and name not in nested}
        entries = {nested[name]: value for name, value in params.items() if name in nested}
        for name, value in params.items():
            if name in ENTRIES and entries.setdefault(name, value) is not value:
                raise InvalidArgumentError(name, value, "one value", "its entry in a record is given, too, and differs")
        plain = {name: value for name, value in params.items() if name in ENTRIES}
        check_given_once(whole, plain, harmless=lambda a, b: a is b)
        super().set_params(**whole)
        for name, value in entries.items():
            setattr(self, name, value)
        return self

    @classmethod
    def entry_names(cls, record: str) -> list[str]:
        """The own names of a record's entries."""
        return [name for name, (holder, _) in ENTRIES.items() if holder == record]

    def __sklearn_clone__(self) -> Self:
        """A copy with the same parameters, not fitted; it shares the executor, which cannot be copied."""
        plain = copy.copy(self)
        plain.executor = None
        twin: Self = BaseEstimator.__sklearn_clone__(plain)
        twin.executor = self.executor
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        return state if is_whole(self.executor) else state | {"executor": None}  # others belong to this process

    def _own_facts(self) -> list[tuple[str, object]]:
        return [("architecture", self.net)]


class DeepEnsemble(FieldRegressorMixin, Regression, DeepEnsembleBase):
    """Finite networks trained together, following scikit-learn's conventions.

    Args:
        net: a network with `init(key, input_shape, dtype)` and `apply(params, x)`, e.g. `equitangents.nn.Sequential`; a
            pair of such functions; a Flax linen module; or a function that makes a Flax nnx module (rngs -> module) or
            an Equinox module (key -> module). Batch statistics and dropout: the guide on architectures of your own.
        members: how many are trained. Member i is a function of (seed, i) alone: its initial parameters are
            `net.init(init_key, …)` and its data come in the order that order_key draws, with `init_key, order_key =
            jax.random.split(jax.random.fold_in(jax.random.key(seed), i))`.
        augmentation: the `Action` ρ_X of data augmentation, the name of a group ("C4": `actions.as_action`), some of an
            action's elements (`equitangents.actions.subset`), or None.
        label_action: the `Action` ρ_Y of the same group on targets (N, outputs); None: labels are invariant. Of fields
            it acts on (N, *positions, outputs); None: values are invariant, and go with their positions.
        augmentation_mode: "full", every epoch visits all N|G| pairs (ρ_X(g) x_i, ρ_Y(g) y_i); "random", each sample
            once, moved by an element drawn anew for every member, epoch and sample.
        training: `Training(optimizer, learning_rate, epochs, batch_size, momentum, loss, equivariance_penalty)`, how
            every member is trained; None: `Training()`.
        variation: what sets members apart besides initial parameters and order: None, nothing; `Bootstrap()`,
            bagging; `NTKPosterior(noise)` or `NNGPPosterior(noise)`, members that sample a posterior.
        zero_output: train and predict f(x; θ) − f(x; θ_0), which is zero at initialisation.
        seed: whole number.
        input_shape: (*positions, channels) if x may come flattened, (N, prod(input_shape)).
        dtype: "float32" or "float64", whatever JAX's flag says.
        members_per_chunk: members that share a call, always as many (surplus ones are dropped); None: as many as stay
            in a core's cache, or fit on the device.
        memory_limit: bytes that training may take; None: half of the memory there is, or all of the device's.
        checkpoints: `Checkpoints(folder, every)`, where training is saved on the way; None: nowhere.
        callback: `callback(epoch, state)` after every epoch, with `state` a `TrainingState`; a resumed run does not
            repeat the calls of epochs before its checkpoint.
        progress: True shows a progress bar; a function is called as progress(epochs done, all epochs, seconds left), or
            of parts of the members where they are trained in parts; False: long runs log to "equitangents".
        executor: who trains: None, this process; a number of processes of this machine; an executor of
            `concurrent.futures`. Chunks of members are handed out, those of a worker that dies are trained again, and
            the result is that of one machine, bit for bit. It is not saved with the ensemble.
        standardise: train on (x − m)/s, with the training set's mean m and deviation s of each channel, and predict so;
            as in `InfiniteEnsemble`.
        **entries: the entries of `training` and `checkpoints` by themselves, `DeepEnsemble(net, epochs=20)`: optimizer,
            learning_rate, epochs, batch_size, momentum, loss, equivariance_penalty, checkpoint_dir (`folder`),
            checkpoint_every (`every`). They are also attributes and parameters of `set_params`.

    Attributes:
        params_: parameters stacked over members; `jax.tree.map(lambda a: a[i], params_)` are those of member i.
        params0_: those at initialisation if zero_output, what a `variation` subtracts by, or None.
        history_: (epochs, members), each member's mean loss over an epoch's samples, before the step that uses them.
        recorded_, recorded_epochs_: what `fit(record=…)` kept.
        n_features_in_, sample_shape_, n_outputs_, positions_: what x and y were.
        standardisation_: `shift`, `scale` and `how` they were taken, where `standardise`; None else.

    On one machine a resumed run is bit for bit the uninterrupted one, and the members of a small ensemble are bit for
    bit the first of a large one (on a GPU: with the same members_per_chunk). Another members_per_chunk leaves initial
    parameters and the order of data as they are; what is computed from them may differ by rounding. Results are NumPy
    arrays of type `dtype`.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(64), et.nn.Relu(), et.nn.Dense(1))
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([1.0, 2.0, 3.0])
    >>> training = et.ensembles.Training(optimizer="gd", learning_rate=1.0, epochs=200)
    >>> model = et.DeepEnsemble(net, members=4, training=training).fit(x, y)
    >>> mean, std = model.predict(x, return_std=True)
    >>> mean.shape, std.shape, model.predict_members(x).shape
    ((3,), (3,), (4, 3, 1))
    """

    _default_loss = "mse"


class DeepEnsembleClassifier(FieldClassifierMixin, Classification, DeepEnsembleBase):
    """`DeepEnsemble` on labels; parameters as there; the loss is "cross_entropy" unless `training` says another.

    The network's last layer makes one output a class. `label_action` acts on the targets (N, K), columns in the order
    of `classes_`: with "cross_entropy" it must permute classes. Of networks that end on positions labels are
    (N, *positions), and losses sums over positions.

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
