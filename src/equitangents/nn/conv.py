"""Convolutions: y(p) = W_std/√(n|S|) Σ_u W(u) x(stride·p - low + u) + b_std · b."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax

from equitangents._types import DType, Params
from equitangents.kernels.program import Op
from equitangents.nn.compiled_windows import why_not, window_product
from equitangents.nn.layer import Weights, check_parametrisation, described
from equitangents.nn.patches import patches, taps
from equitangents.nn.signal import Signal
from equitangents.nn.window_layer import WindowLayer


@dataclass(frozen=True, repr=False)
class Conv(WindowLayer):
    """A convolution: K'(p,p') = W_std² mean over u of K(p+u, p'+u) + b_std², and Θ' = K' + W_std² mean of Θ.

    Grids of one to three dimensions. `padding`: "circular" (a torus), "zero" (the mean still divides by the whole
    window at borders) or "valid". `window` and `stride`: a number or one for each dimension. `parametrisation`: as
    in `Dense`, with n the inputs of a window, |S| times the channels.
    """

    parametrisation: str = field(default="ntk", repr=False)

    def __repr__(self) -> str:
        return described(self)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parametrisation(self.parametrisation)

    @property
    def weights(self) -> Weights:
        """The scales of weights and bias."""
        return Weights(self.W_std, self.b_std, self.parametrisation)

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
        return self.weights.multiply(params, patches(x, box))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """Mean over the window, then weights and bias."""
        box = self.box(signal)
        return (box, self.weights.affine(taps(box) * signal.channels))
