"""Every operation of an ONNX file as a layer: a second session returns what the first one keeps to itself.

Features H (inputs × numbers) are folded within the graph, to H Hᵀ in double precision and a sample of their entries, so
that each is freed as soon as the next operations have read it. Values of unknown rank are returned as they are.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from equitangents.audit.adapters.folding import SAMPLE
from equitangents.audit.adapters.model import LayerTrace
from equitangents.audit.adapters.onnx_graphs import EACH, folded_within, parts_of
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
    """The file's graph with every intermediate value as an output, folded or not.

    Weights beside the file are read from there.
    """

    def __init__(self, path: str, fold: bool):
        onnx, runtime = require("onnx", "onnx"), require("onnxruntime", "onnx")
        try:
            self._open(onnx, runtime, path, fold)
        except Exception as error:  # neither library's errors share a public class
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise NetworkError(f"{path} runs, but not with all its intermediate values as outputs: {said}") from None

    def _open(self, onnx: Any, runtime: Any, path: str, fold: bool) -> None:
        model = onnx.load(path, load_external_data=False)
        moving = {i.name for i in model.graph.input} - {i.name for i in model.graph.initializer}
        self._operations: list[_Operation] = []
        for node in model.graph.node:
            sources = [name for name in node.input if name in moving]
            made = [name for name in node.output if name]
            if sources and made:
                moving.update(made)
                self._operations.append(_Operation(_name(node), node.op_type, sources[0], made[0]))
        made_here = dict.fromkeys(op.makes for op in self._operations)
        self._folded = folded_within(model, list(made_here)) if fold else []
        known = {output.name for output in model.graph.output} | set(self._folded)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(set(made_here) - known))
        if model.ByteSize() > _LARGEST:
            raise NetworkError("it is larger than 2 GiB without its external data")
        options = runtime.SessionOptions()
        options.log_severity_level = SILENT
        # in the order of the file, and each value freed as soon as it was read
        options.execution_order = runtime.ExecutionOrder.PRIORITY_BASED
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        folder = os.path.dirname(os.path.abspath(path))
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        self._quiet = quiet(runtime)
        content = model.SerializeToString()
        del model
        self._session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def trace(self, feed: dict[str, np.ndarray], keep: Any) -> list[LayerTrace]:
        """Operations on the inputs whose first result is real and has a row an input, in the file's order.

        `keep` is a `Folder` where values are folded within the graph.
        """
        names = [output.name for output in self._session.get_outputs()]
        rows = len(next(iter(feed.values())))
        each = {EACH: np.array([max(1, SAMPLE // rows)])} if self._folded else {}
        made = dict(zip(names, self._session.run(names, {**feed, **each}, self._quiet), strict=True))
        values: dict[str, Any] = {name: _features(value, rows) for name, value in {**feed, **made}.items()}
        values = {name: keep(value) for name, value in values.items() if value is not None}
        for name in self._folded:
            shape, gram, sample = (made[part] for part in parts_of(name))
            if len(gram) == rows:
                values[name] = keep.folded(tuple(map(int, shape)), gram, sample)
        return [
            LayerTrace(op.name, op.kind, values.get(op.reads), values[op.makes])
            for op in self._operations
            if op.makes in values
        ]


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
