"""Functions of NumPy or JAX arrays, networks of this library with their parameters, and kernels.

Of a kernel the functions Θ(·, z) of some inputs z are audited, of which every prediction by it is a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import jax
import numpy as np

from equitangents import precision
from equitangents._types import Params, Tree
from equitangents.audit.adapters.model import Keep, LayerTrace, Model, arguments
from equitangents.nn import Sequential


def in_double(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function where JAX computes in double precision, its outputs as NumPy arrays."""

    def wide(x: Tree) -> Tree:
        with precision.scope(np.float64):
            return jax.tree.map(np.asarray, run(x))

    return wide


@final
class CallableModel(Model):
    """A batched function; a tuple of inputs is given as several arguments."""

    kind = "callable"
    foreign = False
    streams = True

    def __init__(self, function: Callable[..., Any], layers: Sequence[Any] | None = None):
        self.function = function
        self.layers = None if layers is None else [_named(i, layer) for i, layer in enumerate(layers)]
        self.fixed_batch = _compiled_batch(function)
        name = getattr(function, "__name__", type(function).__name__)
        self.name = "the function" if name == "<lambda>" else name

    def run(self, x: Tree) -> Tree:
        """What the function returns for x, or for its parts where x is a tuple."""
        return self.function(*arguments(x))

    def double(self) -> Callable[[Any], Any]:
        """The function where JAX computes in double precision, too."""
        return in_double(self.run)

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """The functions that were given as layers, one after another."""
        if self.layers is None:
            return None
        traces = []
        for i, (name, layer) in enumerate(self.layers):
            before = keep(np.asarray(x)) if not isinstance(x, tuple | dict | list) else None
            x = layer(x) if i else layer(*arguments(x))
            traces.append(LayerTrace(name, type(layer).__name__, before, keep(np.asarray(jax.tree.leaves(x)[0]))))
        return traces


@final
class NetworkModel(Model):
    """A network of `equitangents.nn` with its parameters."""

    kind = "network"
    streams = True

    def __init__(self, net: Sequential, params: Params):
        self.net, self.params = net, params
        self.name = f"Sequential of {len(net.layers)} layers"

    def run(self, x: Tree) -> Tree:
        """What the network computes with its parameters."""
        return _applied(self.net, self.params, x)

    def double(self) -> Callable[[Any], Any]:
        """The network with its parameters in double precision."""
        wide = lambda a: np.asarray(a, np.float64)
        return in_double(lambda x: self.net.apply(jax.tree.map(wide, self.params), wide(x)))

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace]:
        """What every layer returns, from first to last."""
        traces = []
        signals = self.net.signals(np.shape(x)[1:])
        for i, (layer, p, signal) in enumerate(zip(self.net.layers, self.params, signals, strict=False)):
            before, x = x, layer.apply(p, jax.numpy.asarray(x), signal)
            kind = type(layer).__name__
            traces.append(LayerTrace(f"{i}: {kind}", kind, keep(np.asarray(before)), keep(np.asarray(x))))
        return traces


@partial(jax.jit, static_argnums=0)
def _applied(net: Sequential, params: Params, x: Tree) -> Tree:
    """Compiled once for equal networks and the same shapes: an audit of other parameters compiles nothing again."""
    return net.apply(params, x)


def _compiled_batch(function: Any) -> int | None:
    """The rows that a compiled function of JAX (`jax.jit(f).lower(x).compile()`) takes; None for others."""
    if not isinstance(function, jax.stages.Compiled):
        return None
    shapes = [aval.shape for aval in jax.tree.leaves(function.in_avals) if aval.shape]
    return int(shapes[0][0]) if shapes else None


def _named(i: int, layer: Any) -> tuple[str, Callable[[Any], Any]]:
    if isinstance(layer, tuple):
        return str(layer[0]), layer[1]
    return f"{i}: {getattr(layer, '__name__', type(layer).__name__)}", layer


_FIXED = 16  # inputs z, at most: the first that are seen


@final
class KernelModel(Model):
    """Anything with `kernel(x1, x2)` that is no network: such as `EmpiricalKernel` and `orbit_average`.

    Where all Θ(·, z) are invariant, so is whatever is learnt by the kernel, from any data.
    """

    kind = "kernel"

    def __init__(self, kernel: Any) -> None:
        self.source = kernel
        self.name = type(kernel).__name__
        self._fixed: np.ndarray | None = None

    def run(self, x: Tree) -> Tree:
        """Θ(x, z), (N, inputs z)."""
        if self._fixed is None:
            self._fixed = np.array(x[:_FIXED])
        return np.asarray(self.source.kernel(np.asarray(x), self._fixed).ntk)
