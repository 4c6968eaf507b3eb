"""Triples (init_fn, apply_fn, kernel_fn) over the layers of `equitangents.nn`.

Each triple knows the tree of layers that it stands for, so that combinators join these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents.nn import Dropout
from equitangents.nn.layer import Layer
from equitangents.stax.finite import apply, init
from equitangents.stax.infinite import KernelFn
from equitangents.stax.inputs import refuse_keywords
from equitangents.stax.nodes import Axes, Leaf, Node, check_joins, leaves
from equitangents.stax.patterns import Pattern

Params = Any


class StaxLayer(NamedTuple):
    """What every function of `stax` returns; `init_fn, apply_fn, kernel_fn = layer` takes it apart."""

    init_fn: InitFn
    apply_fn: ApplyFn
    kernel_fn: KernelFn


class InitFn:
    """init_fn(rng, input_shape) gives (output_shape, params); shapes have the batch first, -1 if it is not known."""

    def __init__(self, node: Node) -> None:
        self.node, self.__name__ = node, node.name

    def __call__(self, rng: jax.Array, input_shape: Sequence[Any]) -> tuple[Any, Params]:
        """The outputs' shape, and random parameters, in double precision where JAX has that."""
        return init(self.node, rng, input_shape, jnp.asarray(1.0).dtype)


class ApplyFn:
    """apply_fn(params, x, rng=None, mask_constant=None, pattern=None) gives the finite network's outputs."""

    def __init__(self, node: Node) -> None:
        self.node, self.__name__ = node, node.name

    @property
    def draws(self) -> bool:
        """Whether it draws at random from `rng`: with dropout in training."""
        layers = (layer for leaf in leaves(self.node) for layer in leaf.layers)
        return any(isinstance(layer, Dropout) and layer.mode == "train" for layer in layers)

    def __call__(
        self,
        params: Params,
        inputs: Any,
        rng: Any = None,
        mask_constant: float | None = None,
        pattern: Any = None,
        **keywords: Any,
    ) -> Any:
        """The finite network's outputs; `rng` (or `keys`) is for dropout, `pattern` are graphs."""
        rng = keywords.pop("keys", None) if rng is None else rng
        refuse_keywords("apply_fn", keywords)
        return apply(self.node, params, inputs, rng, mask_constant, pattern)


def of_node(node: Node) -> StaxLayer:
    """The triple of a tree of layers."""
    check_joins(node)
    return StaxLayer(InitFn(node), ApplyFn(node), KernelFn(node))


def triple(
    name: str, *layers: Layer, before: Axes | None = None, after: Axes | None = None, pattern: Pattern | None = None
) -> StaxLayer:
    """The triple of one layer: of layers of `nn` in a row, at most one of them with parameters."""
    return of_node(Leaf(name, layers, before, before if after is None else after, pattern))


def node_of(name: str, layer: Any) -> Node:
    """The tree that a triple stands for."""
    found = getattr(layer[2], "node", None) if isinstance(layer, tuple) and len(layer) == 3 else None
    if found is None:
        raise NotImplementedError(
            f"{name} is {layer!r}; expected a triple of equitangents.stax. A layer of your own is a class: see "
            "equitangents.nn.Layer"
        )
    return found
