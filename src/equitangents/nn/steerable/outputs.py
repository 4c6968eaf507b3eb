"""Which outputs of a steerable network turn with its input."""

from __future__ import annotations

from collections.abc import Iterator

from equitangents.nn.layer import Layer
from equitangents.nn.steerable.beginning import Beginning
from equitangents.nn.steerable.ending import do_not_turn
from equitangents.nn.steerable.linear import SteerableConv, SteerableDense
from equitangents.nn.steerable.pool import SteerablePool
from equitangents.steerable import Features


def steerable_outputs(layers: tuple[Layer, ...]) -> Features | None:
    """The features of a whole input that a steerable network ends on; None for other networks, and on points."""
    begin, every = layers[0], tuple(_all(layers))
    linear = [layer for layer in every if isinstance(layer, SteerableConv | SteerableDense)]
    if not isinstance(begin, Beginning) or not linear:
        return None
    if begin.on_points and not any(isinstance(layer, SteerablePool) for layer in every):
        return None
    return Features(linear[-1].features, begin.group)


def turning_dimension(layers: tuple[Layer, ...]) -> int | None:
    """How many outputs a steerable network has, if they turn with its input; None if not, and for other networks."""
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
