"""Regression by an ensemble of PyTorch modules, f̄(x) = (1/M) Σ_i f(x; θ_i), member i a function of (seed, i) alone."""

from __future__ import annotations

from typing import Any

from equitangents._types import Numbers, Targets
from equitangents.ensembles.deep.predictions import Regression
from equitangents.ensembles.scores import FieldRegressorMixin
from equitangents.torch.base import TorchEnsemble


class Ensemble(FieldRegressorMixin, Regression, TorchEnsemble):
    """PyTorch modules trained from independent initialisations, with the predictions of `equitangents.DeepEnsemble`.

    Members are trained together by `torch.func` where the module permits, else one after another: batch norm with
    running statistics, dropout, buffers that change, control flow that depends on values. `trained_by_` and `reason_`
    say which and why, as the log does.

    Args:
        factory: a function without arguments that makes a module: a class, or `lambda: Model(32)`. Member i is what it
            makes after torch.manual_seed(member_seeds(seed, i).init).
        members: how many are trained.
        augmentation: the `Action` ρ_X of data augmentation, the name of a group ("C4"), some of an action's elements,
            or None.
        label_action: the `Action` ρ_Y of the same group on targets; None: labels are invariant.
        augmentation_mode: "full", every epoch visits all N|G| pairs; "random", each sample once, moved by an element
            drawn anew for every member, epoch and sample.
        optimizer: "gd", full-batch gradient descent; "sgd", "momentum", "adam"; or a function parameters ->
            torch.optim.Optimizer, to which learning_rate and momentum are of no concern.
        learning_rate: of the loss L = (1/2N) Σ_i |f(x_i) − y_i|² ("mse"), N the samples of a batch; not divided by the
            number of outputs.
        epochs: passes over the data.
        batch_size: samples a step; None: all for "gd", else 32. The last batch of an epoch may be smaller.
        momentum: of "momentum".
        loss: "mse", or "cross_entropy" for targets that are probabilities and outputs that are logits; None: "mse".
        seed: whole number; the order of member i's data comes from a generator seeded by member_seeds(seed, i).order,
            dropout from torch.manual_seed(member_seeds(seed, i).noise).
        input_shape: (*positions, channels) if X may come flattened.
        layout: X is channels-last, (N, H, W, C), as everywhere in this library. "channels_first": modules get images,
            inputs with two axes of positions or more, as (N, C, H, W), and give fields on as many axes as
            (N, outputs, H, W); "channels_last": as they are.
        method: "auto"; "torch.func", an error if the module does not permit; "in turn", one after another.
        device: of PyTorch, "cpu" or "cuda".
        dtype: "float32" or "float64".
        members_per_chunk: members trained together; None: 16.
        memory_limit: bytes that transformed copies and predictions may take; None: half of the memory there is.
        progress: show a progress bar.

    Attributes:
        params_: parameters and buffers by name, stacked over members; `member(i)` is a module with those of member i.
        history_: (epochs, members), each member's mean loss over an epoch's samples, before the step that uses them.
        trained_by_: "torch.func" or "one after another".
        reason_: why members were trained one after another, or None.
        n_features_in_, sample_shape_, n_outputs_, positions_: what X and y were.

    Another number of members in a call of torch.func may round differently; nothing else of a member depends on the
    others. `equitangents.metrics`, `audit` and `plan_ensemble` take this ensemble as they take a `DeepEnsemble`.
    """

    _default_loss = "mse"

    def fit(self, X: Numbers, y: Targets) -> Ensemble:
        """Train all members on X (N, features) or (N, *positions, channels) and y (N,) or (N, outputs).

        Of modules that end on positions y is (N, *positions, outputs), whatever the layout; the loss is half of the
        squares' sum over positions and outputs, a mean over samples.

        Raises:
            InvalidArgumentError: for bad input; InvalidTypeError likewise.
            NetworkError: if the module does not take X, or its outputs are not those of y.
            MissingLibraryError: without PyTorch.
        """
        x, targets = self._data(X, y, reset=True)
        self._fit(x, targets)
        return self

    def extend(self, members: int, X: Numbers, y: Targets) -> Ensemble:
        """Train members up to `members` in all on the same data; those that are trained stay as they are."""
        self._check_fitted()
        x, targets = self._data(X, y, reset=False)
        self._extend(members, x, targets)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
