"""ONNX files, by onnxruntime: their outputs, and every operation as a layer.

For layers a second session returns what the first one keeps to itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, arguments, first_line
from equitangents.errors import InvalidArgumentError, NetworkError, ShapeError, require

SILENT = 4
"""Severity of what onnxruntime writes to stderr by itself: nothing but what ends the process. Errors are raised."""
_LARGEST = 2**31 - 1  # bytes of one protocol buffer
_TO_FIRST = "the file reads channels first: numpy.moveaxis(x, -1, 1), with layout='channels_first'"
_TO_LAST = "the file reads channels last: numpy.moveaxis(x, 1, -1), with layout='channels_last'"


class _Operation(NamedTuple):
    """One node: what it is called, what it does, and the first of its inputs that depends on the file's inputs."""

    name: str
    kind: str
    reads: str
    makes: str


def _with_layers(path: str) -> tuple[list[_Operation], Any]:
    """The operations of a file in its order, and a session that returns every intermediate value.

    External weights are read from the folder of the file.
    """
    onnx, runtime = require("onnx", "onnx", "an ONNX model"), require("onnxruntime", "onnx", "an ONNX model")
    try:
        model = onnx.load(path, load_external_data=False)
        moving = {i.name for i in model.graph.input} - {i.name for i in model.graph.initializer}
        operations: list[_Operation] = []
        for node in model.graph.node:
            sources = [name for name in node.input if name in moving]
            made = [name for name in node.output if name]
            if sources and made:
                moving.update(made)
                operations.append(_Operation(_name(node), node.op_type, sources[0], made[0]))
        made_here, known = {op.makes for op in operations}, {output.name for output in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(made_here - known))
        if model.ByteSize() > _LARGEST:
            raise NetworkError("it is larger than 2 GiB without its external data")
        options = runtime.SessionOptions()
        options.log_severity_level = SILENT
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        folder = os.path.dirname(os.path.abspath(path))
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        content = model.SerializeToString()
        del model
        return operations, runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # neither library's errors share a public class
        expected = "a file that runs with its intermediate values as outputs"
        raise NetworkError("model", str(path), expected, first_line(error)) from None


def _quiet() -> Any:
    """Options of one run, under which also a session that was made elsewhere writes nothing to stderr."""
    options = require("onnxruntime", "onnx", "an ONNX model").RunOptions()
    options.log_severity_level = SILENT
    return options


def _name(node: Any) -> str:
    """The node's name, after the path of the module that it came from where PyTorch's exporter noted that."""
    name = node.name or node.output[0]
    scopes = next((e.value for e in node.metadata_props if e.key == "pkg.torch.onnx.name_scopes"), "[]")
    path = [scope.strip(" '") for scope in scopes.strip("[]").split(",")][-2:-1]
    return f"{path[0]}: {name}" if path and path[0] else name


def _is_features(value: Any, rows: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim >= 2 and len(value) == rows


_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8,
}


@final
class OnnxModel(Model):
    """An inference session; inputs in the file's order, or by name from a dictionary; outputs by name if several."""

    kind = "onnx"
    states_layout = True

    def __init__(self, session: Any, name: str = "ONNX session", path: str | None = None):
        self.session, self.name, self.path = session, name, path
        self._with_layers: tuple[list[_Operation], Any] | None = None
        self._inputs = session.get_inputs()
        self._outputs = [o.name for o in session.get_outputs()]
        self.input_names = [i.name for i in self._inputs]
        first = (self._inputs[0].shape or [None])[0]
        self.fixed_batch = first if isinstance(first, int) else None
        self.device = "cpu" if session.get_providers() == ["CPUExecutionProvider"] else session.get_providers()[0]

    def check_inputs(self, x: Tree, axes: Sequence[int] = ()) -> None:
        """Raise unless names, ranks and sizes are those that the file states; the batch may have any size."""
        # batches by the inputs' names, which are sorted in dictionaries
        along = dict(zip(sorted(x) if isinstance(x, dict) else self.input_names, axes, strict=False))
        for declared, a in zip(self._inputs, self._arrays(x).values(), strict=True):
            expected, given, axis = declared.shape, np.shape(a), along.get(declared.name, 0)
            if expected is None or _fits(expected, given, axis):
                continue
            sizes = [str(n) if isinstance(n, int) else "any" for n in expected]
            shape = ", ".join([*sizes[:axis], "N", *sizes[axis + 1 :]])
            first = len(given) == 4 and _fits(expected, (given[0], given[3], *given[1:3]))
            last = len(given) == 4 and _fits(expected, (given[0], *given[2:], given[1]))
            remedy = _TO_FIRST if first else _TO_LAST if last else ""
            raise ShapeError("x", given, f"({shape}) for {declared.name!r} of {self.name}", remedy)

    def run(self, x: Tree) -> Tree:
        """What the session returns: an array, or several by name."""
        values = self.session.run(None, self._feed(x), _quiet())
        return values[0] if len(values) == 1 else dict(zip(self._outputs, values, strict=True))

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """Every operation of the file; None for a session, which has its graph no more."""
        if self.path is None:
            return None
        self._with_layers = self._with_layers or _with_layers(self.path)
        operations, session = self._with_layers
        feed, names = self._feed(x), [output.name for output in session.get_outputs()]
        made = dict(zip(names, session.run(names, feed, _quiet()), strict=True))
        rows = len(next(iter(feed.values())))
        values = {name: keep(value) for name, value in {**feed, **made}.items() if _is_features(value, rows)}
        return [
            LayerTrace(o.name, o.kind, values.get(o.reads), values[o.makes]) for o in operations if o.makes in values
        ]

    def _feed(self, x: Tree) -> dict[str, np.ndarray]:
        arrays = self._arrays(x)
        return {i.name: np.ascontiguousarray(arrays[i.name], _TYPES.get(i.type, np.float32)) for i in self._inputs}

    def _arrays(self, x: Tree) -> dict[str, Any]:
        """The inputs by name, in the file's order."""
        names = self.input_names
        arrays = x if isinstance(x, dict) else dict(zip(names, arguments(x), strict=False))
        missing = [name for name in names if name not in arrays]
        if missing or len(arrays) != len(names):
            raise InvalidArgumentError("x", sorted(arrays), list(names), "the inputs of the file", verb="has")
        return {name: arrays[name] for name in names}


def _fits(declared: list[Any], given: tuple[int, ...], axis: int = 0) -> bool:
    """Whether an array of shape `given` is what the file states, but for the axis of its batch."""
    same = [not isinstance(w, int) or w == g for w, g in zip(declared, given, strict=False)]
    return len(declared) == len(given) and all(fits or k == axis for k, fits in enumerate(same))


def load_onnx(path: str, trust: bool = False) -> OnnxModel:
    """The model in an ONNX file, on the CPU; it runs no code of its own, trusted or not."""
    runtime = require("onnxruntime", "onnx", "an ONNX model")
    options = runtime.SessionOptions()
    options.log_severity_level = SILENT
    try:
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no public class
        raise NetworkError("model", str(path), "a file that onnxruntime can load", first_line(error)) from None
    return OnnxModel(session, path, path)
