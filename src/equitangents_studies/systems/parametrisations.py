"""The same functions from other parameters: the standard parametrisation, and first layers drawn from other laws.

ntk        y = σ_w/√n W x + σ_b b, gradients by W and b, which are N(0, 1)
standard   y = V x + a, gradients by V = σ_w/√n W and a = σ_b b
uniform    the first layer's W uniform on [−√3, √3], of variance 1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.extending import ArrayLike, DType, Params, precision
from equitangents.nn import Conv, Dense, Layer, LocallyConnected, Sequential

LINEAR = (Conv, Dense, LocallyConnected)
"""Layers whose weights are (…, fan-in, channels)."""
_TAG = 0x756E_6966  # folded into the key, so that the uniform weights are drawn nowhere else


@final
@dataclass(frozen=True)
class Reparametrised:
    """A network of Conv, LocallyConnected and Dense layers in another parametrisation; hashable, with init and apply.

    Args:
        net: the network in NTK parametrisation.
        parametrisation: "ntk" or "standard".
        first_layer: "gaussian" or "uniform".
    """

    net: Sequential
    parametrisation: str = "standard"
    first_layer: str = "gaussian"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, first to last."""
        return self.net.layers

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Parameters as they are trained, one entry a layer."""
        params = self.net.init(key, input_shape, dtype)
        if self.first_layer == "uniform":
            i = first_linear(self.net)
            with precision.scope(dtype):
                draw = jax.random.uniform(
                    jax.random.fold_in(key, _TAG), params[i]["w"].shape, dtype, -math.sqrt(3), math.sqrt(3)
                )
            params = (*params[:i], params[i] | {"w": draw}, *params[i + 1 :])
        with precision.scope(dtype):
            return self._scaled(params, 1)

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """Outputs (N, outputs) for x (N, *positions, channels)."""
        with precision.scope(jax.tree.leaves(params)[0].dtype):
            return self.net.apply(self._scaled(params, -1), x)

    def _scaled(self, params: Params, power: int) -> Any:
        """Parameters times the scales of their layers, to this power; in NTK parametrisation as they are."""
        if self.parametrisation == "ntk":
            return params
        scaled: list[Any] = []
        for layer, p in zip(self.net.layers, params, strict=True):
            if not p:
                scaled.append(p)
                continue
            if not isinstance(layer, LINEAR):
                raise NetworkError(f"{layer!r} has no standard parametrisation; expected Conv, LocallyConnected, Dense")
            if layer.W_std == 0:
                raise NetworkError(f"{layer!r} has W_std = 0, so that its weights have no standard parametrisation")
            weights = {"w": p["w"] * (layer.W_std / math.sqrt(p["w"].shape[-2])) ** power}
            scaled.append(weights | ({"b": p["b"] * layer.b_std**power} if "b" in p else {}))
        return tuple(scaled)


def first_linear(net: Sequential | Reparametrised) -> int:
    """The number of the first layer that has weights."""
    for i, layer in enumerate(net.layers):
        if isinstance(layer, LINEAR):
            return i
        if type(layer).__name__ != "Flatten":
            break
    raise NetworkError(f"the network {net!r} does not begin with Conv, LocallyConnected or Dense")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise InvalidArgumentError unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgumentError(f"{name} is {value!r}; expected {' or '.join(map(repr, choices))}")


def like(reference: Any, value: np.ndarray) -> Any:
    """`value` as an array of the type and precision of `reference`."""
    array = np.asarray(value, np.dtype(reference.dtype))
    if not isinstance(reference, jax.Array):
        return array
    with precision.scope(array.dtype):
        return jax.numpy.asarray(array)
