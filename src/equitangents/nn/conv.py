"""Convolutions: y(p) = W_std/√(n|S|) Σ_u W(u) x(stride·p - low + u) + b_std · b."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from equitangents._types import DType, Params
from equitangents.kernels.program import Op
from equitangents.nn.compiled_windows import why_not, window_product
from equitangents.nn.patches import patches, taps
from equitangents.nn.signal import Signal
from equitangents.nn.window_layer import WindowLayer


@dataclass(frozen=True, repr=False)
class Conv(WindowLayer):
    """A convolution: K'(p,p') = W_std² mean over u of K(p+u, p'+u) + b_std², and Θ' = K' + W_std² mean of Θ.

    Grids of one to three dimensions. `padding`: "circular" (a torus), "zero" (the mean still divides by the whole
    window at borders) or "valid". `window` and `stride`: a number or one for each dimension. `parametrisation`,
    `bias` and `width_scale`: as in `Dense`, with n the inputs of a window, |S| times the channels.
    """

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """w (|S|·n, channels), b (channels,)."""
        shape = (taps(self.box(signal)) * signal.channels, self.channels)
        return self.weights.init(key, shape, (self.channels,), dtype)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Every window's values times the weights, plus the bias; in training by `compiled_windows` where these can."""
        box = self.box(signal)
        if why_not(box, x.dtype) is None:
            w = self.weights.scaled(params, taps(box) * signal.channels)
            return self.weights.add_bias(params, window_product(x, w, box))
        return self.combined(params, patches(x, box), signal)

    def combined(self, params: Params, cut: jax.Array, signal: Signal) -> jax.Array:
        """Window values times the weights, plus the bias."""
        return self.weights.multiply(params, cut)

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """Mean over the window, then weights and bias."""
        box = self.box(signal)
        return (box, self.weights.affine(taps(box) * signal.channels))
