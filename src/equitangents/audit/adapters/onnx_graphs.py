"""ONNX graphs as data: what is alive at once while one runs, and outputs that fold its values where they are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from equitangents.audit.adapters.footprints import Footprint, largest_alive
from equitangents.audit.adapters.optional import require

EACH = "equitangents/each"
"""Input of a graph with folded values: how many entries of each input's features are kept, about."""
_SMALL = 1024  # bytes of constants that shapes may depend on
_SLICES_READ_INPUTS = 10  # the operator set since which Slice takes its ends as inputs


def parts_of(name: str) -> tuple[str, str, str]:
    """Outputs that stand for a folded value: its shape, its Gram matrix, and a sample of it."""
    return f"equitangents/{name}/shape", f"equitangents/{name}/gram", f"equitangents/{name}/sample"


def folded_within(model: Any, names: Sequence[str]) -> list[str]:
    """Add outputs for those of the values that are real with at least two axes; returns which they are."""
    onnx = require("onnx", "onnx")
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
    onnx = require("onnx", "onnx")
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


def _inferred(onnx: Any, model: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
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


def _without_weights(onnx: Any, model: Any) -> Any:
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


def _item(onnx: Any, kind: int) -> int:
    """Bytes of one number."""
    return int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize) if kind else 0
