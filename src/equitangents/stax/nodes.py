"""What a triple stands for: a tree of layers, whose parameters have one entry for each layer, as in neural-tangents.

A `Leaf` is one function of `stax`, which may be several layers of `nn` in a row, at most one of them with parameters:
its entry is that layer's, or () without any. A `Row` has one entry for each child, and so has a `Fan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from equitangents import nn
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.nn.layer import Layer, ParameterFree

Axes = tuple[int, int | None]  # of the batch and of the channels; None: all others


@dataclass(frozen=True)
class Leaf:
    """One layer. `before` and `after` are the axes of what goes in and comes out; None: whatever the others have.

    `pattern`: how it reads graphs (`patterns.Pattern`), of an `Aggregate`.
    """

    name: str
    layers: tuple[Layer, ...]
    before: Axes | None = None
    after: Axes | None = None
    pattern: Any = None


@dataclass(frozen=True)
class Row:
    """Layers one after another: `serial`, `repeat`."""

    children: tuple[Node, ...]
    name: str = "serial"


@dataclass(frozen=True)
class Fan:
    """Layers side by side: `parallel`."""

    children: tuple[Node, ...]
    name: str = "parallel"


Node = Leaf | Row | Fan


def leaves(node: Node) -> tuple[Leaf, ...]:
    """All layers, first to last."""
    if isinstance(node, Leaf):
        return (node,)
    return tuple(leaf for child in node.children for leaf in leaves(child))


def layers_of(node: Node) -> tuple[Layer, ...]:
    """The layers of `nn` that it stands for, in a row."""
    if isinstance(node, Leaf):
        return node.layers
    if isinstance(node, Row):
        return tuple(layer for child in node.children for layer in layers_of(child))
    return (nn.Parallel(*(list(layers_of(child)) or [nn.Identity()] for child in node.children)),)


def entries(node: Node, flat: tuple[Any, ...]) -> Any:
    """Parameters with one entry for each layer of `nn`, as the tree has them."""
    if isinstance(node, Leaf):
        held = [p for p, layer in zip(flat, node.layers, strict=True) if not isinstance(layer, ParameterFree)]
        return held[0] if len(held) == 1 and node.name != "FanOut" else ()
    if isinstance(node, Fan):
        (branches,) = flat
        return tuple(
            entries(child, part if layers_of(child) else ())
            for child, part in zip(node.children, branches, strict=True)
        )
    found, at = [], 0
    for child in node.children:
        size = len(layers_of(child))
        found.append(entries(child, flat[at : at + size]))
        at += size
    return tuple(found)


def flattened(node: Node, params: Any, name: str = "params") -> tuple[Any, ...]:
    """One entry for each layer of `nn` from a tree's parameters, the inverse of `entries`.

    ShapeError where there are not as many entries as layers.
    """
    if isinstance(node, Leaf):
        return tuple(empty(layer) if isinstance(layer, ParameterFree) or node.name == "FanOut" else params
                     for layer in node.layers)  # fmt: skip
    if not isinstance(params, tuple | list) or len(params) != len(node.children):
        held = f"{len(params)} entries" if isinstance(params, tuple | list) else f"a {type(params).__name__}"
        raise ShapeError(
            f"{name} is {held}; expected one entry for each of {len(node.children)} layers, as init_fn gives"
        )
    parts = [
        flattened(child, p, f"{name}[{i}]") for i, (child, p) in enumerate(zip(node.children, params, strict=True))
    ]
    if isinstance(node, Fan):
        return (tuple(part or ((),) for part in parts),)
    return tuple(p for part in parts for p in part)


def empty(layer: Layer) -> Any:
    """The parameters of a layer without any."""
    return tuple(tuple(empty(inner) for inner in branch) for branch in layer.inner)


def axes_before(node: Node) -> Axes | None:
    """The axes of the input, from the first layer that names any; None where none does."""
    return next((leaf.before for leaf in leaves(node) if leaf.before is not None), None)


def axes_after(node: Node, before: Axes | None) -> Axes | None:
    """The axes of the output; InvalidArgumentError where layers do not fit one another."""
    if isinstance(node, Fan):
        return axes_after(node.children[0], before)
    if isinstance(node, Row):
        for child in node.children:
            before = axes_after(child, before)
        return before
    if node.before is not None and before is not None and not _fit(before, node.before):
        raise InvalidArgumentError(
            f"{node.name} reads batch_axis={node.before[0]} and channel_axis={node.before[1]}, and the layer before it "
            f"gives {before[0]} and {before[1]}; they must be the same"
        )
    return before if node.after is None else node.after


def check_joins(node: Node) -> None:
    """Raise NotImplementedError where channels are to be joined that are not last: the axis may be one of positions."""
    axes = axes_before(node)
    for leaf in leaves(node):
        if leaf.name == "FanInConcat" and axes is not None and axes[1] is not None and axes[1] >= 0:
            raise NotImplementedError(
                f"FanInConcat of channels along axis {axes[1]} is not here; nn.Concatenate joins channels that are last"
            )
        axes = leaf.after or axes


def _fit(given: Axes, read: Axes) -> bool:
    """Whether axes may be the same: those counted from the end are known with the rank alone."""
    pairs = zip(given, read, strict=True)
    return all(b is None or a is None or a == b or (a < 0) != (b < 0) for a, b in pairs)
