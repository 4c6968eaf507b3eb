"""Layer normalisation: over the channels of each position, or over channels and positions together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups import Group
from equitangents.kernels.duals import Normalised
from equitangents.kernels.program import Dual
from equitangents.kernels.structured import Normalise
from equitangents.nn.layer import ParameterFree, check_number
from equitangents.nn.signal import Signal
from equitangents.nn.structure import Structure


@dataclass(frozen=True)
class LayerNorm(ParameterFree):
    """(x - mean)/√(variance + eps), mean and variance over channels, or with `positions=True` over positions as well.

    At infinite width these are numbers: K' = K/√((q + eps)(q' + eps)) after a linear layer, with q the variance at the
    position, or its mean over positions; Θ' has the same factor. After a nonlinearity of mean m, K is centred first.
    """

    positions: bool = False
    eps: float = 1e-12

    def __post_init__(self) -> None:
        if not isinstance(self.positions, bool):
            raise InvalidTypeError(f"positions is {self.positions!r}; expected True or False")
        if not check_number("eps", self.eps) >= 0:
            raise InvalidArgumentError(f"eps is {self.eps!r}; expected a number, at least 0")

    def signal(self, signal: Signal) -> Signal:
        """The kind of signal that comes in."""
        return signal

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Entries less their mean, divided by their standard deviation."""
        return self._normalised(x, None)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """The same over the positions that exist."""
        return structure.after(self._normalised(x, structure.mask), structure.mask)

    def _normalised(self, x: Any, mask: Any) -> Any:
        axes = tuple(range(1, x.ndim)) if self.positions else (x.ndim - 1,)
        where = None if mask is None or not self.positions else jnp.broadcast_to(mask[..., None], x.shape)
        mean = jnp.mean(x, axis=axes, keepdims=True, where=where)
        variance = jnp.mean((x - mean) ** 2, axis=axes, keepdims=True, where=where)
        return (x - mean) / jnp.sqrt(variance + self.eps)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """A factor at each pair of positions, or one for each pair of inputs."""
        if signal.gaussian and not self.positions:
            return (Dual(Normalised(float(self.eps))),)
        return (Normalise(self.positions, float(self.eps), signal.gaussian),)

    def fold(self, signal: Signal, group: Group) -> tuple[Any, ...] | None:
        """The same at every position, so also at every rotation."""
        lowered = self.lower(signal)
        return lowered if isinstance(lowered[0], Dual) else None
