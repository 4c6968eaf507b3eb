"""kernel_fn of a tree of layers: by the engines of a network of `nn` where there is one, else layer by layer in JAX."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents import nn, precision
from equitangents.errors import InvalidArgumentError
from equitangents.stax.by_layers import evaluated
from equitangents.stax.finite import shape_after, signal_and_batch
from equitangents.stax.inputs import Given, given, refuse_keywords
from equitangents.stax.kernel import NAMES, Kernel
from equitangents.stax.nodes import Fan, Node, axes_after, axes_before, layers_of, leaves
from equitangents.stax.signals import after, signal_of
from equitangents.structured import Graphs, Masked

_SAME = 1e-12  # inputs that differ by less are one, as in neural-tangents


class KernelFn:
    """kernel_fn(x1, x2=None, get=None) gives kernels of the infinitely wide network.

    `get`: "nngp", "ntk", "cov1", "cov2", or another name of `Kernel`, gives that, a tuple of these a named tuple, None
    a `Kernel`. In place of inputs it takes the `Kernel` of another kernel_fn. Networks that end on positions have
    kernels between these: (N1, N2, H, H, W, W, …), with diagonal_spatial=True (N1, N2, H, W, …).
    """

    def __init__(self, node: Node) -> None:
        self.node, self.__name__ = node, node.name

    @property
    def layers(self) -> tuple[Any, ...]:
        """The layers of `nn` that it stands for."""
        return layers_of(self.node)

    @cached_property
    def network(self) -> nn.Sequential:
        """The network of `equitangents.nn` that this is the kernel of."""
        return nn.Sequential(*(self.layers or (nn.Identity(),)))

    def __call__(
        self,
        x1: Any,
        x2: Any = None,
        get: str | Sequence[str] | None = None,
        *,
        mask_constant: float | None = None,
        pattern: Any = None,
        diagonal_batch: bool | None = None,
        diagonal_spatial: bool | None = None,
        **keywords: Any,
    ) -> Any:
        """Kernels between x1 and x2 (None: x1), or what the layers make of a `Kernel`."""
        refuse_keywords("kernel_fn", {k: v for k, v in keywords.items() if k not in ("x1_is_x2", "rng")})
        names = _checked(get)
        asked = Asked(self, x1, x2, mask_constant, pattern, diagonal_batch, diagonal_spatial)
        if isinstance(get, str):
            return asked.one(names[0])
        if get is None:
            return asked.kernel()
        found = [asked.one(name) for name in names]
        if found and isinstance(found[0], tuple | list) and isinstance(asked.kernels, tuple | list):
            return type(found[0])(_kernel_of(names)(*parts) for parts in zip(*found, strict=True))
        return _kernel_of(names)(*found)


@lru_cache(maxsize=64)
def _kernel_of(names: tuple[str, ...]) -> Any:
    return namedtuple("AnalyticKernel", names)


def _checked(get: Any) -> tuple[str, ...]:
    names = () if get is None else (get,) if isinstance(get, str) else tuple(get)
    for name in names:
        if str(name).lower() not in NAMES:
            raise InvalidArgumentError(f"get is {name!r}; expected one of {', '.join(NAMES)}")
    return tuple(str(name).lower() for name in names)


class Asked:
    """One call of a kernel_fn: what is asked for is computed when it is."""

    def __init__(
        self, fn: KernelFn, x1: Any, x2: Any, mask_constant: Any, pattern: Any, batch: bool | None, spatial: bool | None
    ) -> None:
        self.fn, self.x1, self.x2 = fn, x1, x2
        self.mask_constant, self.diagonal_batch, self.diagonal_spatial = mask_constant, batch, spatial
        self.patterns = pattern if isinstance(pattern, tuple | list) else (pattern, pattern)
        if diagonal_conflict(fn.node, x1, spatial):
            raise InvalidArgumentError(
                "diagonal_spatial is True, but the network pools over positions, for which kernels between different "
                "ones are needed"
            )

    @cached_property
    def sides(self) -> tuple[Given, Given | None] | None:
        """Both sets of inputs, where a network of `nn` takes them; else None."""
        if isinstance(self.x1, tuple | list | Kernel) or self.diagonal_batch is False:
            return None
        axes = axes_before(self.fn.node)
        axes_after(self.fn.node, axes)
        one = given(self.x1, self.fn.node, self.mask_constant, self.patterns[0])
        other = None if self.x2 is None else given(self.x2, self.fn.node, self.mask_constant, self.patterns[1])
        drawn = any(isinstance(layer, nn.Dropout) for layer in self.fn.layers)
        if drawn and other is not None and _alike(self.x1, self.x2) is not False:
            return None
        if one.of_network() is None or (
            any(leaf.name == "Aggregate" for leaf in leaves(self.fn.node)) and one.graphs is None
        ):
            return None
        if isinstance(self.fn.node, Fan) or one.x.ndim < 2:
            return None
        last = after(self.fn.node, signal_of(one.x.shape[1:]))
        if hasattr(last, "parts") or last.positions.shape != ():
            return None
        return one, other

    @cached_property
    def both(self) -> Any:
        """The kernels of `nn`."""
        assert self.sides is not None
        one, other = self.sides
        return self.fn.network.kernel(one.of_network(), None if other is None else other.of_network())

    def one(self, name: str) -> Any:
        """One entry of the `Kernel`; of several kernels one each."""
        if self.sides is None:
            return _entry(self.kernels, name)
        if name in ("nngp", "ntk"):
            return getattr(self.both, name)
        if name in ("cov1", "cov2"):
            side = self.sides[0 if name == "cov1" else 1]
            return None if side is None else self.fn.network.kernel_diagonal(side.of_network()).nngp
        return getattr(self.described(None, None, None, None), name)

    def kernel(self) -> Any:
        """Kernels of all inputs at once, without batches."""
        if self.sides is None:
            return self.kernels
        no_ntk = any(layer.no_ntk is not None for layer in self.fn.layers)
        return self.described(self.one("nngp"), None if no_ntk else self.one("ntk"), self.one("cov1"), self.one("cov2"))

    def described(self, nngp: Any, ntk: Any, cov1: Any, cov2: Any) -> Kernel:
        """These with what else is known."""
        node = self.fn.node
        shapes = []
        for x in (self.x1, self.x1 if self.x2 is None else self.x2):
            batch, signal = signal_and_batch(node, x.shape)
            shapes.append(shape_after(node, after(node, signal), batch))
        axes = axes_after(node, axes_before(node)) or (0, -1)
        last = after(node, signal_and_batch(node, self.x1.shape)[1])
        rank = len(shapes[0])
        return Kernel(
            nngp, ntk, cov1, cov2, _alike(self.x1, self.x2), is_gaussian=last.gaussian, shape1=shapes[0],
            shape2=shapes[1], batch_axis=axes[0] % rank, channel_axis=(-1 if axes[1] is None else axes[1]) % rank,
            diagonal_spatial=False,
        )  # fmt: skip

    @cached_property
    def kernels(self) -> Any:
        """The `Kernel`, or several, layer by layer."""
        return evaluated(
            self.fn.node, self.x1, self.x2, _alike, self.mask_constant, self.patterns,
            self.diagonal_batch is not False, bool(self.diagonal_spatial),
        )  # fmt: skip


def diagonal_conflict(node: Node, x1: Any, spatial: bool | None) -> bool:
    """Whether kernels of positions with themselves alone do not lead to the result."""
    held = spatial
    if isinstance(x1, Kernel):
        held = x1.diagonal_spatial and len(x1.shape1) > 2
    if not held:
        return False
    layers = [layer for leaf in leaves(node) for layer in leaf.layers]
    on_grid = True
    if hasattr(x1, "shape"):
        on_grid = len(x1.shape) > 2
    for layer in layers:
        if isinstance(layer, nn.Flatten):
            return False
        if on_grid and isinstance(layer, _POOLS) and any(_has_weights(b) for b in layers[: layers.index(layer)]):
            return True
        if isinstance(layer, nn.GlobalAvgPool | nn.GlobalSumPool):
            on_grid = isinstance(x1, Kernel)
    return isinstance(x1, Kernel) and any(isinstance(layer, _POOLS) for layer in layers)


_POOLS = nn.AvgPool | nn.SumPool | nn.GlobalAvgPool | nn.GlobalSumPool | nn.Attention | nn.Aggregate


def _has_weights(layer: Any) -> bool:
    return isinstance(layer, nn.Dense | nn.Conv | nn.Attention)


def _alike(x1: Any, x2: Any) -> Any:
    """Whether both sets of inputs are one; a JAX number where they are traced; of `Masked` ones only if given once."""
    if x2 is None or x2 is x1:
        return True
    if isinstance(x1, Masked | Graphs) or isinstance(x2, Masked | Graphs):
        return False
    if getattr(x1, "shape", ()) != getattr(x2, "shape", None):
        return False
    if precision.is_traced(x1) or precision.is_traced(x2):
        return jnp.all(jnp.abs(x1 - x2) < _SAME)
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(np.asarray(x1) - np.asarray(x2)) < _SAME))


def _entry(kernels: Any, name: str) -> Any:
    if isinstance(kernels, Kernel):
        return getattr(kernels, name)
    return type(kernels)(_entry(part, name) for part in kernels)
