"""Models and data from files and import paths. Nothing is unpickled unless it is trusted: a pickle runs any code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.array_files import WHY, read_arrays
from equitangents.errors import InvalidArgumentError

_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".joblib")


def load_calculator(spec: str) -> Any:
    """The object that package.module:object names, imported from the working folder or the environment."""
    module, colon, name = spec.partition(":")
    if not (colon and module and name):
        raise InvalidArgumentError(f"calculator is {spec!r}; expected package.module:object")
    return _imported(spec, module, name, "calculator")


def load_function(spec: str) -> Any:
    """The function that package.module:function names, imported as models are."""
    module, _, name = spec.partition(":")
    return _imported(spec, module, name, "transform")


def load_model(spec: str, trust: bool = False) -> Any:
    """The model in file.onnx, file.pt2 or an archive of TorchScript, or the object package.module:object.

    Other pickles (.pt, .pth, .pkl, .joblib) are refused unless `trust`.
    """
    suffix = Path(spec).suffix.lower()
    if suffix in (".onnx", ".pt2", *_PICKLES):
        if not Path(spec).is_file():
            raise InvalidArgumentError(f"model is {spec!r}, which is not a file")
        if suffix == ".onnx":
            from equitangents.audit.adapters.onnx_files import load_onnx

            return load_onnx(spec)
        if suffix == ".pt2":
            from equitangents.audit.adapters.torch_graphs import load_exported

            return load_exported(spec, trust)
        if suffix in (".pt", ".pth"):
            from equitangents.audit.adapters.torch_scripts import is_script, load_script

            if is_script(spec):
                return load_script(spec)
        if not trust:
            raise InvalidArgumentError(f"model is {spec!r}, which is not loaded: {WHY}")
        return _unpickle(spec, suffix)
    module, colon, name = spec.partition(":")
    if not (colon and module and name):
        raise InvalidArgumentError(
            f"model is {spec!r}; expected file.onnx, file.pt2, file.pt (TorchScript) or package.module:object"
        )
    return _imported(spec, module, name)


def load_data(path: str, trust: bool = False) -> tuple[Any, Any]:
    """(x, y) from .npy or .npz; y is None unless the archive has an array "y".

    Of an archive "x" is the input; without it, all arrays but "y" are inputs by their names. Arrays of objects are
    pickles, and refused unless `trust`.
    """
    arrays = read_arrays("data", path, trust)
    if isinstance(arrays, np.ndarray):
        return arrays, None
    y = arrays.pop("y", None)
    if not arrays:
        raise InvalidArgumentError(f"data is {path!r}, which holds no inputs; expected an array 'x'")
    return arrays.get("x", arrays), y


def _unpickle(path: str, suffix: str) -> Any:
    load: Callable[[str], Any]
    if suffix in (".pt", ".pth"):
        from equitangents.audit.adapters.optional import require

        load = partial(require("torch", "torch").load, map_location="cpu", weights_only=False)
    else:
        import joblib

        load = joblib.load
    try:
        return load(path)
    except ImportError as error:
        raise InvalidArgumentError(f"model is {path!r}, which needs a module that is missing: {error}") from None
    except Exception as error:  # whatever bytes that are not a pickle make the unpickler raise
        reason = f"{type(error).__name__}: {error}"
        raise InvalidArgumentError(f"model is {path!r}, which cannot be unpickled: {reason}") from None


def _imported(spec: str, module: str, name: str, what: str = "model") -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(f"{what} is {spec!r}; no module named {error.name!r}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidArgumentError(f"{what} is {spec!r}; {module} has no {name!r}")
        found = getattr(found, part)
    return found
