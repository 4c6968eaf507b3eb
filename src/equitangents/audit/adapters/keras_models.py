"""Keras 3 models in inference mode, on any backend; and `.keras` files, of Keras' own layers alone unless trusted.

Keras builds what a file's configuration names, and a name can be that of any function; its safe mode has let such names
pass before. Here every name is looked at first: classes of Keras' public modules that run no code of the file's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, final

import jax
import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.footprints import Footprint, of_program
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, Traced
from equitangents.audit.contract.trees import on_host, to_numpy
from equitangents.errors import InvalidArgumentError
from equitangents.extras import require
from equitangents.file_limits import UNREADABLE, check_archive, read_json


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

    def footprint(self, x: Tree) -> Footprint | None:
        """What the model holds for one input, with the JAX backend."""
        import keras

        known = keras.backend.backend() == "jax" and self.model.built
        return of_program(self._apply, self._values(), _given(x)) if known else None

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


_MODULES = frozenset(
    ("keras", *(f"keras.{name}" for name in (
        "activations", "constraints", "dtype_policies", "initializers", "layers", "models", "random", "regularizers",
    )))
)  # fmt: skip
_RUNS_CODE = frozenset(("Lambda", "__lambda__", "TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer", "function"))
_ENTRIES = ("config.json", "metadata.json", "model.weights.h5")
_UNUSED = "compile_config"  # optimizer and losses, which are not built


def load_keras(path: str, trust: bool = False) -> Any:
    """The model in a `.keras` file, not compiled.

    Raises InvalidArgumentError for what is no such file, for one that names anything but Keras' own layers unless
    `trust`, and for weights that lie in other files; OptionalDependencyError without Keras.
    """
    if "KERAS_BACKEND" not in os.environ and importlib.util.find_spec("tensorflow") is None:
        os.environ["KERAS_BACKEND"] = "jax"  # read when Keras is imported; a backend that is not there is an error
    keras = require("keras", "keras", "a Keras model")
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive)
            names = archive.namelist()
            if any(entry not in names for entry in _ENTRIES):
                raise ValueError("it lacks " + ", ".join(e for e in _ENTRIES if e not in names))
            config = read_json(archive.read("config.json"))
            with archive.open("model.weights.h5") as weights:
                outside = _outside(weights)
    except UNREADABLE as error:
        raise InvalidArgumentError(f"model is {path!r}, which is no .keras file: {error}") from None
    if outside:
        raise InvalidArgumentError(f"model is {path!r}, whose weights {outside} lie in another file; save it anew")
    if not trust and (foreign := next(_foreign(config), None)) is not None:
        raise InvalidArgumentError(
            f"model is {path!r}, which names {foreign}, not a layer of Keras that runs no code of its own; with "
            "--trust it is loaded, and may run whatever its author put in"
        )
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=not trust)
    except Exception as error:  # whatever a configuration that nobody saved makes Keras raise
        reason = " ".join(str(error).split())[:300]
        raise InvalidArgumentError(f"model is {path!r}, which Keras cannot load: {reason}") from None


def _foreign(config: Any) -> Iterator[str]:
    """Classes and functions in a configuration that are not Keras' own, or that run code of the file's."""
    if isinstance(config, dict):
        if "class_name" in config or "module" in config:
            module, name = config.get("module"), config.get("class_name")
            registered = config.get("registered_name")
            if module not in _MODULES or not isinstance(name, str) or name in _RUNS_CODE or registered is not None:
                yield f"{module}.{name}"
        for key, value in config.items():
            if key != _UNUSED:
                yield from _foreign(value)
    elif isinstance(config, list):
        for value in config:
            yield from _foreign(value)


def _outside(weights: Tree) -> str:
    """The name of a link or array of an HDF5 file that points into another file; empty where there is none."""
    import h5py

    found: list[str] = []
    seen: set[int] = set()  # groups may hold one another

    def look(group: Any, at: str) -> None:
        address = h5py.h5o.get_info(group.id).addr
        if address in seen:
            return
        seen.add(address)
        for name in group:
            link, place = group.get(name, getlink=True), f"{at}/{name}"
            if isinstance(link, h5py.ExternalLink):
                found.append(place)
            elif isinstance(link, h5py.HardLink):
                item = group[name]
                if isinstance(item, h5py.Group):
                    look(item, place)
                elif item.external or item.is_virtual:
                    found.append(place)

    with h5py.File(weights, "r") as file:
        look(file, "")
    return found[0] if found else ""
