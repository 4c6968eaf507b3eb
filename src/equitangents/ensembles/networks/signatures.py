"""How functions of other libraries are called: by the names of their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax

from equitangents._types import AnyModel

_IN_TRAINING = ("train", "training", "is_training")
_IN_PREDICTION = ("deterministic", "use_running_average", "inference")


def parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters, of a class those of its constructor; of one that cannot be read, none."""
    try:
        if isinstance(function, type):
            function = function.__init__  # type: ignore[misc]
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def mode(names: frozenset[str], *, training: bool) -> dict[str, bool]:
    """The keywords among `names` that tell a module whether it is trained."""
    told = {name: training for name in _IN_TRAINING if name in names}
    return told | {name: not training for name in _IN_PREDICTION if name in names}


def made(factory: Callable[..., Any], key: jax.Array) -> AnyModel:
    """What a factory makes: factory(rngs=nnx.Rngs(key)) if it has a parameter `rngs`, else factory(key)."""
    names = parameters(factory)
    if "rngs" in names:
        from flax import nnx

        return factory(rngs=nnx.Rngs(key))
    return factory(key=key) if "key" in names else factory(key)
