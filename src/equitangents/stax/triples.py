"""Triples (init_fn, apply_fn, kernel_fn) over the layers of `equitangents.nn`.

Each triple holds its tree of layers, which combinators join. Kernels are computed by the engines of a network of `nn`
if there is one, else layer by layer in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from equitangents import nn, precision
from equitangents._types import DType, Params, Tree
from equitangents.functional import named, names_of
from equitangents.nn.layer import Layer, Structure
from equitangents.nn.sequential import chain, naming_misfits, run_layers, why_no_ntk
from equitangents.stax.by_layers import evaluated
from equitangents.stax.kernel import (
    NAMES,
    Input,
    Kernel,
    alike,
    branches_of,
    moved,
    raw_inputs,
    refuse_keywords,
    shape_after,
    sides,
    signal_and_batch,
    signal_of,
)
from equitangents.stax.tree import Axes, LayerGroup, Leaf, Node, Pattern, Signals, after
from equitangents.structured import NEURAL_TANGENTS

_SEVERAL = tuple, list  # every call asks, and to make unions of types takes longer than to ask
_BETWEEN = frozenset(("nngp", "ntk"))
_ENTRIES = _BETWEEN | {"cov1", "cov2"}


class OfTree:
    """One of the three functions of a triple, for the tree `node`."""

    def __init__(self, node: Node) -> None:
        self.node, self.__name__ = node, node.name

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The corresponding layers of `nn`."""
        return self.node.layers()

    @cached_property
    def axes(self) -> Axes | None:
        """Batch and channel axes of the output, for inputs with the axes of the first layer.

        Raises InvalidArgumentError if layers do not fit one another.
        """
        return self.node.axes_after(self.node.axes_before)

    @cached_property
    def dropouts(self) -> list[nn.Dropout]:
        """All dropout layers."""
        return [layer for leaf in self.node.leaves for layer in leaf.own if isinstance(layer, nn.Dropout)]


class KernelFn(OfTree):
    """kernel_fn(x1, x2=None, get=None) gives kernels of the infinitely wide network.

    `get`: "nngp", "ntk", "cov1", "cov2", or another field of `Kernel` returns that field, a tuple of names a named
    tuple, None a `Kernel`. In place of inputs it takes the `Kernel` of another kernel_fn. Networks that end on
    positions have kernels between positions: (N1, N2, H, H, W, W, …).
    """

    @cached_property
    def network(self) -> nn.Sequential:
        """The network of `equitangents.nn` with this kernel."""
        return nn.Sequential(*(self.layers or (nn.Identity(),)))

    def __call__(
        self,
        x1: Tree,
        x2: Tree = None,
        get: str | Sequence[str] | None = None,
        *,
        mask_constant: float | None = None,
        pattern: Tree = None,
        **keywords: Tree,
    ) -> Tree:
        """Kernels between x1 and x2 (None: x1), or the layers applied to a `Kernel`."""
        if keywords:
            refuse_keywords("kernel_fn", [k for k, v in keywords.items() if not _unread(k, v)])
        names = () if get is None else names_of(get, *NAMES)
        patterns = tuple(pattern) if isinstance(pattern, _SEVERAL) else (pattern, pattern)
        both = self._sides(x1, x2, mask_constant, patterns)
        if both is None:
            found = evaluated(self.node, x1, x2, mask_constant, patterns)
        else:
            found = self._of_network(x1, x2, both, names)
        if get is None:
            return found
        entries = lambda kernel: named(get, names, [getattr(kernel, name) for name in names], "AnalyticKernel")
        return type(found)(map(entries, found)) if isinstance(found, _SEVERAL) else entries(found)

    def _sides(
        self, x1: Tree, x2: Tree, mask_constant: float | None, patterns: tuple[Tree, ...]
    ) -> tuple[Input, Input | None] | None:
        """Both sets of inputs as inputs of a network of `nn`, or None if impossible."""
        _ = self.axes  # layers fit one another
        if isinstance(x1, (*_SEVERAL, Kernel)):
            return None
        one = raw_inputs(x1, self.node, mask_constant, patterns[0])
        other = None if x2 is None else raw_inputs(x2, self.node, mask_constant, patterns[1])
        if self.dropouts and other is not None and alike((x1,), (x2,)) is not False:
            return None
        first = one.of_network()
        if first is None or (one.graphs is None and any(leaf.pattern is not None for leaf in self.node.leaves)):
            return None
        if getattr(self.node, "parallel", False) or not _ends_on_a_vector(self, one.x.shape[1:]):
            return None
        return first, None if other is None else other.of_network()

    def _of_network(
        self, x1: Input, x2: Input | None, both: tuple[Input, Input | None], names: tuple[str, ...]
    ) -> Kernel:
        """The `Kernel` of a network of `nn`, without batching; only the fields in `names`, if any."""
        wanted = names or ("nngp", *(() if why_no_ntk(self.layers) else ("ntk",)), "cov1", "cov2")
        between = None if _BETWEEN.isdisjoint(wanted) else self.network.kernel(*both)
        nngp, ntk = (getattr(between, name) if name in wanted else None for name in ("nngp", "ntk"))
        own = (side if name in wanted else None for name, side in zip(("cov1", "cov2"), both, strict=True))
        cov1, cov2 = (None if x is None else self.network.kernel_diagonal(x).nngp for x in own)
        found = Kernel(nngp, ntk, cov1, cov2)
        if names and _ENTRIES.issuperset(names):
            return found
        read = [signal_and_batch(self.node, x.shape) for x in (x1, x1 if x2 is None else x2)]
        shapes = [shape_after(self.node, after(self.node, signal), count) for count, signal in read]
        batch, channel = self.axes or (0, -1)
        rank = len(shapes[0])
        return found.replace(
            x1_is_x2=alike((x1,), (x2,)), is_gaussian=after(self.node, read[0][1]).gaussian, shape1=shapes[0],
            shape2=shapes[1], batch_axis=batch % rank, channel_axis=(-1 if channel is None else channel) % rank,
        )  # fmt: skip


def _unread(name: str, value: Tree) -> bool:
    """Whether an argument of neural-tangents has the value that always holds here."""
    usual = {"diagonal_batch": True, "diagonal_spatial": False}
    return name in ("x1_is_x2", "rng") or (name in usual and value in (None, usual[name]))


@lru_cache(maxsize=64)
def _ends_on_a_vector(fn: KernelFn, input_shape: tuple[int, ...]) -> bool:
    last = after(fn.node, signal_of(input_shape))
    return not last.several and last.positions.shape == ()


class StaxLayer(NamedTuple):
    """The triple returned by every function of `stax`: `init_fn, apply_fn, kernel_fn = layer`."""

    init_fn: InitFn
    apply_fn: ApplyFn
    kernel_fn: KernelFn


class InitFn(OfTree):
    """init_fn(rng, input_shape) gives (output_shape, params); shapes have the batch first, −1 if unknown."""

    def __call__(self, rng: jax.Array, input_shape: Tree) -> tuple[Tree, Params]:
        """The outputs' shape, and random parameters, in double precision if JAX has it enabled.

        Shapes of several inputs are a tuple or a list.
        """
        batch, signal = signal_and_batch(self.node, input_shape)
        params = self.node.init(rng, signal, jnp.asarray(1.0).dtype)
        return shape_after(self.node, after(self.node, signal), batch), params


class ApplyFn(OfTree):
    """apply_fn(params, x, rng=None, mask_constant=None, pattern=None) gives the finite network's outputs."""

    @property
    def draws(self) -> bool:
        """Whether `rng` is used: for dropout in training."""
        return any(layer.mode == "train" for layer in self.dropouts)

    def __call__(
        self,
        params: Params,
        inputs: Tree,
        rng: jax.Array | None = None,
        mask_constant: float | None = None,
        pattern: Tree = None,
        **keywords: Tree,
    ) -> Tree:
        """The finite network's outputs, in the precision of the parameters; several in the inputs' container.

        `rng` (or `keys`) is for dropout, `pattern` holds graphs.
        """
        rng = keywords.pop("keys", None) if rng is None else rng
        refuse_keywords("apply_fn", keywords)
        flat, leaves = self.node.flattened(params), jax.tree.leaves(params)
        dtype = leaves[0].dtype if leaves else precision.working_dtype(*jax.tree.leaves(inputs))
        with precision.scope(dtype):
            x, signal, structures = _begun(self.node, inputs, dtype, rng, mask_constant, pattern)
            reads = any(b.graphs is not None for b in (structures if isinstance(structures, tuple) else (structures,)))
            layers = self.node.layers(graphs=reads)
            signals = chain(layers, signal)  # type: ignore[arg-type]
            with naming_misfits(layers, flat, signals):
                y, _ = run_layers(layers, flat, x, structures, signals)
        if not isinstance(y, tuple):
            return moved(y, self.axes, back=True)
        kind = type(inputs) if isinstance(inputs, _SEVERAL) else tuple
        return kind(moved(part, self.axes, back=True) for part in y)


def _begun(
    node: Node, inputs: Tree, dtype: DType, key: jax.Array | None, mask_constant: float | None, pattern: Tree
) -> tuple[Tree, Signals, Tree]:
    """(arrays, their signal, their structure) of one input, or of several as branches."""
    if isinstance(inputs, _SEVERAL):
        nodes, several, _ = sides(node, inputs)
        keys = [None] * len(several) if key is None else list(jax.random.split(key, len(several)))
        found = [_begun(c, x, dtype, k, mask_constant, pattern) for c, x, k in zip(nodes, several, keys, strict=True)]
        xs, signals, structures = zip(*found, strict=True)
        return xs, branches_of(signals), structures
    one = raw_inputs(inputs, node, mask_constant, pattern)
    x = jnp.asarray(one.x, dtype)
    graphs = None if one.graphs is None else jnp.asarray(one.graphs, dtype)
    convention = NEURAL_TANGENTS if one.own is None else one.own.convention
    return x, signal_of(x.shape[1:]), Structure(one.mask, graphs, key, convention)


def of_node(node: Node) -> StaxLayer:
    """The triple of a tree of layers.

    NotImplementedError if it concatenates channels that are not last: the axis may be one of positions.
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
    """The triple of one leaf: a sequence of layers of `nn`, at most one of them with parameters."""
    return of_node(Leaf(name, layers, before, before if after is None else after, pattern))


def _nodes(names: str, layers: Sequence[StaxLayer]) -> tuple[Node, ...]:
    """The trees of the triples."""
    found = []
    for i, layer in enumerate(layers):
        node = getattr(layer[2], "node", None) if isinstance(layer, tuple) and len(layer) == 3 else None
        if node is None:
            raise NotImplementedError(
                f"{names}[{i}] is {layer!r}; expected a triple of equitangents.stax. A layer of your own is a class: "
                "see equitangents.nn.Layer"
            )
        found.append(node)
    return tuple(found)


def serial(*layers: StaxLayer) -> StaxLayer:
    """`nn.Sequential`: layers one after another; parameters are a tuple with one entry per layer."""
    return of_node(LayerGroup("serial", _nodes("layers", layers)))


def parallel(*layers: StaxLayer) -> StaxLayer:
    """`nn.Parallel`: one layer for each signal of `FanOut`, or for each of several inputs."""
    return of_node(LayerGroup("parallel", _nodes("layers", layers), parallel=True))


def repeat(layer: StaxLayer, n: int) -> StaxLayer:
    """The layer n times one after another, with independent weights each time; the identity for n = 0."""
    return of_node(LayerGroup("repeat", _nodes("layer", [layer]) * n))
