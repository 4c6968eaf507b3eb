"""What joins layers: one after another, side by side, and again."""

from __future__ import annotations

from typing import Any

from equitangents import nn
from equitangents.stax.arguments import only
from equitangents.stax.layers import StaxLayer, layers_of, triple


def serial(*layers: Any) -> StaxLayer:
    """`nn.Sequential`: layers one after another."""
    return triple(*(inner for i, layer in enumerate(layers) for inner in layers_of(f"layers[{i}]", layer)))


def parallel(*layers: Any) -> StaxLayer:
    """`nn.Parallel`: one layer for each of the signals that `FanOut` made."""
    branches = [layers_of(f"layers[{i}]", layer) or (nn.Identity(),) for i, layer in enumerate(layers)]
    return triple(nn.Parallel(*(list(branch) for branch in branches)))


def FanOut(num: int) -> StaxLayer:
    """`nn.Parallel` of identities: the signal `num` times."""
    return triple(nn.Parallel(*(nn.Identity() for _ in range(num))))


def FanInSum() -> StaxLayer:
    """`nn.Sum`; branches that are not independent are refused, where neural-tangents adds their kernels."""
    return triple(nn.Sum())


def FanInConcat(axis: int = -1) -> StaxLayer:
    """Branches side by side along channels: `nn.Concatenate`."""
    only("axis", axis, -1, instead="nn.Concatenate joins channels, the last axis")
    return triple(nn.Concatenate())


def repeat(layer: Any, times: int = 1) -> StaxLayer:
    """The layer so many times one after another, with weights of its own each time."""
    return triple(*(layers_of("layer", layer) * times))
