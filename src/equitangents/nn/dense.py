"""Dense layers: y(p) = W_std/√n · W x(p) + b_std · b, the same at every position."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import jax

from equitangents._types import DType, Params
from equitangents.groups import Group
from equitangents.kernels.program import Op
from equitangents.nn.layer import LinearLayer
from equitangents.nn.signal import Signal
from equitangents.validation import check_whole


@dataclass(frozen=True, repr=False)
class Dense(LinearLayer):
    """A fully connected layer: K ← W_std² K + b_std², Θ ← K + W_std² Θ.

    Signals on positions are mapped at each position alike. `parametrisation="standard"`: weights are drawn from
    N(0, W_std²/n) and biases from N(0, b_std²), which leaves K and makes Θ ← n K + 1 (with a bias) + W_std² Θ of n
    inputs (Sohl-Dickstein et al. 2020). There only: `bias=True` with b_std = 0 is a bias that starts at 0 and is
    trained (None: one where b_std > 0), and a `width_scale` s counts n/s inputs in Θ, the weights being √s larger and
    divided by √s where they multiply.
    """

    channels: int
    W_std: float = 1.0
    b_std: float = 0.0
    parametrisation: str = field(default="ntk", repr=False)
    bias: bool | None = field(default=None, repr=False)
    width_scale: float = field(default=1.0, repr=False)

    def __post_init__(self) -> None:
        check_whole("channels", self.channels, 1)
        self._check_weights()

    def signal(self, signal: Signal) -> Signal:
        """A Gaussian field on the positions that come in."""
        return replace(signal, channels=self.channels, gaussian=True, given=False, uneven=False)

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """w (n, channels), b (channels,)."""
        return self.weights.init(key, (signal.channels, self.channels), (self.channels,), dtype)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The inputs times the weights, plus the bias: W_std/√n · x W + b_std · b."""
        return self.weights.multiply(params, x)

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """One affine operation: K scaled by W_std², plus b_std²."""
        return (self.weights.affine(signal.channels),)

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...]:
        """The layer's operation: it acts alike at every position and rotation."""
        return self.lower(signal)
