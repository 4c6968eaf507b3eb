"""Models from files and import paths.

Nothing is unpickled unless it is trusted: a pickle runs any code.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from equitangents.errors import InvalidArgumentError
from equitangents.model_files import check_model, check_name


def load_calculator(spec: str) -> Any:
    """The object that package.module:object names, imported from the working folder or the environment."""
    return _imported(spec, "calculator")


def load_function(spec: str) -> Any:
    """The function that package.module:function names, imported as models are."""
    return _imported(spec, "transform")


def load_model(spec: str, trust: bool = False) -> Any:
    """The model in file.onnx or file.keras, a program of torch.export or TorchScript, or package.module:object.

    Other pickles (.pt, .pth, .pkl, .joblib) are refused unless `trust`; weights alone are no model.
    """
    kind = check_model(spec, trust)
    if kind == "name":
        return _imported(spec, "model")
    if kind == "onnx":
        from equitangents.audit.adapters.onnx_files import load_onnx

        return load_onnx(spec)
    if kind == "keras":
        from equitangents.audit.adapters.keras_models import load_keras

        return load_keras(spec, trust)
    if kind == "exported":
        from equitangents.audit.adapters.torch_graphs import load_exported

        return load_exported(spec, trust)
    if kind == "script":
        from equitangents.audit.adapters.torch_graphs import load_script

        return load_script(spec)
    return _unpickle(spec, Path(spec).suffix.lower())


def _unpickle(path: str, suffix: str) -> Any:
    load: Callable[[str], Any]
    if suffix in (".pt", ".pth", ".pt2"):
        from equitangents.audit.adapters.model import require

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


def _imported(spec: str, what: str) -> Any:
    module, name = check_name(spec, what)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(f"{what} is {spec!r}; no module named {error.name!r}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidArgumentError(f"{what} is {spec!r}; {module} has no {name!r}")
        found = getattr(found, part)
    return found
