"""How a steerable network ends on its points."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from equitangents._types import Params
from equitangents.errors import NetworkError
from equitangents.nn.layer import ParameterFree
from equitangents.nn.signal import Grid, Signal
from equitangents.nn.steerable.signal import parted, steerable
from equitangents.nn.structure import Structure
from equitangents.steerable import Features
from equitangents.steerable.irrep import trivial


@dataclass(frozen=True)
class PointFeatures(ParameterFree):
    """Ends a network on its points, with their features and without coordinates: forces, flows, masks.

    D features that turn are D positions of one channel, (N, P, D, 1), since they covary: targets and predictions of
    ensembles are (N, P, D), and `kernel_field` is (N1, P·D, N2, P·D), with D components at each point. Numbers that do
    not turn are alike, (N, P, D), with kernels (N1, P, N2, P) of one of them. After PlaneImage P is H × W. A linear
    layer comes before it, and none after it.

    >>> from equitangents import nn
    >>> net = nn.Sequential(nn.PointCloud("SO(3)"), nn.SteerableConv("1x1"), nn.PointFeatures())
    >>> net.output_shape((5, 3))
    (5, 3, 1)
    """

    @property
    def steers(self) -> bool:
        """True, since the layer works on steerable features."""
        return True

    @property
    def is_last(self) -> bool:
        """True, since the coordinates are dropped here, and later steerable layers would need them."""
        return True

    def signal(self, signal: Signal) -> Signal:
        """Components at points as positions of a grid; numbers that do not turn as channels."""
        positions = steerable(signal)
        if not positions.on_points:
            raise NetworkError("PointFeatures ends a network on points; this one ends on a whole input as it is")
        if not signal.gaussian:
            raise NetworkError("PointFeatures needs a linear layer before it, SteerableConv or SteerableDense")
        grid, size = positions.grid or positions.shape, positions.features.dimension
        if do_not_turn(positions.features):
            return Signal(Grid(grid), size, gaussian=True)
        return Signal(Grid((*grid, size)), 1, gaussian=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The features alone, point by point."""
        return parted(x, signal)[1].reshape((len(x), *self.signal(signal).array_shape))

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """As `apply`; zero at points that do not exist."""
        values = parted(x, signal)[1]
        if structure.mask is not None:
            values = jnp.where(structure.mask[..., None], values, 0)
        return values.reshape((len(x), *self.signal(signal).array_shape)), Structure(key=structure.key)

    def lower(self, signal: Signal) -> tuple[()]:
        """No operations, since the kernels at the points are the result."""
        return ()


def do_not_turn(features: Features) -> bool:
    """Whether all features are numbers that no rotation changes, so that one kernel describes each of them."""
    return set(features.irreps) == {trivial(features.group)}
