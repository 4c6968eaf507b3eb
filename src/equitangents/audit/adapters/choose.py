"""The adapter of a model, without importing unrelated libraries; models from files.

Pickles, which can run any code, are loaded only if trusted.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from equitangents._types import AnyModel
from equitangents.audit.adapters.callables import (
    CallableModel,
    EnsembleModel,
    EstimatorModel,
    MembersModel,
    NetworkModel,
)
from equitangents.audit.adapters.model import Model, Select, in_short
from equitangents.errors import InvalidArgumentError, InvalidTypeError, require
from equitangents.foreign_files import check_model, check_name
from equitangents.nn import Sequential


def as_model(f: AnyModel, *, layers: Sequence[Any] | None = None, select: Select = None) -> Model:
    """An adapter for the model f and its output `select`; raises InvalidTypeError if f is not a model."""
    if isinstance(f, list) and f:
        return MembersModel([as_model(member, select=select) for member in f])
    model = _adapter(f, layers)
    if select is not None:
        model.select = select
    return model


_FOREIGN = (
    ("flax.nnx.module", "Module", "jax_modules", "NnxModel"),
    ("torch.jit._script", "ScriptModule", "torch_modules", "of_script"),
    ("torch.nn.modules.module", "Module", "torch_modules", "TorchModel"),
    ("torch.export.exported_program", "ExportedProgram", "torch_modules", "of_program"),
    ("onnxruntime.capi.onnxruntime_inference_collection", "InferenceSession", "onnx_files", "OnnxModel"),
)
"""Classes of other libraries by module and name, with the file and name of their adapter."""
_READERS = {
    "onnx": ("onnx_files", "load_onnx"),
    "exported": ("torch_modules", "load_exported"),
    "script": ("torch_modules", "load_script"),
}
"""Kinds of files, as `check_model` returns them, with their readers."""


def _adapter(f: Any, layers: Sequence[Any] | None) -> Model:
    """The adapter of f."""
    if isinstance(f, Model):
        return f
    if isinstance(f, tuple) and len(f) == 2 and isinstance(f[0], Sequential):
        return NetworkModel(*f)
    if isinstance(f, Sequential):
        raise InvalidTypeError("f", type(f), "(net, params)", verb="is of type")
    foreign = _with_state(f) or next((_here(*at)(f) for module, name, *at in _FOREIGN if _is_a(f, module, name)), None)
    if foreign is not None:
        return foreign
    if isinstance(f, str):
        return _adapter(load_model(f), layers)
    if hasattr(f, "predict"):
        ours = any(c.__module__.startswith(("equitangents.ensembles", "equitangents.torch")) for c in type(f).__mro__)
        return EnsembleModel(f) if ours else EstimatorModel(f)
    if callable(f):
        return CallableModel(f, layers)
    if isinstance(f, Mapping):
        raise InvalidTypeError(
            "f",
            type(f),
            "a model, and not its weights",
            "load the weights into the network and audit it, or save it whole: torch.export, torch.jit or ONNX",
            verb="is of type",
        )
    raise InvalidTypeError(
        "f",
        type(f),
        "a function of a batch, a module of PyTorch, Flax or Equinox, an ONNX or .pt2 file, an estimator, "
        "(net, params), or a list of such models",
        verb="is of type",
    )


def _with_state(f: Any) -> Model | None:
    """The adapter of a Flax linen or Equinox module, or of a pair with its variables or state."""
    module, state = f if isinstance(f, tuple) and len(f) == 2 else (f, None)
    if _is_equinox(module):
        return _here("jax_modules", "EquinoxModel")(module, state)
    if not _is_a(module, "flax.linen.module", "Module"):
        return None
    if state is not None:
        return _here("jax_modules", "LinenModel")(module, state)
    if getattr(module, "scope", None) is not None:
        return None  # bound to its variables: a function of the batch
    raise InvalidTypeError("f", type(module), "(module, variables)", verb="is of type")


def _here(file: str, name: str) -> Callable[..., Any]:
    """An attribute of a module of this package, imported on demand with the libraries that it needs."""
    return getattr(importlib.import_module(f"equitangents.audit.adapters.{file}"), name)


def _is_equinox(f: Any) -> bool:
    library = sys.modules.get("equinox")
    return library is not None and isinstance(f, library.Module) and callable(f)


def _is_a(f: Any, module: str, name: str) -> bool:
    """Whether f is an instance of a class, given by its name."""
    return any(c.__module__ == module and c.__name__ == name for c in type(f).__mro__)


def load_model(spec: str, trust: bool = False) -> Any:
    """The model in file.onnx, a program of torch.export or TorchScript, or package.module:object.

    Other pickles (.pt, .pth, .pkl, .joblib) are refused unless `trust`; files of weights are not models.
    """
    kind = check_model(spec, trust)
    if kind == "name":
        return imported(spec, "model")
    if kind == "pickle":
        return _unpickle(spec, Path(spec).suffix.lower())
    return _here(*_READERS[kind])(spec, trust)


def _unpickle(path: str, suffix: str) -> Any:
    load: Callable[[str], Any]
    if suffix in (".pt", ".pth", ".pt2"):
        load = partial(require("torch", "torch", "a PyTorch model").load, map_location="cpu", weights_only=False)
    else:
        import joblib

        load = joblib.load
    try:
        return load(path)
    except ImportError as error:
        raise InvalidArgumentError("model", path, "modules that can be imported", str(error)) from None
    except Exception as error:  # whatever bytes that are not a pickle make the unpickler raise
        raise InvalidArgumentError("model", path, "a file that can be unpickled", repr(error)) from None


def imported(spec: str, what: str) -> Any:
    """The object package.module:object, from the working folder or the environment; errors call it `what`."""
    module, name = check_name(spec, what)
    try:
        thing: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(what, spec, remedy=f"no module named {error.name!r}") from None
    except Exception as error:  # whatever a module of the user's raises
        raise InvalidArgumentError(what, spec, "a module that can be imported", in_short(error)) from error
    for part in name.split("."):
        if not hasattr(thing, part):
            raise InvalidArgumentError(what, spec, remedy=f"{module} has no {name!r}")
        thing = getattr(thing, part)
    return thing
