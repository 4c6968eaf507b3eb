"""Keras 3 models, on any of its backends, in inference mode."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, final

import jax
import numpy as np

from equitangents.audit.adapters.footprints import Footprint, of_program
from equitangents.audit.adapters.model import Keep, LayerTrace, Model
from equitangents.audit.contract.trees import to_numpy


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

    def run(self, x: Any) -> Any:
        """What the model returns for the batch."""
        import keras

        given = _given(x)
        if keras.backend.backend() != "jax" or not self.model.built:
            return jax.tree.map(_on_host, self.model(given, training=False))
        if self._jitted is None:
            self._jitted = jax.jit(self._apply)
        return self._jitted(self._values(), given)

    def footprint(self, x: Any) -> Footprint | None:
        """What the model holds for one input, with the JAX backend."""
        import keras

        known = keras.backend.backend() == "jax" and self.model.built
        return of_program(self._apply, self._values(), _given(x)) if known else None

    def _apply(self, values: Any, x: Any) -> Any:
        return self.model.stateless_call(*values, x, training=False)[0]

    def _values(self) -> tuple[list[Any], list[Any]]:
        """Trainable variables and others."""
        own = lambda variables: [v.value for v in variables]
        return own(self.model.trainable_variables), own(self.model.non_trainable_variables)

    def trace(self, x: Any, keep: Keep = np.array) -> list[LayerTrace] | None:
        """What every layer without layers returns, in order of execution."""
        traces: list[LayerTrace] = []
        counts: dict[str, int] = {}
        with contextlib.ExitStack() as stack:
            for layer in self.model._flatten_layers(include_self=False, recursive=True):
                inner = [*layer._flatten_layers(include_self=False, recursive=False)]
                if not inner and type(layer).__name__ != "InputLayer":
                    stack.enter_context(_watched(layer, traces, counts, keep))
            self.model(_given(x), training=False)
        return traces or None


@contextlib.contextmanager
def _watched(layer: Any, traces: list[LayerTrace], counts: dict[str, int], keep: Keep) -> Iterator[None]:
    """Within it what the layer reads and returns is noted."""
    original = layer.call

    def call(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        features, read = (next(iter(jax.tree.leaves(v)), None) for v in (made, (args, kwargs)))
        if features is not None and not isinstance(features, jax.core.Tracer):
            name = layer.path or layer.name
            counts[name] = counts.get(name, 0) + 1
            again = f" (call {counts[name]})" if counts[name] > 1 else ""
            a = to_numpy(features)
            before = keep(to_numpy(read)) if hasattr(read, "shape") else None
            if a.ndim >= 2 and a.dtype.kind == "f":
                traces.append(LayerTrace(name + again, type(layer).__name__, before, keep(a)))
        return made

    object.__setattr__(layer, "call", call)
    try:
        yield
    finally:
        object.__delattr__(layer, "call")


def _given(x: Any) -> Any:
    return list(x) if isinstance(x, tuple) else x


def _on_host(leaf: Any) -> Any:
    return leaf.detach().cpu() if hasattr(leaf, "detach") else leaf
