"""The parameters of ensembles of PyTorch modules, for regression and for classification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equitangents.actions.group_action import GroupAction
from equitangents.actions.named import ActionLike
from equitangents.ensembles.deep.finite import FiniteEnsemble
from equitangents.ensembles.deep.records import Checkpoints
from equitangents.ensembles.training.loop import TrainingState
from equitangents.ensembles.training.variations import PLAIN, Variation
from equitangents.torch.backend import TorchBackend
from equitangents.torch.modules import Factory


class TorchEnsemble(FiniteEnsemble):
    """PyTorch modules trained from independent initialisations; `Ensemble` says what the parameters are."""

    _backend = TorchBackend()
    executor = None

    def __init__(
        self,
        factory: Factory,
        members: int = 10,
        augmentation: ActionLike | None = None,
        label_action: GroupAction | None = None,
        augmentation_mode: str = "full",
        optimizer: Any = "sgd",
        learning_rate: float = 0.1,
        epochs: int = 100,
        batch_size: int | None = None,
        momentum: float = 0.9,
        loss: str | None = None,
        seed: int = 0,
        input_shape: tuple[int, ...] | None = None,
        layout: str = "channels_first",
        method: str = "auto",
        device: str = "cpu",
        dtype: str = "float32",
        members_per_chunk: int | None = None,
        memory_limit: int | None = None,
        progress: bool = False,
        variation: Variation | None = None,
        zero_output: bool = False,
        checkpoints: Checkpoints | None = None,
        callback: Callable[[int, TrainingState], None] | None = None,
        standardise: bool = False,
    ) -> None:
        self.factory = factory
        self.members = members
        self.augmentation = augmentation
        self.label_action = label_action
        self.augmentation_mode = augmentation_mode
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.momentum = momentum
        self.loss = loss
        self.seed = seed
        self.input_shape = input_shape
        self.layout = layout
        self.method = method
        self.device = device
        self.dtype = dtype
        self.members_per_chunk = members_per_chunk
        self.memory_limit = memory_limit
        self.progress = progress
        self.variation = variation
        self.zero_output = zero_output
        self.checkpoints = checkpoints
        self.callback = callback
        self.standardise = standardise

    @property
    def net(self) -> Factory:
        """The factory, which stands where other ensembles have their network."""
        return self.factory

    @staticmethod
    def of_older_versions(state: dict[str, Any]) -> dict[str, Any]:
        """State of versions without records and variations, which say what members depend on by another name."""
        if "_depends_on" in state:
            depends = state.pop("_depends_on")
            state["_fingerprint"] = {name: value for name, value in depends.items() if name != "epochs"}
        return {"params0_": None, "recorded_": {}, "recorded_epochs_": np.zeros(0, int), "_variation": PLAIN} | state

    def _own_facts(self) -> list[tuple[str, object]]:
        return [("trained", self.trained_by_ if self.reason_ is None else f"{self.trained_by_}: {self.reason_}")]
