"""Signals of steerable features: checks, channels of coordinates and features, sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp

from equitangents.errors import NetworkError
from equitangents.nn.signal import Signal
from equitangents.steerable import Features
from equitangents.steerable.features import Irrep, OnPoints, OnWhole


def steerable(signal: Signal) -> OnPoints | OnWhole:
    """The positions of a signal of steerable features; NetworkError for others."""
    if not signal.positions.steerable:
        raise NetworkError(
            "it reads steerable features; begin the network with PointCloud, PlaneImage, SphereSignal or FeatureVector"
        )
    return signal.positions


def with_features(signal: Signal, features: Features, *, gaussian: bool) -> Signal:
    """A signal on the same points with other features."""
    here = steerable(signal)
    positions = replace(here, features=features, given=here.given and not gaussian)
    return replace(
        signal,
        positions=positions,
        channels=positions.coordinates + features.dimension,
        gaussian=gaussian,
        given=False,
    )


def gaussian_features(signal: Signal) -> Features:
    """The features before a nonlinearity; NetworkError unless a linear layer made them."""
    features = steerable(signal).features
    if not signal.gaussian:
        raise NetworkError("a nonlinearity needs a linear layer before it, SteerableConv or SteerableDense")
    return features


def parted(x: jax.Array, signal: Signal) -> tuple[jax.Array, jax.Array]:
    """(coordinates, features) of x, (..., channels)."""
    n = steerable(signal).coordinates
    return x[..., :n], x[..., n:]


def joined(points: jax.Array, features: Features, values: dict[Irrep, jax.Array]) -> jax.Array:
    """Channels of coordinates and of values (..., copies, d) by irrep."""
    parts = [values[kind].reshape((*points.shape[:-1], -1)) for kind in features.irreps]
    return jnp.concatenate([points, *parts], axis=-1)


def is_on_features(signal: Signal) -> bool:
    """Whether a signal is of steerable features."""
    return signal.positions.steerable


def summed(values: Sequence[jax.Array], signal: Signal) -> jax.Array:
    """The sum of the branches' features; the points' coordinates, which lead the channels, are kept from the first."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    n = signal.positions.coordinates if signal.positions.steerable else 0
    return jnp.concatenate([values[0][..., :n], total[..., n:]], axis=-1) if n else total


def shape_of(signal: Signal) -> str:
    """Name of a branch's output in messages: its features, or its shape."""
    return str(signal.positions if is_on_features(signal) else signal.array_shape)


def check_passed_on(signal: Signal) -> None:
    """Raise NetworkError for given steerable features that a branch without weights hands on to a sum."""
    if signal.positions.steerable and signal.positions.given:
        raise NetworkError(
            "signal",
            signal.positions,
            remedy="a sum with the input has no infinitely wide limit: put SteerableConv or SteerableDense first",
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
