"""Convolutions: y(p) = W_std/√(n|S|) Σ_u W(u) x(stride·p - low + u) + b_std · b."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from equitangents.kernels.program import Affine, Op
from equitangents.nn.layer import Layer, Weights, check_count, check_scale
from equitangents.nn.patches import Window, check_padding, check_sizes, grid_shape, patches, taps
from equitangents.nn.signal import Grid, Signal


@dataclass(frozen=True)
class Conv(Layer):
    """K'(p,p') = W_std² mean over u of K(p+u, p'+u) + b_std², and Θ' = K' + W_std² mean of Θ.

    Grids of one to three dimensions. `padding`: "circular" (a torus), "zero" (the mean still divides by the whole
    window at borders) or "valid". `window` and `stride`: a number or one for each dimension.
    """

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
        """w (|S|·n, channels), b (channels,)."""
        shape = (taps(self._box(signal)) * signal.channels, self.channels)
        return Weights(self.W_std, self.b_std).init(key, shape, (self.channels,), dtype)

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        """Patches times weights."""
        return Weights(self.W_std, self.b_std).multiply(params, patches(x, self._box(signal)))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """Mean over the window, then weights and bias."""
        return (self._box(signal), Affine(self.W_std**2, self.b_std**2))
