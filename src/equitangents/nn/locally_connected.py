"""Locally connected layers: a convolution whose weights and bias differ from position to position."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import DType, Params
from equitangents.kernels.operations import Decouple
from equitangents.kernels.program import Op
from equitangents.nn.patches import patches, taps
from equitangents.nn.signal import Signal
from equitangents.nn.window_layer import WindowLayer


@dataclass(frozen=True, repr=False)
class LocallyConnected(WindowLayer):
    """As Conv where p = p'; K' = Θ' = 0 where p ≠ p', for different positions share neither weights nor bias."""

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """w (positions, |S|·n, channels), b (positions, channels)."""
        box = self.box(signal)
        positions = int(np.prod(box.out_shape))
        shape = (positions, taps(box) * signal.channels, self.channels)
        return self.weights.init(key, shape, (positions, self.channels), dtype)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Each position's patch times its own weights."""
        return self.combined(params, patches(x, self.box(signal)), signal)

    def combined(self, params: Params, cut: jax.Array, signal: Signal) -> jax.Array:
        """Window values times the weights of their positions, plus the bias."""
        box = self.box(signal)
        fan_in = taps(box) * signal.channels
        flat = cut.reshape((cut.shape[0], -1, fan_in))
        y = self.weights.add_bias(params, jnp.einsum("npi,pio->npo", flat, self.weights.scaled(params, fan_in)))
        return y.reshape((cut.shape[0], *box.out_shape, self.channels))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """A convolution, then nothing shared between positions."""
        box = self.box(signal)
        return (box, self.weights.affine(taps(box) * signal.channels), Decouple())
