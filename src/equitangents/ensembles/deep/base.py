"""What deep ensembles for regression and for classification share: training, extending, predicting, saving."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Self, Unpack

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from equitangents._protocols import ExecutorLike
from equitangents._types import FileName, Network
from equitangents.actions import as_action
from equitangents.actions.group_action import GroupAction
from equitangents.actions.named import ActionLike
from equitangents.ensembles.deep.predictions import Members
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
from equitangents.ensembles.fields.targets import Positions, output_positions
from equitangents.ensembles.inputs import EstimatorNotFittedError, check_inputs
from equitangents.ensembles.networks import ForeignNetwork, as_network
from equitangents.ensembles.parameters import Estimator
from equitangents.ensembles.storage import persistence
from equitangents.ensembles.training.evaluation import evaluate, outputs, rows_at_once
from equitangents.ensembles.training.fingerprint import check_same
from equitangents.ensembles.training.jobs import execute, prepare
from equitangents.ensembles.training.loop import TrainingState
from equitangents.ensembles.training.plan import Workers
from equitangents.ensembles.training.variations import Variation
from equitangents.errors import InvalidArgumentError
from equitangents.nn import Sequential
from equitangents.scale.place import local
from equitangents.validation import check_whole, is_whole

_ROWS = 1024  # evaluated by all members before the next


class DeepEnsembleBase(Members, Estimator):
    """Finite networks trained together; DeepEnsemble says what the parameters are."""

    _default_loss: ClassVar[str]

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Show scikit-learn the parameters that are stored, without the shorthands, of which it would make one more."""
        super().__init_subclass__(**keywords)
        signature = inspect.signature(cls.__init__)
        stored = [p for p in list(signature.parameters.values())[1:] if p.kind is not p.VAR_KEYWORD]
        cls.__signature__ = signature.replace(parameters=stored, return_annotation=inspect.Signature.empty)

    shorthands: ClassVar[tuple[str, ...]] = tuple(ENTRIES)
    optimizer, learning_rate, epochs = Entry("optimizer"), Entry("learning_rate"), Entry("epochs")
    batch_size, momentum, loss = Entry("batch_size"), Entry("momentum"), Entry("loss")
    checkpoint_dir, checkpoint_every = Entry("checkpoint_dir"), Entry("checkpoint_every")

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
        progress: bool = False,
        executor: ExecutorLike | None = None,
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
                raise InvalidArgumentError(f"{'__'.join(ENTRIES[name])} and {name} are both given, and differ")
        plain = {name: value for name, value in params.items() if name in ENTRIES}
        check_given_once(whole, plain, harmless=lambda a, b: a is b)
        super().set_params(**whole)
        for name, value in entries.items():
            setattr(self, name, value)
        return self

    def entries(self, record: str) -> dict[str, Any]:
        """The entries of one of the records, by their own names; of other parameters none."""
        return {name: getattr(self, name) for name in self.entry_names(record)}

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

    def __setstate__(self, state: dict[str, Any]) -> None:
        entries = {name: state.pop(name) for name in ENTRIES if name in state}  # of versions without the records
        super().__setstate__({"training": None, "checkpoints": None, "executor": None} | state)
        for name, value in entries.items():
            setattr(self, name, value)

    def member(self, i: int) -> Any:
        """Member i as its library has it: a Flax nnx or Equinox module ready to predict, (module, state) or (module,
        variables) where these are apart, and (net, params) for networks with init and apply.
        """
        self._check_fitted()
        check_whole("i", i, 0, self._trained - 1)
        net, params = as_network(self.net), jax.tree.map(lambda a: a[i], self.params_)
        return net.member(params) if isinstance(net, ForeignNetwork) else (net, params)

    def save(self, path: FileName) -> None:
        """Write parameters and fitted state to a directory `path`, all of it or nothing.

        An ensemble that was saved there is replaced. The folder holds JSON and arrays with checksums, no pickles. The
        callback, networks of other libraries, and functions such as optimizers of optax are left out: give them to
        `load`.
        """
        self._check_fitted()
        persistence.save(self, local("path", path))

    @classmethod
    def load(cls, path: FileName, *, trust: bool = False, **parameters: Any) -> Self:
        """What `save` wrote, with `parameters` in place of those that were saved, or could not be.

        It runs no code but that of equitangents, whoever wrote the folder. Folders of older versions hold a
        pickle, which runs whatever code its author put in: they are refused unless `trust`. Raises StoreError for a
        folder that is damaged or holds something else.
        """
        return persistence.load(cls, local("path", path), parameters, trust, cls._variables)

    def _variables(self) -> Any:
        """Shapes of a member's variables, in the form that the network has them."""
        net: Any = as_network(self.net)
        return jax.eval_shape(lambda: net.init(jax.random.key(0), self.sample_shape_, self.dtype))

    def _forget(self) -> None:
        """Drop what an earlier fit left, so that a fit that fails leaves nothing to predict with."""
        for name in ("params_", "params0_", "history_", "recorded_", "recorded_epochs_"):
            self.__dict__.pop(name, None)

    def _fit(self, x: Any, targets: np.ndarray, record: Mapping[str, Any] | None, record_at: Any, resume: bool) -> None:
        prepared = prepare(self, self._loss, x, targets, 0, self.members)
        run = execute(prepared, self, self._inputs, record, record_at, resume)
        self.n_outputs_ = targets.shape[-1]
        self.positions_ = targets.shape[1:-1]
        self.augmentation_ = as_action("augmentation", self.augmentation, np.shape(x))
        self.recorded_ = {name: self._in_fields(a) for name, a in run.recorded.items()}
        self.recorded_epochs_ = np.array(run.recorded_epochs, dtype=int)
        self.history_ = run.history
        self._variation = prepared.job.recipe.variation
        self.params0_ = run.start
        self.params_ = run.params
        self._chunk = run.chunk
        self._fingerprint = prepared.fingerprint
        self._warn_if_diverged()

    def _extend(
        self, members: int, x: Any, targets: np.ndarray, record: Mapping[str, Any] | None, resume: bool
    ) -> None:
        check_whole("members", members, self._trained)
        if members == self._trained:
            return
        prepared = prepare(self, self._loss, x, targets, self._trained, members - self._trained)
        check_same(self._fingerprint, prepared.fingerprint, "this fitted ensemble")
        if len(self.history_) != self.epochs:
            raise InvalidArgumentError(f"epochs is {self.epochs}; the members so far had {len(self.history_)}")
        if set(record or {}) != set(self.recorded_):
            raise InvalidArgumentError(
                f"record has {sorted(record or {})}, the members so far recorded {sorted(self.recorded_)}; "
                f"new members need the same inputs"
            )
        epochs = self.recorded_epochs_.tolist() if record else None
        run = execute(prepared, self, self._inputs, record, epochs, resume)
        append = lambda old, new: np.concatenate([old, new])
        recorded = {name: self._in_fields(a) for name, a in run.recorded.items()}
        self.recorded_ = {name: np.concatenate([a, recorded[name]], axis=1) for name, a in self.recorded_.items()}
        self.history_ = np.concatenate([self.history_, run.history], axis=1)
        self.params0_ = jax.tree.map(append, self.params0_, run.start)
        self.params_ = jax.tree.map(append, self.params_, run.params)
        self.members = members
        self._warn_if_diverged()

    @property
    def _loss(self) -> str:
        return self._default_loss if self.loss is None else self.loss

    @property
    def _trained(self) -> int:
        return self.history_.shape[1]

    def _inputs(self, X: Any) -> np.ndarray:
        return np.asarray(check_inputs(self, X, self.input_shape, reset=False), self.dtype)

    def _query(self, X: Any) -> np.ndarray:
        self._check_fitted()
        return self._inputs(X)

    def _ends_on(self, x: Any, y: Any) -> Positions | None:
        net = as_network(self.net)
        if isinstance(net, Sequential) or np.ndim(y) < 3:
            positions = output_positions(net, x, y)
            return None if positions is None or positions.turning else positions
        return Positions(np.shape(y)[1:-1])

    def _member_outputs(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Outputs of all members, (members, some rows, outputs), for one block of rows after another.

        In the chunks of training: so a member's outputs too do not depend on how many members there are.
        """
        begins = range(0, self._trained, self._chunk)
        some = lambda tree, begin: jax.tree.map(lambda a: _filled_up(a[begin : begin + self._chunk], self._chunk), tree)
        net = as_network(self.net)
        size = rows_at_once(net, some(self.params_, 0), x, self.dtype)
        step = -(-_ROWS // size) * size

        def part(begin: int, rows: np.ndarray) -> np.ndarray:
            params, start = some(self.params_, begin), some(self.params0_, begin)
            return evaluate(partial(outputs, net, self._variation, params, start), rows, self.dtype, size)

        with Workers() as workers:
            for first in range(0, len(x), step):
                rows = x[first : first + step]
                parts = workers.map(partial(part, rows=rows), begins, first_alone=first == 0)
                yield np.concatenate(parts)[: self._trained]

    def _warn_if_diverged(self) -> None:
        bad = np.flatnonzero(~np.isfinite(self.history_).all(axis=0))
        if len(bad):
            epoch = int(np.argmin(np.isfinite(self.history_[:, bad[0]]))) + 1
            warnings.warn(
                f"training diverged for {len(bad)} of {self._trained} members (member {bad[0]} in epoch {epoch}); "
                f"lower learning_rate, which is {self.learning_rate}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _facts(self) -> list[tuple[str, object]]:
        if not self.__sklearn_is_fitted__():
            return []
        augmentation = getattr(self, "augmentation_", None)
        last = self.history_[-1] if len(self.history_) else np.full(1, np.nan)
        return [
            ("networks", f"{self._trained}, trained for {len(self.history_)} epochs"),
            ("architecture", self.net),
            ("augmentation", "none" if augmentation is None else augmentation),
            (
                "training loss at the end",
                f"{np.mean(last):.3g}, from {np.min(last):.3g} to {np.max(last):.3g} by member",
            ),
        ]

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise EstimatorNotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "params_")


def _filled_up(a: np.ndarray, length: int) -> np.ndarray:
    """The rows of a, and copies of the last up to `length`."""
    return a if len(a) == length else np.concatenate([a, np.repeat(a[-1:], length - len(a), axis=0)])
