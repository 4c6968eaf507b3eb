"""Which outputs of a steerable network turn with its input."""

from __future__ import annotations

from equitangents.nn.layer import Layer
from equitangents.nn.steerable.linear import SteerableConv, SteerableDense
from equitangents.nn.steerable.points import PlaneImage, PointCloud
from equitangents.nn.steerable.pool import SteerablePool
from equitangents.steerable import Features
from equitangents.steerable.irrep import trivial


def steerable_outputs(layers: tuple[Layer, ...]) -> Features | None:
    """The features of a whole input that a steerable network ends on; None for other networks, and on points."""
    begin, linear = layers[0], [layer for layer in layers if isinstance(layer, SteerableConv | SteerableDense)]
    if not isinstance(begin, PointCloud | PlaneImage) or not linear:
        return None
    if not any(isinstance(layer, SteerablePool) for layer in layers):
        return None
    return Features(linear[-1].features, begin.group)


def turning_dimension(layers: tuple[Layer, ...]) -> int | None:
    """How many outputs a steerable network has, if they turn with its input; None if not, and for other networks."""
    outputs = steerable_outputs(layers)
    if outputs is None or set(outputs.irreps) == {trivial(outputs.group)}:
        return None
    return outputs.dimension
