"""Parameters and outputs of the finite network that a tree of layers stands for, of one input or of several."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import DType
from equitangents.errors import ShapeError
from equitangents.nn.layer import ParameterFree
from equitangents.nn.sequential import check_entries, run_layers
from equitangents.nn.structure import Structure
from equitangents.stax.inputs import given, moved_back, moved_shape
from equitangents.stax.nodes import Fan, Leaf, Node, Row, axes_after, axes_before, flattened
from equitangents.stax.signals import after_fan, after_leaf, branches_of, parts_of, signal_of, signals_of_leaf
from equitangents.structured import NEURAL_TANGENTS


def init(node: Node, key: jax.Array, shape: Any, dtype: DType) -> tuple[Any, Any]:
    """(shape of the outputs, parameters); shapes of several inputs are a tuple or a list."""
    batches, signal = signal_and_batch(node, shape)
    params, last = _init(node, key, signal, dtype)
    return shape_after(node, last, batches), params


def signal_and_batch(node: Node, shape: Any) -> tuple[Any, Any]:
    """(number of inputs, signal) of a shape, or of several."""
    if not _is_shape(shape):
        nodes = node.children if isinstance(node, Fan) else first_fan(node, len(shape))
        found = [signal_and_batch(child, s) for child, s in zip(nodes, shape, strict=True)]
        return found[0][0], branches_of([signal for _, signal in found])
    batch, *rest = moved_shape(tuple(shape), axes_before(node))
    return batch, signal_of(tuple(rest))


def first_fan(node: Node, count: int) -> tuple[Node, ...]:
    """What reads each of several inputs."""
    while isinstance(node, Row) and node.children:
        node = node.children[0]
    return node.children if isinstance(node, Fan) else (node,) * count


def _is_shape(shape: Any) -> bool:
    return all(isinstance(n, int | np.integer) or n is None for n in shape)


def _init(node: Node, key: jax.Array, signal: Any, dtype: DType) -> tuple[Any, Any]:
    if isinstance(node, Leaf):
        signals = signals_of_leaf(node, signal)
        weighted = [(la, s) for la, s in zip(node.layers, signals, strict=False) if not isinstance(la, ParameterFree)]
        last = after_leaf(node, signal)
        if not weighted or node.name == "FanOut":
            return (), last
        layer, before = weighted[0]
        with precision.scope(dtype):
            return layer.init(key, before, jnp.dtype(dtype)), last
    keys = jax.random.split(key, max(1, len(node.children)))
    if isinstance(node, Fan):
        found = [_init(c, k, s, dtype) for c, k, s in zip(node.children, keys, parts_of(node, signal), strict=True)]
        return tuple(p for p, _ in found), after_fan(node, signal, [s for _, s in found])
    params = []
    for child, k in zip(node.children, keys, strict=False):
        held, signal = _init(child, k, signal, dtype)
        params.append(held)
    return tuple(params), signal


def shape_after(node: Node, signal: Any, batch: Any) -> Any:
    """The shape of the outputs, or of several."""
    axes = axes_after(node, axes_before(node))
    if hasattr(signal, "parts"):
        return [_shape_of(part, batch, axes) for part in signal.parts]
    return _shape_of(signal, batch, axes)


def _shape_of(signal: Any, batch: Any, axes: Any) -> Any:
    if hasattr(signal, "parts"):
        return [_shape_of(part, batch, axes) for part in signal.parts]
    return moved_shape((batch, *signal.array_shape), axes, back=True)


def apply(node: Node, params: Any, inputs: Any, key: Any, mask_constant: float | None, pattern: Any) -> Any:
    """The outputs for inputs (an array, or several in a tuple or a list), in the precision of the parameters."""
    flattened(node, params)
    held = jax.tree.leaves(params)
    dtype = held[0].dtype if held else precision.working_dtype(*jax.tree.leaves(inputs))
    with precision.scope(dtype):
        x, signal, beside = _given(node, inputs, dtype, key, mask_constant, pattern)
        y, _, _ = _run(node, params, x, signal, beside)
    axes = axes_after(node, axes_before(node))
    kind = type(inputs) if isinstance(inputs, tuple | list) else tuple
    return _back(y, axes, kind)


def _back(y: Any, axes: Any, kind: type) -> Any:
    if isinstance(y, tuple):
        return kind(_back(part, axes, kind) for part in y)
    return moved_back(y, axes)


def _given(node: Node, inputs: Any, dtype: DType, key: Any, mask_constant: Any, pattern: Any) -> tuple[Any, Any, Any]:
    if isinstance(inputs, tuple | list):
        nodes = node.children if isinstance(node, Fan) else first_fan(node, len(inputs))
        if len(nodes) != len(inputs):
            raise ShapeError(f"{len(inputs)} inputs for {len(nodes)} layers side by side; expected one for each")
        keys = [None] * len(inputs) if key is None else list(jax.random.split(key, len(inputs)))
        found = [_given(c, x, dtype, k, mask_constant, pattern) for c, x, k in zip(nodes, inputs, keys, strict=True)]
        xs, signals, beside = zip(*found, strict=True)
        return xs, branches_of(list(signals)), beside
    one = given(inputs, node, mask_constant, pattern)
    x = jnp.asarray(one.x, dtype)
    if x.ndim < 2:
        raise ShapeError(f"x has shape {x.shape}; expected (N, channels) or (N, *positions, channels)")
    graphs = None if one.graphs is None else jnp.asarray(one.graphs, dtype)
    convention = NEURAL_TANGENTS if one.own is None else one.own.convention
    return x, signal_of(x.shape[1:]), Structure(one.mask, graphs, key, convention)


def _run(node: Node, params: Any, x: Any, signal: Any, beside: Any) -> tuple[Any, Any, Any]:
    if isinstance(node, Leaf):
        if node.name == "Aggregate" and getattr(beside, "graphs", None) is None:
            return x, signal, beside
        flat = flattened(node, params)
        check_entries("params", flat, node.layers)
        y, after = run_layers(node.layers, flat, x, signals_of_leaf(node, signal), beside)
        return y, after_leaf(node, signal), after
    if isinstance(node, Row):
        for i, (child, held) in enumerate(zip(node.children, params, strict=True)):
            x, signal, beside = _run(child, held, x, signal, _within(beside, i))
        return x, signal, beside
    xs = x if isinstance(x, tuple) else (x,) * len(node.children)
    besides = beside if isinstance(beside, tuple) else (beside,) * len(node.children)
    found = []
    for i, (child, held, y, s, b) in enumerate(
        zip(node.children, params, xs, parts_of(node, signal), besides, strict=True)
    ):
        found.append(_run(child, held, y, s, _within(b, i)))
    return (
        tuple(f[0] for f in found), after_fan(node, signal, [f[1] for f in found]), tuple(f[2] for f in found)
    )  # fmt: skip


def _within(beside: Any, i: int) -> Any:
    """What goes beside the i-th of several layers: of one signal, or of several, which may be several themselves."""
    return tuple(_within(part, i) for part in beside) if isinstance(beside, tuple) else beside.within(i)
