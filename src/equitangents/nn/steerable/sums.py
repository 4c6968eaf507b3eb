"""Sums of branches of steerable features: which have a kernel, and how coordinates stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from equitangents.errors import NetworkError
from equitangents.nn.signal import Signal
from equitangents.steerable.positions import OnPoints, OnWhole


def is_on_features(signal: Signal) -> bool:
    """Whether a signal is of steerable features."""
    return isinstance(signal.positions, OnPoints | OnWhole)


def summed(values: Sequence[jax.Array], signal: Signal) -> jax.Array:
    """The sum of the branches' features; the points' coordinates, which lead the channels, are kept from the first."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    n = signal.positions.coordinates if isinstance(signal.positions, OnPoints) else 0
    return jnp.concatenate([values[0][..., :n], total[..., n:]], axis=-1) if n else total


def shape_of(signal: Signal) -> str:
    """How messages name what a branch returns: by its features, or by its shape."""
    return str(signal.positions if is_on_features(signal) else signal.array_shape)


def check_passed_on(signal: Signal) -> None:
    """Raise NetworkError for given steerable features that a branch without weights hands on to a sum."""
    if isinstance(signal.positions, OnPoints | OnWhole) and signal.positions.given:
        raise NetworkError(
            f"the features {signal.positions.features} of the input have as many copies as are given, and a sum with "
            "them has no infinitely wide limit; put SteerableConv or SteerableDense before the branches"
        )


def check_summands(parts: Sequence[Signal]) -> None:
    """Raise NetworkError where more than one summand of steerable features ends in a nonlinearity.

    Nonlinearities may have means, and those of two branches would add their products to the kernel.
    """
    if is_on_features(parts[0]) and sum(not part.gaussian for part in parts) > 1:
        raise NetworkError(
            "two summands of steerable features end in a nonlinearity, whose means may add to the kernel; end "
            "all branches but one with SteerableConv or SteerableDense"
        )
