"""Keras 3 models from `.keras` files, of Keras' own layers alone unless the file is trusted.

Keras builds what the file's configuration names, and a name can be that of any function; its safe mode has let such
names pass before. Here every name is looked at first: classes of Keras' public modules that run no code of the file's.
"""

from __future__ import annotations

import importlib.util
import os
import zipfile
from collections.abc import Iterator
from typing import Any

from equitangents.audit.adapters.optional import require
from equitangents.claims import UNREADABLE, check_archive, read_json
from equitangents.errors import InvalidArgumentError

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
    keras = require("keras", "keras")
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


def _outside(weights: Any) -> str:
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
