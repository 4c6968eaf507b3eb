"""Dropout: entries are set to zero at random, the others scaled so that the mean stays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.kernels.structured import Drop
from equitangents.nn.layer import ParameterFree, check_number
from equitangents.nn.signal import Signal
from equitangents.nn.structure import Structure
from equitangents.validation import check_choice


@dataclass(frozen=True)
class Dropout(ParameterFree):
    """Each entry is zero with probability `rate`, else divided by 1 - rate, independently for every input.

    The kernel is that of the network in training: K and Θ of an input's position with itself are divided by 1 - rate,
    since both are one draw; all others stay. In `kernel(x1, x2)` all inputs have different draws, in `kernel(x)` each
    input meets its own draw on the diagonal. `mode="test"` does nothing.
    """

    rate: float
    mode: str = "train"

    def __post_init__(self) -> None:
        if not 0 <= check_number("rate", self.rate) < 1:
            raise InvalidArgumentError("rate", self.rate, "a probability, at least 0 and below 1")
        check_choice("mode", self.mode, ("train", "test"))

    @property
    def needs_structure(self) -> bool:  # type: ignore[override]
        """In training it draws from a key."""
        return self.mode == "train"

    def signal(self, signal: Signal) -> Signal:
        """A field on the positions that come in; in training no longer Gaussian."""
        return signal if self.mode == "test" else replace(signal, gaussian=False, given=False)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The unchanged signal, at test time; in training `Sequential.apply` needs a key."""
        return self.run(params, x, signal, Structure())[0]

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """Entries set to zero at random, by the key that comes with the signal."""
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
        """Whether units are dropped: in every mode but "test"."""
        return self.mode != "test"

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """One operation in training, none at test time."""
        return () if self.mode == "test" else (Drop(1 - float(self.rate)),)
