"""Optimisers by name, as optax transformations.

gd        full-batch gradient descent θ ← θ − η ∇L: k steps are k units of gradient-flow time at learning rate η
sgd       the same on mini-batches
momentum  v ← m v + ∇L, θ ← θ − η v
adam      with optax's defaults
"""

from __future__ import annotations

import optax

from equitangents.errors import InvalidArgumentError, InvalidTypeError

OPTIMIZERS = ("gd", "sgd", "momentum", "adam")
DEFAULT_BATCH_SIZE = 32


def transformation(
    optimizer: str | optax.GradientTransformation, learning_rate: float, momentum: float
) -> optax.GradientTransformation:
    """The optax transformation for a name of OPTIMIZERS; one that is given already is returned as it is."""
    if isinstance(optimizer, optax.GradientTransformation):
        return optimizer
    if optimizer == "adam":
        return optax.adam(learning_rate)
    return optax.sgd(learning_rate, momentum=momentum if optimizer == "momentum" else None)


def check_optimizer(optimizer: object) -> None:
    """Raise unless `optimizer` is a name of OPTIMIZERS or an optax transformation."""
    if isinstance(optimizer, optax.GradientTransformation):
        return
    names = ", ".join(map(repr, OPTIMIZERS))
    if not isinstance(optimizer, str):
        raise InvalidTypeError(
            f"optimizer is {optimizer!r}; expected one of {names}, or an optax.GradientTransformation"
        )
    if optimizer not in OPTIMIZERS:
        raise InvalidArgumentError(
            f"optimizer is {optimizer!r}; expected one of {names}, or an optax.GradientTransformation"
        )


def resolve_batch_size(optimizer: object, batch_size: int | None, samples: int) -> int:
    """Samples a step: all of them for "gd"; else `batch_size`, or 32 if None, at most all."""
    if optimizer == "gd":
        if batch_size is not None:
            raise InvalidArgumentError(
                f"batch_size is {batch_size} with optimizer 'gd', which is full-batch gradient descent; "
                f"leave it None, or take optimizer 'sgd'"
            )
        return samples
    return min(DEFAULT_BATCH_SIZE if batch_size is None else int(batch_size), samples)
