"""The mean of steerable features over all points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp

from equitangents._types import Params
from equitangents.errors import NetworkError
from equitangents.kernels.steerable.program import PointMean
from equitangents.nn.layer import ParameterFree
from equitangents.nn.signal import Signal
from equitangents.nn.steerable.signal import parted, steerable
from equitangents.nn.structure import Structure
from equitangents.steerable.positions import OnWhole


@dataclass(frozen=True)
class SteerablePool(ParameterFree):
    """Mean of features over existing points: global features, without coordinates."""

    steers: ClassVar[bool] = True

    def signal(self, signal: Signal) -> Signal:
        """The features that come in, once for the whole input."""
        positions = steerable(signal)
        if not positions.on_points:
            raise NetworkError("SteerablePool reads points; these are features of a whole input")
        return replace(
            signal,
            positions=OnWhole(positions.features, given=positions.given),
            channels=positions.features.dimension,
            given=False,
        )

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Means over points, (N, channels)."""
        return jnp.mean(parted(x, signal)[1], axis=1)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """As `apply`; under a mask over the points that exist."""
        if structure.mask is None:
            return self.apply(params, x, signal), structure
        there = structure.mask.astype(x.dtype)
        weights = there / jnp.maximum(there.sum(axis=1, keepdims=True), 1)
        y = jnp.einsum("np,npc->nc", weights, parted(x, signal)[1], precision="highest")
        return y, replace(structure, mask=None)

    def lower(self, signal: Signal) -> tuple[PointMean, ...]:
        """One mean over points."""
        return (PointMean(),)
