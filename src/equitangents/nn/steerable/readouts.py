"""Readouts of steerable networks: features on points, or global features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from equitangents._types import Params
from equitangents.errors import NetworkError
from equitangents.nn.layer import Layer, ParameterFree
from equitangents.nn.signal import Grid, Signal
from equitangents.nn.steerable.input_layer import InputLayer
from equitangents.nn.steerable.linear import SteerableConv, SteerableDense
from equitangents.nn.steerable.pool import SteerablePool
from equitangents.nn.steerable.signal import parted, steerable
from equitangents.nn.structure import Structure
from equitangents.steerable import Features
from equitangents.steerable.irrep import trivial


@dataclass(frozen=True)
class PointFeatures(ParameterFree):
    """Readout of the features on points, without coordinates: forces, flows, masks.

    D features that turn are D positions of one channel, (N, P, D, 1), since they covary: targets and predictions of
    ensembles are (N, P, D), and `kernel_field` is (N1, P·D, N2, P·D), with D components at each point. Numbers that do
    not turn are alike, (N, P, D), with kernels (N1, P, N2, P) of one of them. After PlaneImage P is H × W. A linear
    layer comes before it, and none after it.

    >>> from equitangents import nn
    >>> net = nn.Sequential(nn.PointCloud("SO(3)"), nn.SteerableConv("1x1"), nn.PointFeatures())
    >>> net.output_shape((5, 3))
    (5, 3, 1)
    """

    steers: ClassVar[bool] = True
    is_last: ClassVar[bool] = True  # coordinates are dropped here, and later steerable layers would need them
    ends_on_points: ClassVar[bool] = True

    def signal(self, signal: Signal) -> Signal:
        """Components at points as positions of a grid; invariant numbers as channels."""
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
        """The features at each point, without coordinates."""
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
    """Whether all features are invariant numbers, with one kernel."""
    return set(features.irreps) == {trivial(features.group)}


def steerable_outputs(layers: tuple[Layer, ...]) -> Features | None:
    """The features of a whole input that a steerable network ends on; None for other networks, and on points."""
    begin, every = layers[0], tuple(_all(layers))
    linear = [layer for layer in every if isinstance(layer, SteerableConv | SteerableDense)]
    if not isinstance(begin, InputLayer) or not linear:
        return None
    if begin.on_points and not any(isinstance(layer, SteerablePool) for layer in every):
        return None
    return Features(linear[-1].features, begin.group)


def equivariant_dimension(layers: tuple[Layer, ...]) -> int | None:
    """Number of outputs of a steerable network if they are not invariant; else None."""
    outputs = steerable_outputs(layers)
    if outputs is None or do_not_turn(outputs):
        return None
    return outputs.dimension


def _all(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    """The layers, those of branches one branch after another: all branches that are summed end in the same features."""
    for layer in layers:
        yield layer
        for branch in layer.inner:
            yield from _all(branch)
