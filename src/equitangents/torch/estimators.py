"""Ensembles of PyTorch modules, f̄(x) = (1/M) Σ_i f(x; θ_i), where member i depends only on (seed, i)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equitangents._types import FileName, Tree
from equitangents.actions.action import GroupAction
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles.estimator import FieldClassifierMixin, FieldRegressorMixin
from equitangents.ensembles.finite import OPTIMIZERS, Classification, FiniteEnsemble, Regression
from equitangents.ensembles.training.run import Augmented
from equitangents.errors import InvalidArgumentError, InvalidTypeError, require
from equitangents.progress import ProgressCallback
from equitangents.torch.job import ModuleJob, field_outputs, job_of
from equitangents.torch.modules import LAYOUTS, Factory, fill, make, outputs_of, tensors
from equitangents.validation import check_choice

if TYPE_CHECKING:
    import torch

METHODS = ("auto", "torch.func", "in turn")


@dataclass(eq=False, repr=False)
class TorchEnsemble(FiniteEnsemble):
    """PyTorch modules trained from independent initialisations; `Ensemble` says what the parameters are."""

    factory: Factory
    members: int = 10
    augmentation: ActionLike | None = None
    label_action: GroupAction | None = None
    augmentation_mode: str = "full"
    optimizer: str | Callable[..., torch.optim.Optimizer] = "sgd"
    learning_rate: float = 0.1
    epochs: int = 100
    batch_size: int | None = None
    momentum: float = 0.9
    loss: str | None = None
    seed: int = 0
    input_shape: tuple[int, ...] | None = None
    layout: str = "channels_first"
    method: str = "auto"
    device: str = "cpu"
    dtype: str = "float32"
    members_per_chunk: int | None = None
    memory_limit: int | None = None
    progress: bool | ProgressCallback = False
    checkpoint_dir: FileName | None = None
    checkpoint_every: int = 10
    standardise: bool = False

    @property
    def net(self) -> Factory:
        """The factory, in place of a network."""
        return self.factory

    def _check_settings(self) -> None:
        if any(c.__module__ == "torch.nn.modules.module" for c in type(self.factory).__mro__):
            expected, remedy = "a function that makes the module with new weights", "such as lambda: Net()"
            raise InvalidTypeError("factory", type(self.factory), expected, remedy, verb="is a module")
        if not callable(self.factory):
            raise InvalidTypeError("factory", self.factory, "a function without arguments that makes a module")
        super()._check_settings()
        check_choice("layout", self.layout, LAYOUTS)
        check_choice("method", self.method, METHODS)
        if not callable(self.optimizer) and self.optimizer not in OPTIMIZERS:
            choices = [*OPTIMIZERS, "a function parameters -> torch.optim.Optimizer"]
            raise InvalidArgumentError("optimizer", self.optimizer, choices)
        require("torch", "torch", "equitangents.torch")

    def _job(self, data: Augmented, first: int, members: int) -> ModuleJob:
        return job_of(self, data, first, members)

    def _member_outputs(self, x: np.ndarray) -> Iterator[np.ndarray]:
        fields = field_outputs(self.layout, (*self.positions_, self.n_outputs_))
        return outputs_of(self._made(), self.params_, x, self.layout, fields)

    def _member(self, i: int) -> torch.nn.Module:
        return fill(self._made(), {name: a[i] for name, a in self.params_.items()})

    def _variables(self) -> Tree:
        return dict.fromkeys(tensors(self._made()), 0)

    def _made(self) -> torch.nn.Module:
        """The first member before training."""
        device = require("torch", "torch", "equitangents.torch").device(self.device)
        return make(self.factory, int(self.seed), 0, self.dtype, device)


class Ensemble(FieldRegressorMixin, Regression, TorchEnsemble):
    """PyTorch modules trained from independent initialisations, with the predictions of `equitangents.DeepEnsemble`.

    Members are trained together by `torch.func` where the module permits, else one after another: batch norm with
    running statistics, dropout, buffers that change, control flow that depends on values. `trained_by_` and `reason_`
    say which and why, as the log does.

    Args:
        factory: a function without arguments that makes a module: a class, or `lambda: Model(32)`. Member i is made
            after torch.manual_seed(member_seeds(seed, i).init).
        optimizer: "gd", full-batch gradient descent; "sgd", "momentum", "adam"; or a function parameters ->
            torch.optim.Optimizer, which ignores learning_rate and momentum.
        seed: whole number; the order of member i's data comes from a generator seeded by member_seeds(seed, i).order,
            dropout from torch.manual_seed(member_seeds(seed, i).noise).
        layout: x is channels-last, (N, H, W, C), as everywhere in this library. "channels_first": modules get images,
            inputs with two axes of positions or more, as (N, C, H, W), and give fields on as many axes as
            (N, outputs, H, W); "channels_last": unchanged.
        method: "torch.func", together (an error if the module does not permit); "in turn", one after another; "auto".
        device: of PyTorch, "cpu" or "cuda".
        members_per_chunk: members trained together; None: 16.
        memory_limit: bytes that transformed copies and predictions may take; None: half of the memory there is.
        checkpoint_dir: the folder where training is saved on the way, to go on with `fit(resume=True)`; None: nowhere.
            After an interrupt, training resumes from the last checkpoint.

    All others are those of `DeepEnsemble`, losses and their units too.

    Attributes:
        params_: parameters and buffers by name, stacked over members; `member(i)` is a module with those of member i.
        history_: (epochs, members), each member's mean loss over an epoch's samples, before the step that uses them.
        recorded_, recorded_epochs_: what `fit(record=…)` kept.
        trained_by_: "torch.func" or "one after another".
        reason_: why members were trained one after another, or None.
        n_features_in_, sample_shape_, n_outputs_, positions_: what x and y were.

    Another number of members in a call of torch.func may round differently; nothing else of a member depends on the
    others. `equitangents.metrics`, `audit` and `plan_ensemble` take this ensemble as they take a `DeepEnsemble`.
    """

    _default_loss = "mse"


class EnsembleClassifier(FieldClassifierMixin, Classification, TorchEnsemble):
    """`equitangents.torch.Ensemble` on labels; parameters as there, but `loss` None is "cross_entropy".

    A module returns one logit a class. `label_action` acts on the targets (N, K), columns in the order of `classes_`:
    with "cross_entropy" it must permute classes.

    Attributes:
        classes_: the K distinct labels, sorted, of any type.
        params_, history_, trained_by_, reason_, …: as there.
    """

    _default_loss = "cross_entropy"
