"""Triples (init_fn, apply_fn, kernel_fn) over the layers of `equitangents.nn`.

Each triple knows the tree of layers that it stands for, so that combinators join these. Kernels are those of the
engines of a network of `nn` where there is one, else layer by layer in JAX.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from equitangents import nn, precision
from equitangents._types import DType, Params, Tree
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.nn import Dropout
from equitangents.nn.layer import Layer, Structure
from equitangents.stax.by_layers import evaluated
from equitangents.stax.kernel import (
    NAMES,
    Input,
    Inputs,
    Kernel,
    alike,
    given,
    moved_back,
    refuse_keywords,
    shape_after,
    signal_and_batch,
)
from equitangents.stax.tree import Axes, Beside, Fan, Leaf, Node, OfTree, Pattern, Row, Signals, branches_of, signal_of
from equitangents.structured import NEURAL_TANGENTS

_SEVERAL = tuple, list  # every call asks, and to make unions of types takes longer than to ask
_NOT_OF_NETWORK = *_SEVERAL, Kernel
_BETWEEN = frozenset(("nngp", "ntk"))
_ENTRIES = _BETWEEN | {"cov1", "cov2"}


class KernelFn(OfTree):
    """kernel_fn(x1, x2=None, get=None) gives kernels of the infinitely wide network.

    `get`: "nngp", "ntk", "cov1", "cov2", or another name of `Kernel`, gives that, a tuple of these a named tuple, None
    a `Kernel`. In place of inputs it takes the `Kernel` of another kernel_fn. Networks that end on positions have
    kernels between these: (N1, N2, H, H, W, W, …), with diagonal_spatial=True (N1, N2, H, W, …).
    """

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The corresponding layers of `nn`."""
        return self.node.layers

    @cached_property
    def network(self) -> nn.Sequential:
        """The network of `equitangents.nn` that this is the kernel of."""
        return nn.Sequential(*(self.layers or (nn.Identity(),)))

    @cached_property
    def draws(self) -> bool:
        """Whether dropout is drawn for each set of inputs."""
        return any(isinstance(layer, nn.Dropout) for layer in self.layers)

    @cached_property
    def axes(self) -> Axes | None:
        """Axes of the batch and of the channels of what comes out, of inputs as the first layer reads them.

        Raises InvalidArgumentError where layers do not fit one another.
        """
        return self.node.axes_after(self.node.axes_before)

    @cached_property
    def aggregates(self) -> bool:
        """Whether a layer reads graphs."""
        return any(leaf.name == "Aggregate" for leaf in self.node.leaves)

    def __call__(
        self,
        x1: Inputs,
        x2: Inputs | None = None,
        get: str | Sequence[str] | None = None,
        *,
        mask_constant: float | None = None,
        pattern: Tree = None,
        diagonal_batch: bool | None = None,
        diagonal_spatial: bool | None = None,
        **keywords: Tree,
    ) -> Tree:
        """Kernels between x1 and x2 (None: x1), or the layers applied to a `Kernel`."""
        if keywords:
            refuse_keywords("kernel_fn", [k for k in keywords if k not in ("x1_is_x2", "rng")])
        names = _checked(get)
        if _needs_other_positions(self.node, x1, diagonal_spatial):
            raise InvalidArgumentError(
                "diagonal_spatial is True, but the network pools over positions, for which kernels between different "
                "ones are needed"
            )
        patterns = tuple(pattern) if isinstance(pattern, _SEVERAL) else (pattern, pattern)
        sides = None if diagonal_batch is False else self._sides(x1, x2, mask_constant, patterns)
        if sides is None:
            found = evaluated(
                self.node,
                x1,
                x2,
                mask_constant,
                patterns,
                diagonal_batch=diagonal_batch is not False,
                spatial=bool(diagonal_spatial),
            )
        else:
            found = self._of_network(x1, x2, sides, names)
        if get is None:
            return found
        parts = [_entry(found, name) for name in names]
        if isinstance(get, str):
            return parts[0]
        if parts and isinstance(found, _SEVERAL):
            return type(found)(_kernel_of(names)(*each) for each in zip(*parts, strict=True))
        return _kernel_of(names)(*parts)

    def _sides(
        self, x1: Inputs, x2: Inputs | None, mask_constant: float | None, patterns: tuple[Tree, ...]
    ) -> tuple[Input, Input | None] | None:
        """Both sets of inputs as a network of `nn` takes them, where it does; else None."""
        if isinstance(x1, _NOT_OF_NETWORK):
            return None
        _ = self.axes  # layers fit one another
        one = given(x1, self.node, mask_constant, patterns[0])
        other = None if x2 is None else given(x2, self.node, mask_constant, patterns[1])
        if self.draws and other is not None and alike(x1, x2) is not False:
            return None
        first = one.of_network()
        if first is None or (self.aggregates and one.graphs is None):
            return None
        if isinstance(self.node, Fan) or one.x.ndim < 2 or not _ends_on_a_vector(self, one.x.shape[1:]):
            return None
        return first, None if other is None else other.of_network()

    def _of_network(
        self, x1: Inputs, x2: Inputs | None, sides: tuple[Input, Input | None], names: tuple[str, ...]
    ) -> Kernel:
        """The `Kernel` of a network of `nn`, without batches; with `names` these entries alone."""
        no_ntk = not names and any(layer.no_ntk is not None for layer in self.layers)
        wanted = names or (("nngp", "cov1", "cov2") if no_ntk else ("nngp", "ntk", "cov1", "cov2"))
        both = None if _BETWEEN.isdisjoint(wanted) else self.network.kernel(*sides)
        nngp, ntk = (getattr(both, name) if name in wanted else None for name in ("nngp", "ntk"))
        found = Kernel(nngp, ntk, None, None)
        own = {name: side for name, side in zip(("cov1", "cov2"), sides, strict=True) if name in wanted}
        if own:
            each = {k: None if v is None else self.network.kernel_diagonal(v).nngp for k, v in own.items()}
            found = found.replace(**each)
        if names and _ENTRIES.issuperset(names):
            return found
        read = [signal_and_batch(self.node, x.shape) for x in (x1, x1 if x2 is None else x2)]  # type: ignore[union-attr]
        shapes = [shape_after(self.node, self.node.after(signal), count) for count, signal in read]
        batch, channel = self.axes or (0, -1)
        rank = len(shapes[0])
        return found.replace(
            x1_is_x2=alike(x1, x2), is_gaussian=self.node.after(read[0][1]).gaussian, shape1=shapes[0],
            shape2=shapes[1], batch_axis=batch % rank, channel_axis=(-1 if channel is None else channel) % rank,
        )  # fmt: skip


@lru_cache(maxsize=64)
def _ends_on_a_vector(fn: KernelFn, input_shape: tuple[int, ...]) -> bool:
    last = fn.node.after(signal_of(input_shape))
    return not last.several and last.positions.shape == ()


@lru_cache(maxsize=64)
def _kernel_of(names: tuple[str, ...]) -> Callable[..., tuple[Tree, ...]]:
    return namedtuple("AnalyticKernel", names)


def _checked(get: str | Sequence[str] | None) -> tuple[str, ...]:
    names = () if get is None else (get,) if isinstance(get, str) else tuple(get)
    found = [str(name).lower() for name in names]
    for name, lower in zip(names, found, strict=True):
        if lower not in NAMES:
            raise InvalidArgumentError("get", name, list(NAMES))
    return tuple(found)


_POOLS = nn.AvgPool | nn.SumPool | nn.GlobalAvgPool | nn.GlobalSumPool | nn.Attention | nn.Aggregate
_WEIGHTED = nn.Dense | nn.Conv | nn.Attention


def _needs_other_positions(node: Node, x1: Inputs, spatial: bool | None) -> bool:
    """Whether kernels of positions with themselves alone, where these are asked for, do not lead to the result."""
    known = isinstance(x1, Kernel)
    if not (x1.diagonal_spatial and len(x1.shape1) > 2 if isinstance(x1, Kernel) else spatial):
        return False
    on_grid = len(x1.shape) > 2 if hasattr(x1, "shape") else True
    layers = [layer for leaf in node.leaves for layer in leaf.layers]
    for layer in layers:
        if isinstance(layer, nn.Flatten):
            return False
        before = layers[: layers.index(layer)]
        if on_grid and isinstance(layer, _POOLS) and any(isinstance(b, _WEIGHTED) for b in before):
            return True
        if isinstance(layer, nn.GlobalAvgPool | nn.GlobalSumPool):
            on_grid = known
    return known and any(isinstance(layer, _POOLS) for layer in layers)


def _entry(kernels: Tree, name: str) -> Tree:
    if isinstance(kernels, Kernel):
        return getattr(kernels, name)
    return type(kernels)(_entry(part, name) for part in kernels)


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
