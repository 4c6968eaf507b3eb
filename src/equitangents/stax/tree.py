"""The tree of layers behind a triple, whose parameters have one entry per layer, as in neural-tangents.

A `Leaf` is one function of `stax`. It may be a sequence of several layers of `nn`, at most one of them with parameters,
which are the leaf's entry, or (). A `LayerGroup` has one entry for each child. `layers` are the layers of `nn` that
define the finite network and its kernels.

Graphs, `pattern=`, are edges from tails to heads, among all positions or along some axes: pattern[n, tail, head] is the
weight with which the head receives from the tail, the transpose of the adjacency matrix of `Graphs`. For edges along
some of the axes, the matrix is a product with the identity along the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import nn, precision
from equitangents._types import ArrayLike, DType, Params, Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.nn.branches import Branches
from equitangents.nn.layer import Layer, Signal
from equitangents.nn.sequential import chain

Axes = tuple[int, int | None]  # of the batch and of the channels; None: all others
Signals = Signal | Branches


@dataclass(frozen=True)
class Pattern:
    """Axes (None: all) and form of the pattern of an `Aggregate`."""

    axes: tuple[int, ...] | None = None
    batch_axis: int = 0
    channel_axis: int = -1
    to_dense: Callable[[Tree], ArrayLike] | None = None
    sparse: bool = False

    def adjacency(self, pattern: Tree, grid: tuple[int, ...]) -> ArrayLike:
        """(N, P, P) for positions of a grid: entry (n, p, r) is the weight with which p receives from r in input n."""
        if self.to_dense is not None and not self.sparse:
            pattern = self.to_dense(pattern)
        if not hasattr(pattern, "shape"):
            pattern = np.asarray(pattern)
        xp = jnp if isinstance(pattern, jax.Array) else np
        along = self._along(len(grid))
        sizes = [grid[d] for d in along]
        count = math.prod(sizes)
        if self.sparse:
            edges = _of_edges(pattern, sizes)
        elif np.size(pattern) != len(pattern) * count**2:
            raise ShapeError("pattern", pattern.shape, ("N", count, count), "as many as nodes")
        else:
            edges = pattern.reshape((len(pattern), count, count))
        others = [d for d in range(len(grid)) if d not in along]
        kept = xp.eye(math.prod(grid[d] for d in others), dtype=edges.dtype)
        product = edges[:, :, None, :, None] * kept[None, None, :, None]
        split = [grid[d] for d in (*along, *others)]
        order = [(*along, *others).index(d) for d in range(len(grid))]
        tails, heads = [1 + i for i in order], [1 + len(grid) + i for i in order]
        moved = xp.transpose(product.reshape((len(edges), *split, *split)), (0, *heads, *tails))
        total = math.prod(grid)
        return moved.reshape((len(edges), total, total))

    def _along(self, dimensions: int) -> list[int]:
        """The indices of the grid dimensions that are the axes."""
        rank = dimensions + 2
        batch, channel = self.batch_axis % rank, self.channel_axis % rank
        spatial = [axis for axis in range(rank) if axis not in (batch, channel)]
        if self.axes is None:
            return list(range(dimensions))
        named = sorted({axis % rank for axis in self.axes})
        if not set(named) <= set(spatial):
            raise ShapeError("aggregate_axis", self.axes, list(spatial), "axes of positions", verb="is")
        return [spatial.index(axis) for axis in named]


def _of_edges(pattern: ArrayLike, sizes: list[int]) -> jax.Array:
    """Weights (N, tails, heads) that count listed edges (N, edges, dimensions, 2); negative numbers are ignored."""
    shape, expected = pattern.shape, ["N", "edges", len(sizes), 2]
    if pattern.ndim == 3 and len(sizes) == 1:
        pattern = pattern[:, :, None]
        del expected[2]
    if pattern.ndim != 4 or pattern.shape[2:] != (len(sizes), 2):
        raise ShapeError("pattern", shape, tuple(expected))
    if pattern.dtype.kind not in "iu":
        raise InvalidTypeError(
            "pattern", pattern.dtype, "whole numbers, the positions of edges' ends", verb="has dtype"
        )
    valid = (pattern >= 0).all(axis=(2, 3))
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1].reshape((1, 1, -1, 1))
    ends = (pattern % np.reshape(sizes, (1, 1, -1, 1)) * strides).sum(axis=2)
    count = math.prod(sizes)
    rows = jnp.arange(len(pattern))[:, None]
    return jnp.zeros((len(pattern), count, count)).at[rows, ends[..., 0], ends[..., 1]].add(valid)


@dataclass(frozen=True)
class Leaf:
    """One layer. `axes_before` and `axes_written` are the axes of input and output; None: those of its neighbours.

    `pattern`: how an `Aggregate` reads graphs.
    """

    name: str
    own: tuple[Layer, ...]
    axes_before: Axes | None = None
    axes_written: Axes | None = None
    pattern: Pattern | None = None

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The tuple of this leaf."""
        return (self,)

    def axes_after(self, before: Axes | None) -> Axes | None:
        """The axes of the output; InvalidArgumentError if the input's axes are not those that the leaf reads."""
        read = self.axes_before
        if read is not None and before is not None and not _fit(before, read):
            raise InvalidArgumentError(
                self.name,
                read,
                before,
                "the axes that the layer before gives",
                verb="reads batch_axis and channel_axis",
            )
        return before if self.axes_written is None else self.axes_written

    def readers(self, count: int) -> tuple[Node, ...]:
        """The node that reads each of several inputs: this leaf."""
        return (self,) * count

    def layers(self, *, graphs: bool = True) -> tuple[Layer, ...]:
        """The corresponding layers of `nn`; without `graphs`, `Aggregate` is the identity."""
        return self.own if graphs or self.pattern is None else (nn.Identity(),)

    def flattened(self, params: Params, name: str = "params") -> tuple[Params, ...]:
        """One entry for each layer of `nn`."""
        return tuple(params if layer.has_weights else _empty(layer) for layer in self.own)

    def init(self, key: jax.Array, signal: Signals, dtype: DType) -> Params:
        """Random parameters of the layer with parameters."""
        for layer, read in zip(self.own, chain(self.own, signal), strict=False):  # type: ignore[arg-type]
            if layer.has_weights:
                with precision.scope(dtype):
                    return layer.init(key, read, jnp.dtype(dtype))
        return ()


@dataclass(frozen=True)
class LayerGroup:
    """Layers in sequence (`serial`, `repeat`), or with `parallel` the branches of one input."""

    name: str
    children: tuple[Node, ...]
    parallel: bool = False

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All layers, first to last."""
        return tuple(leaf for child in self.children for leaf in child.leaves)

    @property
    def pattern(self) -> Pattern | None:
        """The `Pattern` that the layers read, or None."""
        found = {leaf.pattern for leaf in self.leaves if leaf.pattern is not None}
        if len(found) > 1:
            raise NotImplementedError("Aggregate layers that read one pattern in several ways are not here")
        return next(iter(found), None)

    @property
    def axes_before(self) -> Axes | None:
        """The axes of the input, from the first layer that specifies any, or None."""
        return next((leaf.axes_before for leaf in self.leaves if leaf.axes_before is not None), None)

    def axes_after(self, before: Axes | None) -> Axes | None:
        """The axes of the output; for parallel layers those of the first."""
        for child in self.children[: 1 if self.parallel else None]:
            before = child.axes_after(before)
        return before

    def readers(self, count: int) -> tuple[Node, ...]:
        """The node that reads each of several inputs: one layer each, or the readers of the first layer."""
        if self.parallel or not self.children:
            return self.children or (self,) * count
        return self.children[0].readers(count)

    def layers(self, *, graphs: bool = True) -> tuple[Layer, ...]:
        """The corresponding layers of `nn`; for parallel layers one `Parallel`."""
        inner = [child.layers(graphs=graphs) for child in self.children]
        return (nn.Parallel(*(part or (nn.Identity(),) for part in inner)),) if self.parallel else sum(inner, ())

    def flattened(self, params: Params, name: str = "params") -> tuple[Params, ...]:
        """One entry for each layer of `nn`; ShapeError if the number of entries differs from the number of children."""
        listed = isinstance(params, tuple | list)
        if not listed or len(params) != len(self.children):
            held, verb = (len(params), "has length") if listed else (type(params), "is of type")
            raise ShapeError(name, held, len(self.children), "one entry for each layer, as init_fn gives", verb=verb)
        inner = [c.flattened(p, f"{name}[{i}]") for i, (c, p) in enumerate(zip(self.children, params, strict=True))]
        return (tuple(part or ((),) for part in inner),) if self.parallel else sum(inner, ())

    def init(self, key: jax.Array, signal: Signals, dtype: DType) -> Params:
        """Random parameters, one entry per child."""
        params = []
        reads = self.layers()[0].inputs(signal).parts if self.parallel else ()  # type: ignore[attr-defined]
        for i, (child, k) in enumerate(
            zip(self.children, jax.random.split(key, max(1, len(self.children))), strict=False)
        ):
            params.append(child.init(k, reads[i] if self.parallel else signal, dtype))
            signal = signal if self.parallel else after(child, signal)
        return tuple(params)


Node = Leaf | LayerGroup


def after(node: Node, signal: Signals) -> Signals:
    """The output signal of the layers; NetworkError if they do not fit one another."""
    return chain(node.layers(), signal)[-1]  # type: ignore[arg-type]  # layers that join read several


def _empty(layer: Layer) -> tuple[Any, ...]:
    """The parameters of a layer that has none."""
    return tuple(tuple(_empty(inner) for inner in branch) for branch in layer.inner)


def _fit(own: Axes, read: Axes) -> bool:
    """Whether two axes may be equal; axes counted from the end are known only with the rank."""
    pairs = zip(own, read, strict=True)
    return all(b is None or a is None or a == b or (a < 0) != (b < 0) for a, b in pairs)
