"""Checks of the parameters of an ensemble of PyTorch modules, before anything is computed."""

from __future__ import annotations

from typing import Any

from equitangents.ensembles.training.losses import LOSSES
from equitangents.ensembles.training.optimizers import OPTIMIZERS
from equitangents.ensembles.training.settings import AUGMENTATION_MODES, DTYPES, check_choice, check_number
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.validation import check_whole

LAYOUTS = ("channels_first", "channels_last")
METHODS = ("auto", "torch.func", "in turn")


def check_settings(estimator: Any) -> None:
    """Raise InvalidArgumentError or InvalidTypeError, naming the parameter, what it was and what it may be."""
    p = estimator
    if any(c.__module__ == "torch.nn.modules.module" for c in type(p.factory).__mro__):
        name = type(p.factory).__name__
        raise InvalidTypeError(
            f"factory is a module {name} whose weights are drawn already, and members need weights of their own; give "
            f"the function that makes it: lambda: {name}(...)"
        )
    if not callable(p.factory):
        raise InvalidTypeError(f"factory is {p.factory!r}; expected a function without arguments that makes a module")
    check_whole("members", p.members, 1)
    check_whole("epochs", p.epochs, 0)
    check_whole("seed", p.seed, 0, 2**32 - 1)
    for name in ("batch_size", "members_per_chunk", "memory_limit"):
        if getattr(p, name) is not None:
            check_whole(name, getattr(p, name), 1)
    check_choice("loss", p.loss, (None, *LOSSES))
    check_choice("dtype", p.dtype, DTYPES)
    check_choice("layout", p.layout, LAYOUTS)
    check_choice("method", p.method, METHODS)
    check_choice("augmentation_mode", p.augmentation_mode, AUGMENTATION_MODES)
    if not callable(p.optimizer) and p.optimizer not in OPTIMIZERS:
        names = ", ".join(map(repr, OPTIMIZERS))
        raise InvalidArgumentError(
            f"optimizer is {p.optimizer!r}; expected one of {names}, or a function parameters -> torch.optim.Optimizer"
        )
    check_number("learning_rate", p.learning_rate, "a finite number above 0", lambda v: v > 0)
    check_number("momentum", p.momentum, "a number from 0 to below 1", lambda v: 0 <= v < 1)
