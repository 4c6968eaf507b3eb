"""ONNX files, by onnxruntime: their outputs, what is alive at once while they run, and every operation as a layer.

For layers a second session returns what the first one keeps to itself. Features H (inputs × numbers) are folded within
the graph, to H Hᵀ in double precision and a sample of their entries, so that each is freed as soon as the next
operations have read it. Values of unknown rank are returned as they are.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple, final

import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.folding import SAMPLE, Folder
from equitangents.audit.adapters.footprints import Footprint, largest_alive
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, arguments
from equitangents.audit.contract.layouts import Sizes
from equitangents.errors import InvalidArgumentError, NetworkError, ShapeError
from equitangents.extras import require

EACH = "equitangents/each"
"""Input of a graph with folded values: how many entries of each input's features are kept, about."""
_SMALL = 1024  # bytes of constants that shapes may depend on
_SLICES_READ_INPUTS = 10  # the operator set since which Slice takes its ends as inputs


def parts_of(name: str) -> tuple[str, str, str]:
    """Outputs that stand for a folded value: its shape, its Gram matrix, and a sample of it."""
    return f"equitangents/{name}/shape", f"equitangents/{name}/gram", f"equitangents/{name}/sample"


def folded_within(model: Any, names: Sequence[str]) -> list[str]:
    """Add outputs for those of the values that are real with at least two axes; returns which they are."""
    onnx = require("onnx", "onnx", "an ONNX model")
    from onnx import TensorProto, helper, numpy_helper

    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if version < _SLICES_READ_INPUTS:
        return []
    real = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
    known = {
        name: value.type.tensor_type
        for name, value in _inferred(onnx, model, {}).items()
        if value.type.tensor_type.HasField("shape")
    }
    chosen = {n for n in names if n in known and known[n].elem_type in real and len(known[n].shape.dim) > 1}
    if not chosen:
        return []
    constants = {"flat": [0, -1], "one": [1], "zero": [0], "end": [np.iinfo(np.int64).max]}
    held = {name: f"equitangents/{name}" for name in constants}
    graph = model.graph
    graph.initializer.extend(
        numpy_helper.from_array(np.array(value, np.int64), held[name]) for name, value in constants.items()
    )
    graph.input.append(helper.make_tensor_value_info(EACH, TensorProto.INT64, [1]))
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    del graph.node[:]
    for node in nodes:  # each value is folded right after it is made: the session keeps to this order
        graph.node.append(node)
        for name in (n for n in node.output if n in chosen):
            made = lambda what, name=name: f"equitangents/{name}/{what}"
            shape, gram, sample = parts_of(name)
            steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
                ("Shape", [name], shape, {}),
                ("Reshape", [name, held["flat"]], made("flat"), {}),
                ("Shape", [made("flat")], made("sizes"), {}),
                ("Gather", [made("sizes"), held["one"]], made("numbers"), {}),
                ("Div", [made("numbers"), EACH], made("whole"), {}),
                ("Equal", [made("whole"), held["zero"]], made("none"), {}),
                ("Cast", [made("none")], made("least"), {"to": TensorProto.INT64}),
                ("Add", [made("whole"), made("least")], made("step"), {}),
                ("Slice", [made("flat"), held["zero"], held["end"], held["one"], made("step")], sample, {}),
                ("Cast", [made("flat")], made("wide"), {"to": TensorProto.DOUBLE}),
                ("Gemm", [made("wide"), made("wide")], gram, {"transB": 1}),
            ]
            graph.node.extend(helper.make_node(kind, read, [out], **more) for kind, read, out, more in steps)
            graph.output.extend(onnx.ValueInfoProto(name=part) for part in parts_of(name))
    return [name for name in names if name in chosen]


def footprint(path: str, shapes: dict[str, tuple[int, ...]]) -> Footprint | None:
    """What the file's graph holds for inputs of these shapes, of one input; None where a value's size is not known."""
    onnx = require("onnx", "onnx", "an ONNX model")
    model = onnx.load(path, load_external_data=False)
    weights = {i.name: int(np.prod(i.dims)) * _item(onnx, i.data_type) for i in model.graph.initializer}
    sizes = {}
    for name, value in _inferred(onnx, model, shapes).items():
        kind = value.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        known = [d for d in dims if d is not None]
        if kind.HasField("shape") and len(known) == len(dims):
            sizes[name] = math.prod(known) * _item(onnx, kind.elem_type)
    steps = [([n for n in node.input if n not in weights], list(node.output)) for node in model.graph.node]
    if any(name and name not in sizes for _, made in steps for name in made):
        return None
    return Footprint(sum(weights.values()), largest_alive(sizes, steps, {o.name for o in model.graph.output}))


def _inferred(onnx: ModuleType, model: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Types and shapes of the graph's values by name, for inputs of these shapes; large weights are not looked at."""
    bare = _without_weights(onnx, model)
    for value in bare.graph.input:
        if value.name in shapes:
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, shapes[value.name], strict=False):
                dim.Clear()
                dim.dim_value = size
    if shapes:  # what the file says of other sizes is forgotten
        del bare.graph.value_info[:]
        for value in bare.graph.output:
            value.type.tensor_type.ClearField("shape")
    try:
        graph = onnx.shape_inference.infer_shapes(bare).graph
    except Exception:  # of operators that it does not know, or files that it finds at fault: then nothing is known
        return {}
    return {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}


def _without_weights(onnx: ModuleType, model: Any) -> Any:
    """The model with its small constants alone; those that shapes cannot depend on keep their sizes."""
    bare = onnx.ModelProto(ir_version=model.ir_version)
    bare.opset_import.extend(model.opset_import)
    bare.functions.extend(model.functions)
    graph = bare.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    for i in model.graph.initializer:
        if int(np.prod(i.dims)) * _item(onnx, i.data_type) <= _SMALL:
            graph.initializer.append(i)
        else:
            graph.initializer.append(onnx.TensorProto(name=i.name, data_type=i.data_type, dims=i.dims))
    return bare


def _item(onnx: ModuleType, kind: int) -> int:
    """Bytes of one number."""
    return int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize) if kind else 0


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
        onnx, runtime = require("onnx", "onnx", "an ONNX model"), require("onnxruntime", "onnx", "an ONNX model")
        try:
            self._open(onnx, runtime, path, fold)
        except Exception as error:  # neither library's errors share a public class
            said = next(iter(str(error).splitlines()), type(error).__name__)
            raise NetworkError(f"{path} runs, but not with all its intermediate values as outputs: {said}") from None

    def _open(self, onnx: ModuleType, runtime: ModuleType, path: str, fold: bool) -> None:
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


def quiet(runtime: ModuleType) -> Any:
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
    streams = True
    states_layout = True

    def __init__(self, session: Any, name: str, path: str | None = None):
        self.session, self.name, self.path = session, name, path
        self._layers: dict[bool, OnnxLayers] = {}
        self._inputs = session.get_inputs()
        self._outputs = [o.name for o in session.get_outputs()]
        self.input_names = [i.name for i in self._inputs]
        self.fixed_batch = self._stated(0)
        self.device = "cpu" if session.get_providers() == ["CPUExecutionProvider"] else session.get_providers()[0]

    def batch_along(self, x: Tree, axes: Sequence[int]) -> int | None:
        """The size that the file states for the batch of its first input, if it is a number."""
        return self._stated(self._along(x, axes).get(self.input_names[0], 0))

    def check_inputs(self, x: Tree, axes: Sequence[int] = ()) -> None:
        """Raise unless names, ranks and sizes are those that the file states; the batch may have any size."""
        along = self._along(x, axes)
        for declared, a in zip(self._inputs, self._arrays(x).values(), strict=True):
            wanted, given, axis = declared.shape, np.shape(a), along.get(declared.name, 0)
            if wanted is None or _fits(wanted, given, axis):
                continue
            sizes = [str(n) if isinstance(n, int) else "any" for n in wanted]
            says = ", ".join("N" if k == axis else size for k, size in enumerate(sizes))
            hint = ""
            if len(given) == 4 and _fits(wanted, (given[0], given[3], *given[1:3])):
                hint = "; the file reads channels first: numpy.moveaxis(x, -1, 1), with layout='channels_first'"
            elif len(given) == 4 and _fits(wanted, (given[0], *given[2:], given[1])):
                hint = "; the file reads channels last: numpy.moveaxis(x, 1, -1), with layout='channels_last'"
            raise ShapeError(f"x has shape {given}; {self.name} expects ({says}) for {declared.name!r}{hint}")

    def stated_shapes(self, x: Tree, axes: Sequence[int] = ()) -> list[Sizes | None]:
        """The shapes that the file states, in the order of x; of dictionaries in that of their sorted names."""
        along, shapes = self._along(x, axes), {i.name: i.shape for i in self._inputs}
        return [_batch_first(shapes.get(name), along.get(name, 0)) for name in self._names(x)]

    def run(self, x: Tree) -> Tree:
        """What the session returns: an array, or several by name."""
        values = self.session.run(None, self._feed(x), quiet(require("onnxruntime", "onnx", "an ONNX model")))
        return values[0] if len(values) == 1 else dict(zip(self._outputs, values, strict=True))

    def footprint(self, x: Tree) -> Footprint | None:
        """What the file's graph holds for one input; None for a session, or where a size is not known."""
        if self.path is None:
            return None
        return footprint(self.path, {name: np.shape(a) for name, a in self._arrays(x).items()})

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """Every operation of the file; None for a session, which has its graph no more."""
        if self.path is None:
            return None
        fold = isinstance(keep, Folder)
        if fold not in self._layers:
            self._layers = {fold: OnnxLayers(self.path, fold)}
        return self._layers[fold].trace(self._feed(x), keep)

    def _stated(self, axis: int) -> int | None:
        first = self._inputs[0].shape
        return first[axis] if first and len(first) > axis and isinstance(first[axis], int) else None

    def _along(self, x: Tree, axes: Sequence[int]) -> dict[str, int]:
        """Where every input has its batch, by name; of dictionaries in the order of their sorted names."""
        return dict(zip(self._names(x), axes, strict=False))

    def _names(self, x: Tree) -> list[str]:
        """The inputs' names in the order of the arrays of x: the file's, or of a dictionary the sorted one."""
        return sorted(x) if isinstance(x, dict) else self.input_names

    def _feed(self, x: Tree) -> dict[str, np.ndarray]:
        arrays = self._arrays(x)
        return {i.name: np.ascontiguousarray(arrays[i.name], _TYPES.get(i.type, np.float32)) for i in self._inputs}

    def _arrays(self, x: Tree) -> dict[str, Any]:
        """The inputs by name, in the file's order."""
        names = [i.name for i in self._inputs]
        arrays = x if isinstance(x, dict) else dict(zip(names, arguments(x), strict=False))
        missing = [name for name in names if name not in arrays]
        if missing or len(arrays) != len(names):
            raise InvalidArgumentError(f"the file reads {names}; x has {sorted(arrays)}")
        return {name: arrays[name] for name in names}


def _fits(wanted: list[Any], given: tuple[int, ...], axis: int = 0) -> bool:
    """Whether an array of shape `given` is what the file states, but for the axis of its batch."""
    same = [not isinstance(w, int) or w == g for w, g in zip(wanted, given, strict=False)]
    return len(wanted) == len(given) and all(fits or k == axis for k, fits in enumerate(same))


def _batch_first(shape: list[Any] | None, axis: int) -> list[Any] | None:
    return shape if not shape else [*shape[axis : axis + 1], *shape[:axis], *shape[axis + 1 :]]


def of_session(session: Any) -> OnnxModel:
    """The adapter of a session that is in memory."""
    return OnnxModel(session, "ONNX session")


def load_onnx(path: str, trust: bool = False) -> OnnxModel:
    """The model in an ONNX file, on the CPU; it runs no code of its own, trusted or not."""
    runtime = require("onnxruntime", "onnx", "an ONNX model")
    options = runtime.SessionOptions()
    options.log_severity_level = SILENT
    try:
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no public class
        raise NetworkError(f"{path} cannot be loaded by onnxruntime: {str(error).splitlines()[0]}") from None
    return OnnxModel(session, path, path)
