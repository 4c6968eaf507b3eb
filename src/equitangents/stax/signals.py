"""What goes between the layers of a tree: one signal, or several side by side, which may be several themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from equitangents.errors import NetworkError
from equitangents.nn.layer import ParameterFree
from equitangents.nn.parallel import Branches
from equitangents.nn.sequential import chain
from equitangents.nn.signal import Grid, Signal
from equitangents.stax.nodes import Fan, Leaf, Node, leaves


def signal_of(shape: tuple[int, ...]) -> Signal:
    """The signal of inputs of shape (*grid, channels)."""
    return Signal(Grid(shape[:-1]), shape[-1], given=True)


def branches_of(parts: list[Any]) -> Branches:
    """Several inputs side by side, which have nothing in common."""
    return Branches(tuple(parts), tuple(frozenset({("input", i)}) for i in range(len(parts))))


def signals_of_leaf(leaf: Leaf, signal: Any) -> tuple[Any, ...]:
    """The signals before each of its layers, and after the last."""
    return chain(leaf.layers, signal)


def after_leaf(leaf: Leaf, signal: Any) -> Any:
    """What comes out of a layer."""
    return signals_of_leaf(leaf, signal)[-1]


def parts_of(fan: Fan, signal: Any) -> tuple[Any, ...]:
    """What goes into each of the layers side by side."""
    if not isinstance(signal, Branches):
        return (replace(signal, given=False),) * len(fan.children)
    if len(signal.parts) != len(fan.children):
        raise NetworkError(
            f"{len(fan.children)} layers side by side for {len(signal.parts)} signals; expected one for each"
        )
    return signal.parts


def after_fan(fan: Fan, signal: Any, parts: list[Any]) -> Branches:
    """What comes out of layers side by side, with the weights that each part comes from."""
    known = isinstance(signal, Branches)
    origins = signal.origins if known else (frozenset({"input"}),) * len(parts)
    stage = signal.stage if known else 0
    found = tuple(
        frozenset({(stage, i)}) if has_weights(child) else origin
        for i, (child, origin) in enumerate(zip(fan.children, origins, strict=True))
    )
    return Branches(tuple(parts), found, stage + 1)


def has_weights(node: Node) -> bool:
    """Whether any layer has parameters."""
    return any(
        not isinstance(layer, ParameterFree) for leaf in leaves(node) for layer in leaf.layers if leaf.name != "FanOut"
    )


def after(node: Node, signal: Any) -> Any:
    """What comes out of a tree of layers."""
    if isinstance(node, Leaf):
        return after_leaf(node, signal)
    if isinstance(node, Fan):
        return after_fan(
            node, signal, [after(c, s) for c, s in zip(node.children, parts_of(node, signal), strict=True)]
        )
    for child in node.children:
        signal = after(child, signal)
    return signal
