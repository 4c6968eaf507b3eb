"""Which adapter a model needs, found without importing any library that it does not come from."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from equitangents._types import AnyModel
from equitangents.audit.adapters.callables import CallableModel, KernelModel, NetworkModel
from equitangents.audit.adapters.estimators import EnsembleModel, EstimatorModel, MembersModel
from equitangents.audit.adapters.model import Model
from equitangents.audit.adapters.outputs import Select
from equitangents.errors import InvalidTypeError
from equitangents.nn import Sequential


def as_model(
    f: AnyModel, *, layers: Sequence[Any] | None = None, method: str | None = None, select: Select = None
) -> Model:
    """An adapter for whatever f is, whose output is the one called `select`; raises InvalidTypeError if it is none."""
    if isinstance(f, list) and f:
        return MembersModel([as_model(member, method=method, select=select) for member in f])
    model = _adapter(f, layers, method)
    if select is not None:
        model.select = select
    return model


def _adapter(f: Any, layers: Sequence[Any] | None, method: str | None) -> Model:
    """The adapter of the kind that f is."""
    if isinstance(f, Model):
        return f
    if isinstance(f, tuple) and len(f) == 2 and isinstance(f[0], Sequential):
        return NetworkModel(*f)
    if isinstance(f, Sequential):
        raise InvalidTypeError("f is a network without parameters; give (net, params)")
    module = _jax_module(f)
    if module is not None:
        return module
    if _is_a(f, "torch.fx.graph_module", "GraphModule"):
        from equitangents.audit.adapters.torch_graphs import TorchGraph

        return TorchGraph(f)
    if _is_a(f, "torch.jit._script", "ScriptModule"):
        from equitangents.audit.adapters.torch_graphs import ScriptModel

        return ScriptModel(f)
    if _is_a(f, "torch.nn.modules.module", "Module"):
        from equitangents.audit.adapters.torch_modules import TorchModel

        return TorchModel(f)
    if _is_a(f, "torch.export.exported_program", "ExportedProgram"):
        from equitangents.audit.adapters.torch_graphs import TorchGraph

        return TorchGraph(f.module(), "exported program")
    if _is_a(f, "onnxruntime.capi.onnxruntime_inference_collection", "InferenceSession"):
        from equitangents.audit.adapters.onnx_files import OnnxModel

        return OnnxModel(f, "ONNX session")
    if isinstance(f, str):
        from equitangents.audit.adapters.files import load_model

        return _adapter(load_model(f), layers, method)
    if hasattr(f, "predict"):
        ours = any(c.__module__.startswith(("equitangents.ensembles", "equitangents.torch")) for c in type(f).__mro__)
        return EnsembleModel(f, method) if ours else EstimatorModel(f, method)
    if callable(getattr(f, "kernel", None)) and not callable(f):
        return KernelModel(f)
    if callable(f):
        return CallableModel(f, layers)
    if isinstance(f, Mapping):
        raise InvalidTypeError(f"f is {_mapping_said(f)}")
    raise InvalidTypeError(
        f"f is {shortened(f)}; expected a function of a batch, a PyTorch, Keras, Flax or Equinox module, an ONNX or "
        ".pt2 file, an estimator with predict, (net, params), a kernel, equitangents.audit.Command(...), or a list of "
        "such models"
    )


def _jax_module(f: Any) -> Model | None:
    """The adapter of a Flax, Equinox or Keras model; with variables or a state it is a pair."""
    first = f[0] if isinstance(f, tuple) and len(f) == 2 else f
    state = f[1] if first is not f else None
    if _is_a(first, "flax.linen.module", "Module"):
        if state is None:
            if getattr(first, "scope", None) is not None:
                return None  # bound to its variables: a function of the batch
            raise InvalidTypeError("f is a Flax linen module without variables; give (module, variables)")
        from equitangents.audit.adapters.jax_modules import LinenModel

        return LinenModel(first, state)
    if _is_equinox(first):
        from equitangents.audit.adapters.jax_modules import EquinoxModel

        return EquinoxModel(first, state)
    if state is None and _is_a(f, "flax.nnx.module", "Module"):
        from equitangents.audit.adapters.jax_modules import NnxModel

        return NnxModel(f)
    if state is None and _is_a(f, "keras.src.models.model", "Model"):
        from equitangents.audit.adapters.keras_models import KerasModel

        return KerasModel(f)
    return None


def _mapping_said(f: Mapping[Any, Any]) -> str:
    """A dictionary in one line: weights without the network that they belong to, or something else."""
    names = [str(name) for name in f]
    few = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    inner = next((n for n in ("state_dict", "model_state_dict", "model") if isinstance(f.get(n), Mapping)), None)
    arrays = [v for v in f.values() if hasattr(v, "shape") and hasattr(v, "dtype")]
    if inner is None and len(arrays) < max(len(names), 1):
        return f"a dictionary of {len(names)} entries ({few}); expected a model"
    which = (
        f"a checkpoint whose entry {inner!r} holds weights" if inner else f"a state_dict of {len(names)} arrays ({few})"
    )
    return (
        f"{which} without the network they belong to; build it and load them, net.load_state_dict(...), then audit "
        "net, or save it whole: torch.export (.pt2), torch.jit (.pt) or ONNX"
    )


def shortened(f: Any, most: int = 200) -> str:
    """What f is, in one line."""
    said = " ".join(repr(f).split())
    return said if len(said) <= most else f"{said[: most - 1]}…"


def _is_equinox(f: Any) -> bool:
    library = sys.modules.get("equinox")
    return library is not None and isinstance(f, library.Module) and callable(f)


def _is_a(f: Any, module: str, name: str) -> bool:
    """Whether f is an instance of a class that is known by name alone."""
    return any(c.__module__ == module and c.__name__ == name for c in type(f).__mro__)
