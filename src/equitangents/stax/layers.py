"""Triples (init_fn, apply_fn, kernel_fn) over the layers of `equitangents.nn`.

Each triple knows the layers that it stands for, so that combinators join these, and kernels are those of one network.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import nn
from equitangents.errors import NetworkError
from equitangents.nn.layer import Layer
from equitangents.nn.sequential import chain
from equitangents.nn.signal import Grid, Signal
from equitangents.structured import Graphs, Masked

Params = Any
_GETS = ("nngp", "ntk", "cov1", "cov2")


class StaxLayer(NamedTuple):
    """What every function of `stax` returns; `init_fn, apply_fn, kernel_fn = layer` takes it apart."""

    init_fn: InitFn
    apply_fn: ApplyFn
    kernel_fn: KernelFn


class InitFn:
    """init_fn(rng, input_shape) gives (output_shape, params); shapes have the batch first, -1 if it is not known."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers

    def __call__(self, rng: jax.Array, input_shape: Sequence[int]) -> tuple[Any, Params]:
        """Random parameters in single precision, and the outputs' shape."""
        batch, *rest = input_shape
        signals = _signals(self.layers, tuple(rest))
        keys = jax.random.split(rng, max(1, len(self.layers)))
        params = tuple(
            la.init(k, s, jnp.dtype("float32")) for la, k, s in zip(self.layers, keys, signals, strict=False)
        )
        last = signals[-1]
        if hasattr(last, "parts"):
            return [(batch, *part.array_shape) for part in last.parts], params
        return (batch, *last.array_shape), params


class ApplyFn:
    """apply_fn(params, x, rng=None, mask_constant=None, pattern=None) gives the finite network's outputs."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers

    def __call__(
        self,
        params: Params,
        inputs: Any,
        rng: Any = None,
        mask_constant: float | None = None,
        pattern: Any = None,
        **keywords: Any,
    ) -> Any:
        """The finite network's outputs; `rng` is for dropout, `pattern` are graphs."""
        refuse_keywords("apply_fn", keywords)
        net = nn.Sequential(*(self.layers or (nn.Identity(),)))
        params = params if self.layers else ((),)
        return net.apply(params, structured(inputs, mask_constant, pattern), key=rng)


class KernelFn:
    """kernel_fn(x1, x2=None, get=None) gives kernels of the infinitely wide network.

    `get`: "nngp", "ntk", "cov1" or "cov2" gives an array, a tuple of these a named tuple, None one with all of them.
    """

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers

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
        **keywords: Any,
    ) -> Any:
        """Kernels between x1 and x2 (None: x1), each (N1, N2)."""
        if hasattr(x1, "nngp"):
            raise NotImplementedError(
                "kernel_fn takes inputs, not the Kernel of another network; join the networks by stax.serial, or in "
                "equitangents.nn write one Sequential"
            )
        refuse_keywords("kernel_fn", {k: v for k, v in keywords.items() if k not in ("diagonal_batch", "x1_is_x2")})
        patterns = pattern if isinstance(pattern, tuple | list) else (pattern, pattern)
        a = structured(x1, mask_constant, patterns[0])
        b = None if x2 is None else structured(x2, mask_constant, patterns[1])
        return Reading(self.network, a, b).get(get)


@lru_cache(maxsize=64)
def _kernel_of(names: tuple[str, ...]) -> Any:
    return namedtuple("Kernel", names)


class Reading:
    """The kernels between two sets of inputs, computed as far as they are asked for."""

    def __init__(self, net: nn.Sequential, x1: Any, x2: Any) -> None:
        self._net, self._x1, self._x2 = net, x1, x2
        self._both: Any = None

    def get(self, names: str | Sequence[str] | None) -> Any:
        """One array, or a named tuple of several."""
        if isinstance(names, str):
            return self._one(names)
        names = _GETS if names is None else tuple(names)
        return _kernel_of(names)(*map(self._one, names))

    def _one(self, name: str) -> Any:
        if name not in _GETS:
            raise NotImplementedError(
                f"get={name!r} is not there; kernel_fn gives {', '.join(_GETS)}. For one number an input use "
                "kernel_diagonal of an equitangents.nn network"
            )
        try:
            if name in ("cov1", "cov2"):
                inputs = self._x1 if name == "cov1" else self._x2
                return None if inputs is None else self._net.kernel_diagonal(inputs).nngp
            if self._both is None:
                self._both = self._net.kernel(self._x1, self._x2)
            return getattr(self._both, name)
        except NetworkError as error:
            if "its kernel is a field" not in str(error):
                raise
            raise NotImplementedError(
                "kernel_fn gives no kernels between positions; kernel_fn.network.kernel_field(x1, x2) does, or end the "
                "network with Flatten() or GlobalAvgPool()"
            ) from error


def triple(*layers: Layer) -> StaxLayer:
    """The triple of some layers, one after another."""
    return StaxLayer(InitFn(layers), ApplyFn(layers), KernelFn(layers))


def layers_of(name: str, layer: Any) -> tuple[Layer, ...]:
    """The layers that a triple stands for."""
    found = getattr(layer[2], "layers", None) if isinstance(layer, tuple) and len(layer) == 3 else None
    if found is None:
        raise NotImplementedError(
            f"{name} is {layer!r}; expected a triple of equitangents.stax. A layer of your own is a class: see "
            "equitangents.nn.Layer"
        )
    return tuple(found)


def structured(x: Any, mask_constant: float | None, pattern: Any) -> Any:
    """Inputs whose entries `mask_constant` mark missing positions, and with graphs."""
    if isinstance(x, Masked | Graphs) or (mask_constant is None and pattern is None):
        return x
    xp = jnp if isinstance(x, jax.Array) else np
    mask: Any = None
    if mask_constant is not None:
        missing = xp.isnan(x) if np.isnan(mask_constant) else x == mask_constant
        mask = ~missing.all(axis=-1)
        x = xp.where(mask[..., None], x, 0)
    if pattern is not None:
        return Graphs(x, pattern, mask)
    return Masked(x, mask)


def refuse_keywords(name: str, keywords: dict[str, Any]) -> None:
    """Raise NotImplementedError for arguments that have no counterpart."""
    if keywords:
        raise NotImplementedError(f"{name} does not take {', '.join(map(repr, keywords))} here")


def _signals(layers: tuple[Layer, ...], shape: tuple[int, ...]) -> Any:
    return chain(layers, Signal(Grid(shape[:-1]), shape[-1], given=True))


Make = Callable[..., StaxLayer]
