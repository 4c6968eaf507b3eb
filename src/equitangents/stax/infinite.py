"""kernel_fn of a tree of layers: by the engines of a network of `nn` where there is one, else layer by layer in JAX."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

from equitangents import nn
from equitangents._types import ArrayLike, Tree
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.result import Kernels
from equitangents.nn.layer import Layer
from equitangents.stax.by_layers import evaluated
from equitangents.stax.inputs import Input, Inputs, alike, given, refuse_keywords, shape_after, signal_and_batch
from equitangents.stax.kernel import NAMES, Kernel
from equitangents.stax.tree import Axes, Fan, Node, OfTree, signal_of

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
