"""Multiplication by a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from equitangents._types import Params
from equitangents.kernels.structured import Times
from equitangents.nn.layer import ParameterFree, check_number
from equitangents.nn.signal import Signal


@dataclass(frozen=True)
class Scale(ParameterFree):
    """The signal times a number: K' = factor² K, Θ' = factor² Θ; for weighted sums of branches."""

    factor: float

    def __post_init__(self) -> None:
        check_number("factor", self.factor)

    def signal(self, signal: Signal) -> Signal:
        """The kind of signal that comes in."""
        return signal

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Every entry times the factor."""
        return self.factor * x

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """One operation that multiplies kernels by the square."""
        return (Times(float(self.factor)),)
