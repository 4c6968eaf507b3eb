"""The parameters of deep ensembles, for regression and for classification, and their records and shorthands."""

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
from equitangents.ensembles.training.backend import JaxBackend
from equitangents.ensembles.training.loop import TrainingState
from equitangents.ensembles.training.variations import Variation
from equitangents.errors import InvalidArgumentError
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
                raise InvalidArgumentError(f"{'__'.join(ENTRIES[name])} and {name} are both given, and differ")
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        entries = {name: state.pop(name) for name in ENTRIES if name in state}  # of versions without the records
        super().__setstate__({"training": None, "checkpoints": None, "executor": None} | state)
        for name, value in entries.items():
            setattr(self, name, value)

    def _own_facts(self) -> list[tuple[str, object]]:
        return [("architecture", self.net)]
