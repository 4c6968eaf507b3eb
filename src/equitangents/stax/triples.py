"""Triples (init_fn, apply_fn, kernel_fn) over the layers of `equitangents.nn`.

Each triple knows the tree of layers that it stands for, so that combinators join these.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from equitangents import precision
from equitangents._types import DType, Params, Tree
from equitangents.errors import ShapeError
from equitangents.nn import Dropout
from equitangents.nn.layer import Layer, Structure
from equitangents.stax.infinite import KernelFn
from equitangents.stax.inputs import Inputs, given, moved_back, refuse_keywords, shape_after, signal_and_batch
from equitangents.stax.patterns import Pattern
from equitangents.stax.tree import Axes, Beside, Fan, Leaf, Node, OfTree, Row, Signals, branches_of, signal_of
from equitangents.structured import NEURAL_TANGENTS


class StaxLayer(NamedTuple):
    """The triple that every function of `stax` returns: `init_fn, apply_fn, kernel_fn = layer`."""

    init_fn: InitFn
    apply_fn: ApplyFn
    kernel_fn: KernelFn


class InitFn(OfTree):
    """init_fn(rng, input_shape) gives (output_shape, params); shapes have the batch first, -1 if it is not known."""

    def __call__(self, rng: jax.Array, input_shape: Tree) -> tuple[Tree, Params]:
        """The outputs' shape, and random parameters, in double precision where JAX has that.

        Shapes of several inputs are a tuple or a list.
        """
        batch, signal = signal_and_batch(self.node, input_shape)
        params, last = self.node.init(rng, signal, jnp.asarray(1.0).dtype)
        return shape_after(self.node, last, batch), params


class ApplyFn(OfTree):
    """apply_fn(params, x, rng=None, mask_constant=None, pattern=None) gives the finite network's outputs."""

    @property
    def draws(self) -> bool:
        """Whether it draws from `rng`: with dropout in training."""
        layers = (layer for leaf in self.node.leaves for layer in leaf.layers)
        return any(isinstance(layer, Dropout) and layer.mode == "train" for layer in layers)

    def __call__(
        self,
        params: Params,
        inputs: Inputs,
        rng: jax.Array | None = None,
        mask_constant: float | None = None,
        pattern: Tree = None,
        **keywords: Tree,
    ) -> Tree:
        """The finite network's outputs, in the precision of the parameters; of several inputs several, held likewise.

        `rng` (or `keys`) is for dropout, `pattern` are graphs.
        """
        rng = keywords.pop("keys", None) if rng is None else rng
        refuse_keywords("apply_fn", keywords)
        self.node.flattened(params)
        held = jax.tree.leaves(params)
        dtype = held[0].dtype if held else precision.working_dtype(*jax.tree.leaves(inputs))
        with precision.scope(dtype):
            x, signal, beside = _begun(self.node, inputs, dtype, rng, mask_constant, pattern)
            y, _, _ = self.node.run(params, x, signal, beside)
        axes = self.node.axes_after(self.node.axes_before)
        return _ended(y, axes, type(inputs) if isinstance(inputs, tuple | list) else tuple)


def _begun(
    node: Node, inputs: Inputs, dtype: DType, key: jax.Array | None, mask_constant: float | None, pattern: Tree
) -> tuple[Tree, Signals, Beside]:
    """(arrays, their signal, what goes beside them) of inputs: of one, or of several side by side."""
    if isinstance(inputs, tuple | list):
        nodes = node.readers(len(inputs))
        if len(nodes) != len(inputs):
            raise ShapeError(
                "inputs", len(inputs), len(nodes), "give one for each of the layers side by side", verb="has length"
            )
        keys = [None] * len(inputs) if key is None else list(jax.random.split(key, len(inputs)))
        found = [_begun(c, x, dtype, k, mask_constant, pattern) for c, x, k in zip(nodes, inputs, keys, strict=True)]
        xs, signals, beside = zip(*found, strict=True)
        return xs, branches_of(signals), beside
    one = given(inputs, node, mask_constant, pattern)
    x = jnp.asarray(one.x, dtype)
    if x.ndim < 2:
        raise ShapeError("x", x.shape, "(N, channels) or (N, *positions, channels)")
    graphs = None if one.graphs is None else jnp.asarray(one.graphs, dtype)
    convention = NEURAL_TANGENTS if one.own is None else one.own.convention
    return x, signal_of(x.shape[1:]), Structure(one.mask, graphs, key, convention)


def _ended(y: Tree, axes: Axes | None, kind: type) -> Tree:
    return kind(_ended(part, axes, kind) for part in y) if isinstance(y, tuple) else moved_back(y, axes)


def of_node(node: Node) -> StaxLayer:
    """The triple of a tree of layers.

    NotImplementedError where channels are to be joined that are not last: the axis may be one of positions.
    """
    axes = node.axes_before
    for leaf in node.leaves:
        if leaf.name == "FanInConcat" and axes is not None and axes[1] is not None and axes[1] >= 0:
            raise NotImplementedError(
                f"FanInConcat of channels along axis {axes[1]} is not here; nn.Concatenate joins channels that are last"
            )
        axes = leaf.axes_written or axes
    return StaxLayer(InitFn(node), ApplyFn(node), KernelFn(node))


def triple(
    name: str, *layers: Layer, before: Axes | None = None, after: Axes | None = None, pattern: Pattern | None = None
) -> StaxLayer:
    """The triple of one layer: of layers of `nn` in a row, at most one of them with parameters."""
    return of_node(Leaf(name, layers, before, before if after is None else after, pattern))


def _node_of(name: str, layer: StaxLayer) -> Node:
    """The tree that a triple stands for."""
    found = getattr(layer[2], "node", None) if isinstance(layer, tuple) and len(layer) == 3 else None
    if found is None:
        raise NotImplementedError(
            f"{name} is {layer!r}; expected a triple of equitangents.stax. A layer of your own is a class: see "
            "equitangents.nn.Layer"
        )
    return found


def serial(*layers: StaxLayer) -> StaxLayer:
    """`nn.Sequential`: layers one after another; their parameters are a tuple with one entry each."""
    return of_node(Row(tuple(_node_of(f"layers[{i}]", layer) for i, layer in enumerate(layers))))


def parallel(*layers: StaxLayer) -> StaxLayer:
    """`nn.Parallel`: one layer for each of the signals that `FanOut` made, or for each of several inputs."""
    return of_node(Fan(tuple(_node_of(f"layers[{i}]", layer) for i, layer in enumerate(layers))))


def repeat(layer: StaxLayer, n: int) -> StaxLayer:
    """The layer n times one after another, with independent weights each time; the identity for n = 0."""
    return of_node(Row((_node_of("layer", layer),) * n, "repeat"))
