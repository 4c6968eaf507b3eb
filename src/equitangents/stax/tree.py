"""The tree of layers behind a triple, whose parameters have one entry per layer, as in neural-tangents.

A `Leaf` is one function of `stax`, which may be several layers of `nn` in a row, at most one of them with parameters:
its entry is that layer's, or () without any. A `Row` has one entry for each child, and so has a `Fan`. Between layers
goes one signal, or several side by side, which may be several themselves.

Graphs, `pattern=`, are edges from tails to heads, among all positions or along some axes: pattern[n, tail, head] is the
weight with which the head receives the tail, so that it is transposed into the adjacency matrix of `Graphs`, which says
what a node receives. Along some of the axes alone the matrix is a product with the identity along the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import nn, precision
from equitangents._types import ArrayLike, DType, Params, Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, ShapeError
from equitangents.nn.branches import Branches
from equitangents.nn.layer import Layer, Structure
from equitangents.nn.lowering import chain, check_entries, run_layers
from equitangents.nn.signal import Grid, Signal


@dataclass(frozen=True)
class Pattern:
    """Axes (None: all) and form of the pattern of an `Aggregate`."""

    axes: tuple[int, ...] | None = None
    batch_axis: int = 0
    channel_axis: int = -1
    to_dense: Callable[[Tree], ArrayLike] | None = None
    sparse: bool = False

    def adjacency(self, pattern: Tree, grid: tuple[int, ...]) -> ArrayLike:
        """(N, P, P) of positions of a grid: entry (n, p, r) is what p receives of r in input n."""
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
        """Which dimensions of the grid the axes are."""
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
    """Numbers of edges (N, tails, heads) from lists of them, (N, edges, dimensions, 2); negative ones are none."""
    given, expected = pattern.shape, ["N", "edges", len(sizes), 2]
    if pattern.ndim == 3 and len(sizes) == 1:
        pattern = pattern[:, :, None]
        del expected[2]
    if pattern.ndim != 4 or pattern.shape[2:] != (len(sizes), 2):
        raise ShapeError("pattern", given, tuple(expected))
    if pattern.dtype.kind not in "iu":
        raise InvalidTypeError(
            "pattern", pattern.dtype, "whole numbers, the positions of edges' ends", verb="has dtype"
        )
    there = (pattern >= 0).all(axis=(2, 3))
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1].reshape((1, 1, -1, 1))
    ends = (pattern % np.reshape(sizes, (1, 1, -1, 1)) * strides).sum(axis=2)
    count = math.prod(sizes)
    rows = jnp.arange(len(pattern))[:, None]
    return jnp.zeros((len(pattern), count, count)).at[rows, ends[..., 0], ends[..., 1]].add(there)


Axes = tuple[int, int | None]  # of the batch and of the channels; None: all others
Signals = Signal | Branches
Beside = Structure | tuple["Beside", ...]


@dataclass(frozen=True)
class Leaf:
    """One layer. `axes_before` and `axes_written` are the axes of input and output; None: those of the neighbours.

    `pattern`: how it reads graphs, of an `Aggregate`.
    """

    name: str
    layers: tuple[Layer, ...]
    axes_before: Axes | None = None
    axes_written: Axes | None = None
    pattern: Pattern | None = None

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaf itself, its only one."""
        return (self,)

    @property
    def has_weights(self) -> bool:
        """Whether it has parameters."""
        return any(layer.has_weights for layer in self.layers)

    def axes_after(self, before: Axes | None) -> Axes | None:
        """The axes of the output; InvalidArgumentError where those of the input are not those that it reads."""
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
        """What reads each of several inputs: it does."""
        return (self,) * count

    def signals(self, signal: Signals) -> tuple[Signals, ...]:
        """The signals before each layer of `nn`, and after the last; NetworkError where they do not follow."""
        return chain(self.layers, signal)  # type: ignore[arg-type]  # layers that join read several

    def after(self, signal: Signals) -> Signals:
        """Output signals of its layers."""
        return self.signals(signal)[-1]

    def flattened(self, params: Params, name: str = "params") -> tuple[Params, ...]:
        """One entry for each layer of `nn`."""
        return tuple(params if layer.has_weights else empty(layer) for layer in self.layers)

    def init(self, key: jax.Array, signal: Signals, dtype: DType) -> tuple[Params, Signals]:
        """(random parameters, what comes out)."""
        *before, last = self.signals(signal)
        for layer, read in zip(self.layers, before, strict=True):
            if layer.has_weights:
                with precision.scope(dtype):
                    return layer.init(key, read, jnp.dtype(dtype)), last  # type: ignore[arg-type]
        return (), last

    def run(self, params: Params, x: Tree, signal: Signals, beside: Beside) -> tuple[Tree, Signals, Beside]:
        """(outputs, their signal, their structure) of the finite network."""
        if self.name == "Aggregate" and getattr(beside, "graphs", None) is None:
            return x, signal, beside
        flat = self.flattened(params)
        check_entries("params", flat, self.layers)
        signals = self.signals(signal)
        y, after = run_layers(self.layers, flat, x, beside, signals)
        return y, signals[-1], after


@dataclass(frozen=True)
class _Joined:
    """Base of `Row` and `Fan`."""

    children: tuple[Node, ...]

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All layers, first to last."""
        return tuple(leaf for child in self.children for leaf in child.leaves)

    @property
    def has_weights(self) -> bool:
        """Whether any layer has parameters."""
        return any(child.has_weights for child in self.children)

    @property
    def pattern(self) -> Pattern | None:
        """The `Pattern` that the layers read; None if none does."""
        found = {leaf.pattern for leaf in self.leaves if leaf.pattern is not None}
        if len(found) > 1:
            raise NotImplementedError("Aggregate layers that read one pattern in several ways are not here")
        return next(iter(found), None)

    @cached_property
    def axes_before(self) -> Axes | None:
        """The axes of the input, from the first layer that names any; None where none does."""
        return next((leaf.axes_before for leaf in self.leaves if leaf.axes_before is not None), None)

    def entries(self, params: Params, name: str) -> list[tuple[Params, ...]]:
        """The parameters of each child, one entry for each of its layers of `nn`; ShapeError where there are others."""
        listed = isinstance(params, tuple | list)
        if not listed or len(params) != len(self.children):
            held, verb = (len(params), "has length") if listed else (type(params), "is of type")
            raise ShapeError(name, held, len(self.children), "one entry for each layer, as init_fn gives", verb=verb)
        return [c.flattened(p, f"{name}[{i}]") for i, (c, p) in enumerate(zip(self.children, params, strict=True))]


@dataclass(frozen=True)
class Row(_Joined):
    """Layers one after another: `serial`, `repeat`."""

    name: str = "serial"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The corresponding layers of `nn`."""
        return tuple(layer for child in self.children for layer in child.layers)

    def axes_after(self, before: Axes | None) -> Axes | None:
        """The axes of the output; InvalidArgumentError where layers do not fit one another."""
        for child in self.children:
            before = child.axes_after(before)
        return before

    def readers(self, count: int) -> tuple[Node, ...]:
        """What reads each of several inputs: the first layer says."""
        return self.children[0].readers(count) if self.children else (self,) * count

    def after(self, signal: Signals) -> Signals:
        """Output signals of all children, one after another."""
        for child in self.children:
            signal = child.after(signal)
        return signal

    def flattened(self, params: Params, name: str = "params") -> tuple[Params, ...]:
        """One entry for each layer of `nn`; ShapeError where there are not as many entries as layers."""
        return tuple(p for part in self.entries(params, name) for p in part)

    def init(self, key: jax.Array, signal: Signals, dtype: DType) -> tuple[Params, Signals]:
        """(random parameters, what comes out)."""
        params = []
        for child, k in zip(self.children, jax.random.split(key, max(1, len(self.children))), strict=False):
            held, signal = child.init(k, signal, dtype)
            params.append(held)
        return tuple(params), signal

    def run(self, params: Params, x: Tree, signal: Signals, beside: Beside) -> tuple[Tree, Signals, Beside]:
        """(outputs, their signal, their structure) of the finite network."""
        for i, (child, held) in enumerate(zip(self.children, params, strict=True)):
            x, signal, beside = child.run(held, x, signal, _within(beside, i))
        return x, signal, beside


@dataclass(frozen=True)
class Fan(_Joined):
    """Layers side by side: `parallel`."""

    name: str = "parallel"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The corresponding layer of `nn`."""
        return (nn.Parallel(*(list(child.layers) or [nn.Identity()] for child in self.children)),)

    def axes_after(self, before: Axes | None) -> Axes | None:
        """The axes of the output, which are those of its first layer."""
        return self.children[0].axes_after(before)

    def readers(self, count: int) -> tuple[Node, ...]:
        """What reads each of several inputs: a layer each."""
        return self.children

    def parts(self, signal: Signals) -> tuple[Signals, ...]:
        """Input signals of each of the layers; NetworkError if their number differs."""
        if not signal.several:
            return (replace(signal, given=False),) * len(self.children)
        if len(signal.parts) != len(self.children):
            raise NetworkError(
                "signal",
                len(signal.parts),
                len(self.children),
                "give one for each of the layers side by side",
                verb="has parts,",
            )
        return signal.parts

    def after(self, signal: Signals) -> Signals:
        """Output signals of all layers."""
        return self._joined(signal, [c.after(s) for c, s in zip(self.children, self.parts(signal), strict=True)])

    def _joined(self, signal: Signals, parts: list[Signals]) -> Branches:
        """What comes out of each, with the weights that each part comes from."""
        one = Branches((), (frozenset({"input"}),) * len(parts))
        before = signal if signal.several else one
        found = tuple(
            frozenset({(before.stage, i)}) if child.has_weights else origin
            for i, (child, origin) in enumerate(zip(self.children, before.origins, strict=True))
        )
        return Branches(tuple(parts), found, before.stage + 1)  # type: ignore[arg-type]

    def flattened(self, params: Params, name: str = "params") -> tuple[Params, ...]:
        """One entry, of `nn.Parallel`; ShapeError where there are not as many entries as layers."""
        return (tuple(part or ((),) for part in self.entries(params, name)),)

    def init(self, key: jax.Array, signal: Signals, dtype: DType) -> tuple[Params, Signals]:
        """(random parameters, what comes out)."""
        keys = jax.random.split(key, max(1, len(self.children)))
        parts = zip(self.children, keys, self.parts(signal), strict=True)
        found = [child.init(k, s, dtype) for child, k, s in parts]
        return tuple(p for p, _ in found), self._joined(signal, [s for _, s in found])

    def run(self, params: Params, x: Tree, signal: Signals, beside: Beside) -> tuple[Tree, Signals, Beside]:
        """(outputs, their signals, their structures) of the finite network."""
        count = len(self.children)
        xs = x if isinstance(x, tuple) else (x,) * count
        besides = beside if isinstance(beside, tuple) else (beside,) * count
        given = zip(self.children, params, xs, self.parts(signal), besides, strict=True)
        found = [child.run(held, y, s, _within(b, i)) for i, (child, held, y, s, b) in enumerate(given)]
        return tuple(f[0] for f in found), self._joined(signal, [f[1] for f in found]), tuple(f[2] for f in found)


Node = Leaf | Row | Fan


class OfTree:
    """One of the three functions of a triple: of the tree `node`, whose name it has."""

    def __init__(self, node: Node) -> None:
        self.node, self.__name__ = node, node.name


def signal_of(shape: tuple[int, ...]) -> Signal:
    """The signal of inputs of shape (*grid, channels)."""
    return Signal(Grid(shape[:-1]), shape[-1], given=True)


def branches_of(parts: Sequence[Signals]) -> Branches:
    """Independent inputs side by side."""
    return Branches(tuple(parts), tuple(frozenset({("input", i)}) for i in range(len(parts))))  # type: ignore[arg-type]


def empty(layer: Layer) -> tuple[Any, ...]:
    """The parameters of a layer without any."""
    return tuple(tuple(empty(inner) for inner in branch) for branch in layer.inner)


def _within(beside: Beside, i: int) -> Beside:
    """What goes beside the i-th of several layers."""
    return tuple(_within(part, i) for part in beside) if isinstance(beside, tuple) else beside.within(i)


def _fit(given: Axes, read: Axes) -> bool:
    """Whether axes may be the same: those counted from the end are known with the rank alone."""
    pairs = zip(given, read, strict=True)
    return all(b is None or a is None or a == b or (a < 0) != (b < 0) for a, b in pairs)
