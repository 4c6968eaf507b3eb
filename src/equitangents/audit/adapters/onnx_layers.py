"""Every operation of an ONNX file as a layer: a second session returns what the first one keeps to itself."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from equitangents.audit.adapters.model import Keep, LayerTrace
from equitangents.audit.adapters.optional import require
from equitangents.errors import NetworkError

SILENT = 4
"""Severity of what onnxruntime writes to stderr by itself: nothing but what ends the process. Errors are raised."""
_LARGEST = 2**31 - 1  # bytes of one protocol buffer


class _Operation(NamedTuple):
    """One node: what it is called, what it does, and the first of its inputs that depends on the file's inputs."""

    name: str
    kind: str
    reads: str
    makes: str


class OnnxLayers:
    """The file's graph with every intermediate value as an output; weights beside the file are read from there."""

    def __init__(self, path: str):
        onnx, runtime = require("onnx", "onnx"), require("onnxruntime", "onnx")
        try:
            self._open(onnx, runtime, path)
        except Exception as error:  # neither library's errors share a public class
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise NetworkError(f"{path} runs, but not with all its intermediate values as outputs: {said}") from None

    def _open(self, onnx: Any, runtime: Any, path: str) -> None:
        model = onnx.load(path, load_external_data=False)
        moving = {i.name for i in model.graph.input} - {i.name for i in model.graph.initializer}
        self._operations: list[_Operation] = []
        for node in model.graph.node:
            sources = [name for name in node.input if name in moving]
            made = [name for name in node.output if name]
            if sources and made:
                moving.update(made)
                self._operations.append(_Operation(_name(node), node.op_type, sources[0], made[0]))
        known = {output.name for output in model.graph.output}
        added = {op.makes for op in self._operations} - known
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(added))
        if model.ByteSize() > _LARGEST:
            raise NetworkError("it is larger than 2 GiB without its external data")
        options = runtime.SessionOptions()
        options.log_severity_level = SILENT
        folder = os.path.dirname(os.path.abspath(path))
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        self._quiet = quiet(runtime)
        self._session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def trace(self, feed: dict[str, np.ndarray], keep: Keep) -> list[LayerTrace]:
        """Operations on the inputs whose first result is real and has a row an input, in the file's order."""
        names = [output.name for output in self._session.get_outputs()]
        values: dict[str, Any] = dict(feed) | dict(zip(names, self._session.run(names, feed, self._quiet), strict=True))
        rows = len(next(iter(feed.values())))
        traces = []
        for op in self._operations:
            read, made = (_features(values.get(name), rows) for name in (op.reads, op.makes))
            if made is not None:
                traces.append(LayerTrace(op.name, op.kind, None if read is None else keep(read), keep(made)))
        return traces


def quiet(runtime: Any) -> Any:
    """Options of one run, under which also a session that was made elsewhere writes nothing to stderr."""
    options = runtime.RunOptions()
    options.log_severity_level = SILENT
    return options


def _name(node: Any) -> str:
    """The node's name, after the path of the module that it came from where PyTorch's exporter noted that."""
    name = node.name or node.output[0]
    scopes = next((e.value for e in node.metadata_props if e.key == "pkg.torch.onnx.name_scopes"), "[]")
    path = [scope.strip(" '") for scope in scopes.strip("[]").split(",")][-2:-1]
    return f"{path[0]}: {name}" if path and path[0] else name


def _features(value: Any, rows: int) -> np.ndarray | None:
    real = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value if real and value.ndim >= 2 and len(value) == rows else None
