"""Layers without weights that rescale entries: by a number, at random (dropout), or by a norm (layer normalisation)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.kernels.duals import Normalised
from equitangents.kernels.operations import Dual, FrozenArray
from equitangents.kernels.structured import Drop, Normalise, Times
from equitangents.nn.layer import ByRun, ParameterFree, Signal, Structure
from equitangents.validation import check_choice, check_number


@dataclass(frozen=True)
class Scale(ParameterFree):
    """The signal times a number: K' = factor² K, Θ' = factor² Θ; for weighted sums of branches."""

    factor: float

    def __post_init__(self) -> None:
        check_number("factor", self.factor, "a finite number", math.isfinite)

    def signal(self, signal: Signal) -> Signal:
        return signal

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        return self.factor * x

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        return (Times(float(self.factor)),)


@dataclass(frozen=True)
class Dropout(ByRun, ParameterFree):
    """Each entry is zero with probability `rate`, else divided by 1 - rate, independently for every input.

    The kernel is that of the network in training: K and Θ of an input's position with itself are divided by 1 - rate,
    because both share one draw; all others are unchanged. In `kernel(x1, x2)` all inputs have different draws; on the
    diagonal of `kernel(x)` each input meets its own draw. `mode="test"` does nothing.
    """

    rate: float
    mode: str = "train"

    def __post_init__(self) -> None:
        check_number("rate", self.rate, "a probability, at least 0 and below 1", lambda rate: 0 <= rate < 1)
        check_choice("mode", self.mode, ("train", "test"))

    def signal(self, signal: Signal) -> Signal:
        """A field on the input's positions; in training not Gaussian."""
        return signal if self.mode == "test" else replace(signal, gaussian=False, deterministic=False)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """Entries set to zero at random, by the structure's key."""
        if self.mode == "test":
            return x, structure
        if structure.key is None:
            raise NetworkError(
                "Dropout in training draws at random: give apply a key (net.apply(params, x, key=...)), or take "
                "Dropout(rate, mode='test')"
            )
        kept = jax.random.bernoulli(structure.key, 1 - self.rate, x.shape)
        return jnp.where(kept, x / (1 - self.rate), 0), structure

    @property
    def draws_noise(self) -> bool:  # type: ignore[override]
        return self.mode != "test"

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        return () if self.mode == "test" else (Drop(1 - float(self.rate)),)


@dataclass(frozen=True)
class LayerNorm(ByRun, ParameterFree):
    """(x - mean)/√(variance + eps), mean and variance over channels, or with `positions=True` over positions as well.

    `positions` may also list grid dimensions to normalise over, such as (0,) for the rows of an image.

    At infinite width both are constants: K' = K/√((q + eps)(q' + eps)) after a linear layer, with q the variance at the
    position, or its mean over positions; Θ' has the same factor. After a nonlinearity of mean m, K is centred first.
    """

    positions: bool | tuple[int, ...] = False
    eps: float = 1e-12

    def __post_init__(self) -> None:
        dimensions = self.positions
        if isinstance(dimensions, tuple | list) and all(isinstance(d, int) and d >= 0 for d in dimensions):
            object.__setattr__(self, "positions", tuple(sorted(set(dimensions))))
        elif not isinstance(dimensions, bool):
            raise InvalidTypeError("positions", dimensions, "True, False, or dimensions such as (0, 1)")
        check_number("eps", self.eps, "a finite number, at least 0", lambda eps: eps >= 0)

    @property
    def follows_moves(self) -> bool:  # type: ignore[override]
        """Whether the layer commutes with moves of positions: false for grid dimensions, which rotations exchange."""
        return isinstance(self.positions, bool)

    def signal(self, signal: Signal) -> Signal:
        self._dimensions(signal)
        return signal

    def _dimensions(self, signal: Signal) -> bool | tuple[int, ...]:
        """True: normalise over all positions; False: at each position; a tuple: over these grid dimensions."""
        if isinstance(self.positions, bool):
            return self.positions
        count = len(signal.positions.shape)
        if any(d >= count for d in self.positions):
            raise NetworkError("positions", self.positions, range(count))
        if signal.axes is None:
            raise NetworkError("positions", self.positions, "None unless the signal is on a grid")
        return len(self.positions) == count if len(self.positions) in (0, count) else self.positions

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """Entries minus their mean, divided by their standard deviation, over existing positions."""
        mask = structure.mask
        along = self.positions if isinstance(self.positions, tuple) else range(x.ndim - 2) if self.positions else ()
        axes = (*(d + 1 for d in along), x.ndim - 1)
        where = None if mask is None or not along else jnp.broadcast_to(mask[..., None], x.shape)
        mean = jnp.mean(x, axis=axes, keepdims=True, where=where)
        variance = jnp.mean((x - mean) ** 2, axis=axes, keepdims=True, where=where)
        return structure.after((x - mean) / jnp.sqrt(variance + self.eps), mask)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """A factor for each pair of positions, or one for each pair of inputs."""
        dimensions = self._dimensions(signal)
        if signal.gaussian and not dimensions:
            return (Dual(Normalised(float(self.eps))),)
        groups = None
        if isinstance(dimensions, tuple):
            shape = signal.positions.shape
            kept = tuple(1 if d in dimensions else n for d, n in enumerate(shape))
            numbers = np.arange(np.prod(kept), dtype=np.int32).reshape(kept)
            groups = FrozenArray(np.ascontiguousarray(np.broadcast_to(numbers, shape)).ravel())
        return (Normalise(bool(dimensions), float(self.eps), signal.gaussian, groups),)
