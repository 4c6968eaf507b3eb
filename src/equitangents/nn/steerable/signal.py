"""Signals of steerable features: what layers ask of them, and how their channels are parted and joined."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from equitangents.errors import NetworkError
from equitangents.nn.signal import Signal
from equitangents.steerable import Features
from equitangents.steerable.irrep import Irrep
from equitangents.steerable.positions import OnPoints, OnWhole


def steerable(signal: Signal) -> OnPoints | OnWhole:
    """The positions of a signal of steerable features; NetworkError for others."""
    if not isinstance(signal.positions, OnPoints | OnWhole):
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
