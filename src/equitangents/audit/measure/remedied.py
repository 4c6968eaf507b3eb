"""The average of a model over the group, in the form of the model: a function, a PyTorch module, an ONNX file.

An ONNX file has the average over a finite group inside: the graph once for every element, with shared weights.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from equitangents._types import DType, FileName
from equitangents.audit.contract.trees import Shared
from equitangents.audit.measure.averaging import Averaged, GroupMaps, LinearMap, Original, group_maps
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.extras import require


def averaged_file(source: str, names: list[str], maps: GroupMaps, path: Path) -> Path:
    """Write the file; `names` are the file's inputs in the order of the maps. Returns the path."""
    onnx = require("onnx", "onnx", "an ONNX model")
    from onnx import compose, helper

    model = onnx.load(source)
    graph = model.graph
    constants = {i.name for i in graph.initializer}
    inputs = [i for i in graph.input if i.name not in constants]
    outputs = sorted(o.name for o in graph.output) if len(graph.output) > 1 else [o.name for o in graph.output]
    nodes, added = [], _Constants(onnx)
    backs: dict[str, list[str]] = {name: [] for name in outputs}
    for g, (moves, returns) in enumerate(zip(maps.inputs, maps.back, strict=True)):
        prefix = f"equitangents/{g}/"
        part = compose.add_prefix_graph(
            graph, prefix, rename_inputs=False, rename_initializers=False, rename_value_infos=False
        )
        for node in part.node:  # of inputs: of every graph within, too, since names are those of the whole file
            _rename(node, {i.name: f"{prefix}{i.name}" for i in inputs})
        for name, one, shape, axis in zip(names, moves, maps.input_shapes, maps.input_axes, strict=True):
            nodes += added.moved(helper, one, name, f"{prefix}{name}", shape, axis, _type(onnx, inputs, name))
        nodes += part.node
        for name, one, shape, axis in zip(outputs, returns, maps.output_shapes, maps.output_axes, strict=True):
            made = f"{prefix}{name}"
            back = f"{made}/back"
            nodes += added.moved(helper, one, made, back, shape, axis, _type(onnx, graph.output, name))
            backs[name].append(back)
    nodes += [helper.make_node("Mean", parts, [name]) for name, parts in backs.items()]
    new = helper.make_graph(
        nodes, f"{graph.name} averaged over {maps.group}", inputs, list(graph.output),
        [*graph.initializer, *added.tensors],
    )  # fmt: skip
    new.sparse_initializer.extend(graph.sparse_initializer)
    made = helper.make_model(new, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    made.functions.extend(model.functions)
    try:
        large = made.ByteSize() >= 2**31 - 1
        onnx.save(made, str(path), save_as_external_data=large)
        onnx.checker.check_model(str(path))
    except OSError as error:
        raise InvalidArgumentError(f"path is {str(path)!r}, which cannot be written: {error.strerror}") from None
    return path


class _Constants:
    """Index and shape tensors that the added nodes read."""

    def __init__(self, onnx: ModuleType):
        self._onnx = onnx
        self.tensors: list[Any] = []

    def moved(
        self, helper: ModuleType, one: LinearMap, read: str, made: str, shape: tuple[int, ...], axis: int, dtype: DType
    ) -> list[Any]:
        """Nodes that make `made`, the map of `read`, whose batch is along `axis`."""
        if one.index is None and one.matrix is None:
            return [helper.make_node("Identity", [read], [made])]
        flat, turned = f"{made}/flat", f"{made}/turned"
        how = self._nodes(helper, one, flat, turned, made, dtype)
        first, last = (f"{made}/first", f"{made}/last") if axis else (read, made)
        nodes = [
            helper.make_node("Reshape", [first, self._of(f"{made}/row", np.array([0, -1], np.int64))], [flat]),
            how,
            helper.make_node("Reshape", [turned, self._of(f"{made}/shape", np.array([0, *shape], np.int64))], [last]),
        ]
        if not axis:
            return nodes
        others = [k for k in range(len(shape) + 1) if k != axis]
        forth = helper.make_node("Transpose", [read], [first], perm=[axis, *others])
        back = helper.make_node("Transpose", [last], [made], perm=np.argsort([axis, *others]).tolist())
        return [forth, *nodes, back]

    def _nodes(self, helper: ModuleType, one: LinearMap, read: str, made: str, name: str, dtype: DType) -> Any:
        if one.index is not None:
            return helper.make_node("Gather", [read, self._of(f"{name}/index", one.index)], [made], axis=1)
        assert one.matrix is not None
        return helper.make_node("MatMul", [read, self._of(f"{name}/matrix", one.matrix.astype(dtype))], [made])

    def _of(self, name: str, value: np.ndarray) -> str:
        self.tensors.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name


def _rename(node: Any, names: dict[str, str]) -> None:
    for i, name in enumerate(node.input):
        node.input[i] = names.get(name, name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                _rename(inner, names)


def _type(onnx: ModuleType, values: Any, name: str) -> Any:
    found = next(v for v in values if v.name == name)
    return onnx.helper.tensor_dtype_to_np_dtype(found.type.tensor_type.elem_type)


Form = Literal["function", "module", "onnx"]


def with_remedy(of: Original, name: str, path: FileName | None = None, form: Form | None = None) -> Any:
    """The averaged model; see `AuditReport.remedy`."""
    if name != "average":
        raise InvalidArgumentError("remedy", name, "'average'")
    if form not in (None, "function", "module", "onnx"):
        raise InvalidArgumentError("form", form, ["function", "module", "onnx"])
    module, source = getattr(of.model, "module", None), getattr(of.model, "path", None)
    if path is not None and form not in (None, "onnx"):
        raise InvalidArgumentError("path is for form='onnx' alone")
    if form is None:
        form = "onnx" if path is not None else "module" if module is not None else "function"
    function = Averaged(of)
    if form == "function":
        return function
    if of.model.select is not None:
        raise InvalidArgumentError("one of several outputs was audited (select=); take form='function'")
    if form == "module":
        if module is None:
            raise InvalidTypeError(f"{of.model.name} is no PyTorch module; leave form out")
        from equitangents.audit.measure import remedied_torch as made

        made.check_flat(of.x.structure)
        return made.averaged(module, group_maps(of))
    if source is None:
        raise InvalidTypeError(f"{of.model.name} is no ONNX file; leave path and form out")
    if path is None:
        raise InvalidArgumentError("path is None; say where the ONNX file is written")
    return averaged_file(source, _names(of), group_maps(of), Path(path))


def _names(of: Original) -> list[str]:
    """The file's inputs in the order of the arrays."""
    if any(isinstance(leaf, Shared) for leaf in of.x.leaves):
        raise InvalidArgumentError("some input is Shared; take form='function'")
    names = list(of.model.input_names)  # type: ignore[attr-defined]
    by_name = any(name.startswith("x['") for name in of.x.names)
    return sorted(names) if by_name else names
