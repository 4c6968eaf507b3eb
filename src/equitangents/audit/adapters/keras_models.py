"""Keras 3 models in inference mode, on any backend, and `.keras` files."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any, final

import jax
import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, Traced, first_line
from equitangents.audit.contract.trees import on_host, to_numpy
from equitangents.errors import InvalidArgumentError
from equitangents.extras import require


@final
class KerasModel(Model):
    """`model(x, training=False)`; a tuple of inputs goes in as the list of a model with several inputs."""

    kind = "keras"
    streams = True

    def __init__(self, model: Any):
        self.model, self.name = model, model.name
        shape = getattr(model, "input_shape", None)
        shape = shape[0] if isinstance(shape, list) else shape
        self.fixed_batch = shape[0] if isinstance(shape, tuple) and shape and isinstance(shape[0], int) else None
        self._jitted: Callable[..., Any] | None = None

    def run(self, x: Tree) -> Tree:
        """What the model returns for the batch."""
        import keras

        given = _given(x)
        if keras.backend.backend() != "jax" or not self.model.built:
            return jax.tree.map(on_host, self.model(given, training=False))
        if self._jitted is None:
            self._jitted = jax.jit(self._apply)
        return self._jitted(self._values(), given)

    def _apply(self, values: Tree, x: Tree) -> Tree:
        return self.model.stateless_call(*values, x, training=False)[0]

    def _values(self) -> tuple[list[Any], list[Any]]:
        """Trainable variables and others."""
        own = lambda variables: [v.value for v in variables]
        return own(self.model.trainable_variables), own(self.model.non_trainable_variables)

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """What every layer without layers returns, in order of execution."""
        traced = Traced()
        with contextlib.ExitStack() as stack:
            for layer in self.model._flatten_layers(include_self=False, recursive=True):
                inner = [*layer._flatten_layers(include_self=False, recursive=False)]
                if not inner and type(layer).__name__ != "InputLayer":
                    stack.enter_context(_watched(layer, traced, keep))
            self.model(_given(x), training=False)
        return traced.layers or None


@contextlib.contextmanager
def _watched(layer: Any, traced: Traced, keep: Keep) -> Iterator[None]:
    """Within it what the layer reads and returns is noted."""
    original = layer.call

    def call(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        features, read = (next(iter(jax.tree.leaves(v)), None) for v in (made, (args, kwargs)))
        if features is not None and not isinstance(features, jax.core.Tracer):
            a = to_numpy(features)
            before = keep(to_numpy(read)) if hasattr(read, "shape") else None
            after = keep(a) if a.ndim >= 2 and a.dtype.kind == "f" else None
            traced.add(layer.path or layer.name, type(layer).__name__, before, after)
        return made

    object.__setattr__(layer, "call", call)
    try:
        yield
    finally:
        object.__delattr__(layer, "call")


def _given(x: Tree) -> Tree:
    return list(x) if isinstance(x, tuple) else x


def load_keras(path: str, trust: bool = False) -> Any:
    """The model in a `.keras` file, not compiled; the file was trusted, since it names functions that are run.

    Raises InvalidArgumentError for what Keras cannot load, OptionalDependencyError without Keras.
    """
    if "KERAS_BACKEND" not in os.environ and importlib.util.find_spec("tensorflow") is None:
        os.environ["KERAS_BACKEND"] = "jax"  # read when Keras is imported; a backend that is not there is an error
    keras = require("keras", "keras", "a Keras model")
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=not trust)
    except Exception as error:  # whatever a file that nobody saved makes Keras raise
        raise InvalidArgumentError("model", path, "a file that Keras loads", first_line(error)[:300]) from None
