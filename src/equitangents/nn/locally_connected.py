"""Locally connected layers: a convolution whose weights and bias differ from position to position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.kernels.program import Affine, Decouple, Op
from equitangents.nn.layer import Layer, Weights, check_count, check_scale
from equitangents.nn.patches import Window, check_padding, check_sizes, grid_shape, patches, taps
from equitangents.nn.signal import Grid, Signal


@dataclass(frozen=True)
class LocallyConnected(Layer):
    """As Conv where p = p'; K' = Θ' = 0 where p ≠ p', for different positions share neither weights nor bias."""

    channels: int
    window: tuple[int, ...] | int
    stride: tuple[int, ...] | int = 1
    padding: str = "circular"
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        check_count("channels", self.channels)
        object.__setattr__(self, "window", check_sizes("window", self.window))
        object.__setattr__(self, "stride", check_sizes("stride", self.stride))
        check_padding(self.padding)
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)

    def _box(self, signal: Signal) -> Any:
        return Window(self.window, self.stride, self.padding).box(grid_shape(signal))

    def signal(self, signal: Signal) -> Signal:
        """The grid that the windows leave, Gaussian."""
        return Signal(Grid(self._box(signal).out_shape), self.channels, gaussian=True)

    def init(self, key: jax.Array, signal: Signal, dtype: Any) -> Any:
        """w (positions, |S|·n, channels), b (positions, channels)."""
        box = self._box(signal)
        positions = int(np.prod(box.out_shape))
        shape = (positions, taps(box) * signal.channels, self.channels)
        return Weights(self.W_std, self.b_std).init(key, shape, (positions, self.channels), dtype)

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        """Each position's patch times its own weights."""
        weights, box = Weights(self.W_std, self.b_std), self._box(signal)
        fan_in = taps(box) * signal.channels
        cut = patches(x, box).reshape((x.shape[0], -1, fan_in))
        y = weights.add_bias(params, jnp.einsum("npi,pio->npo", cut, weights.scaled(params, fan_in)))
        return y.reshape((x.shape[0], *box.out_shape, self.channels))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """A convolution, then nothing shared between positions."""
        return (self._box(signal), Affine(self.W_std**2, self.b_std**2), Decouple())
