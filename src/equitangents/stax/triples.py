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
from equitangents._types import ArrayLike, DType, Params, Tree
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.kernels.result import Kernels
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
        asked = Asked(self, x1, x2, mask_constant, pattern, diagonal_batch, diagonal_spatial)
        if isinstance(get, str):
            return asked.one(names[0])
        if get is None:
            return asked.kernel()
        found = [asked.one(name) for name in names]
        if found and isinstance(found[0], _SEVERAL) and isinstance(asked.kernels, _SEVERAL):
            return type(found[0])(_kernel_of(names)(*parts) for parts in zip(*found, strict=True))
        return _kernel_of(names)(*found)


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


class Asked:
    """One call of a kernel_fn, with results computed on demand."""

    def __init__(
        self,
        fn: KernelFn,
        x1: Inputs,
        x2: Inputs | None,
        mask_constant: float | None,
        pattern: Tree,
        batch: bool | None,
        spatial: bool | None,
    ) -> None:
        self.fn, self.node, self.x1, self.x2 = fn, fn.node, x1, x2
        self.mask_constant, self.diagonal_batch, self.diagonal_spatial = mask_constant, batch, spatial
        self.patterns = tuple(pattern) if isinstance(pattern, _SEVERAL) else (pattern, pattern)
        if _needs_other_positions(fn.node, x1, spatial):
            raise InvalidArgumentError(
                "diagonal_spatial is True, but the network pools over positions, for which kernels between different "
                "ones are needed"
            )

    @cached_property
    def sides(self) -> tuple[Input, Input | None] | None:
        """Both sets of inputs as a network of `nn` takes them, where it does; else None."""
        if isinstance(self.x1, _NOT_OF_NETWORK) or self.diagonal_batch is False:
            return None
        _ = self.fn.axes  # layers fit one another
        one = given(self.x1, self.node, self.mask_constant, self.patterns[0])
        other = None if self.x2 is None else given(self.x2, self.node, self.mask_constant, self.patterns[1])
        if self.fn.draws and other is not None and alike(self.x1, self.x2) is not False:
            return None
        first = one.of_network()
        if first is None or (self.fn.aggregates and one.graphs is None):
            return None
        if isinstance(self.node, Fan) or one.x.ndim < 2:
            return None
        if not _ends_on_a_vector(self.fn, one.x.shape[1:]):
            return None
        return first, None if other is None else other.of_network()

    @cached_property
    def both(self) -> Kernels:
        """The kernels of `nn`."""
        assert self.sides is not None
        return self.fn.network.kernel(*self.sides)

    def one(self, name: str) -> Tree:
        """One entry of the `Kernel`; of several kernels one each."""
        if self.sides is None:
            return _entry(self.kernels, name)
        if name in ("nngp", "ntk"):
            return getattr(self.both, name)
        if name in ("cov1", "cov2"):
            side = self.sides[0 if name == "cov1" else 1]
            return None if side is None else self.fn.network.kernel_diagonal(side).nngp
        return getattr(self.described(None, None, None, None), name)

    def kernel(self) -> Tree:
        """Kernels of all inputs at once, without batches."""
        if self.sides is None:
            return self.kernels
        no_ntk = any(layer.no_ntk is not None for layer in self.fn.layers)
        return self.described(self.one("nngp"), None if no_ntk else self.one("ntk"), self.one("cov1"), self.one("cov2"))

    def described(
        self, nngp: ArrayLike | None, ntk: ArrayLike | None, cov1: ArrayLike | None, cov2: ArrayLike | None
    ) -> Kernel:
        """These with what else is known."""
        found = [signal_and_batch(self.node, x.shape) for x in (self.x1, self.x1 if self.x2 is None else self.x2)]  # type: ignore[union-attr]
        last = self.node.after(found[0][1])
        shapes = [shape_after(self.node, self.node.after(signal), count) for count, signal in found]
        batch, channel = self.fn.axes or (0, -1)
        rank = len(shapes[0])
        return Kernel(
            nngp, ntk, cov1, cov2, alike(self.x1, self.x2), is_gaussian=last.gaussian, shape1=shapes[0],
            shape2=shapes[1], batch_axis=batch % rank, channel_axis=(-1 if channel is None else channel) % rank,
            diagonal_spatial=False,
        )  # fmt: skip

    @cached_property
    def kernels(self) -> Tree:
        """The `Kernel`, or several, layer by layer."""
        return evaluated(
            self.node,
            self.x1,
            self.x2,
            self.mask_constant,
            self.patterns,
            diagonal_batch=self.diagonal_batch is not False,
            spatial=bool(self.diagonal_spatial),
        )


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
