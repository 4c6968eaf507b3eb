"""What joins layers: one after another, side by side, and again."""

from __future__ import annotations

from typing import Any

from equitangents import nn
from equitangents.stax.layers import StaxLayer, node_of, of_node, triple
from equitangents.stax.nodes import Fan, Row
from equitangents.stax.own_layers import JoinOverAxis


def serial(*layers: Any) -> StaxLayer:
    """`nn.Sequential`: layers one after another; their parameters are a tuple with one entry each."""
    return of_node(Row(tuple(node_of(f"layers[{i}]", layer) for i, layer in enumerate(layers))))


def parallel(*layers: Any) -> StaxLayer:
    """`nn.Parallel`: one layer for each of the signals that `FanOut` made, or for each of several inputs."""
    return of_node(Fan(tuple(node_of(f"layers[{i}]", layer) for i, layer in enumerate(layers))))


def FanOut(num: int) -> StaxLayer:
    """`nn.Parallel` of identities: the signal `num` times."""
    return triple("FanOut", nn.Parallel(*(nn.Identity() for _ in range(num))))


def FanInSum() -> StaxLayer:
    """`nn.Sum`; branches that are not independent are refused, where neural-tangents adds their kernels."""
    return triple("FanInSum", nn.Sum())


def FanInConcat(axis: int = -1) -> StaxLayer:
    """Branches side by side along channels: `nn.Concatenate`; `axis` is that of the channels, which are last."""
    return triple("FanInConcat", nn.Concatenate() if axis == -1 else JoinOverAxis(axis))


def repeat(layer: Any, n: int) -> StaxLayer:
    """The layer n times one after another, with weights of its own each time; the identity for n = 0."""
    node = node_of("layer", layer)
    return of_node(Row((node,) * n, "repeat"))
