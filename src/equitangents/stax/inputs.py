"""Inputs as neural-tangents has them: axes in any order, missing positions by a constant, graphs by a pattern."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.stax.nodes import Axes, Node, axes_before
from equitangents.stax.patterns import pattern_of
from equitangents.structured import NEURAL_TANGENTS, Graphs, Masked


def moved(x: Any, axes: Axes | None) -> Any:
    """An array (or shape, of which there are only tuples) with the batch first and the channels last."""
    if axes is None or axes == (0, -1):
        return x
    return (jnp if isinstance(x, jax.Array) else np).moveaxis(x, *_moves(axes, x.ndim))


def moved_back(x: Any, axes: Axes | None) -> Any:
    """An array with batch first and channels last, with both put back to where the axes have them."""
    if axes is None or axes == (0, -1):
        return x
    source, target = _moves(axes, x.ndim)
    return (jnp if isinstance(x, jax.Array) else np).moveaxis(x, target, source)


def moved_shape(shape: tuple[int, ...], axes: Axes | None, *, back: bool = False) -> tuple[int, ...]:
    """What becomes of a shape, in which sizes may be -1."""
    if axes is None or axes == (0, -1):
        return shape
    order = (
        moved_back(np.empty(range(1, len(shape) + 1)), axes)
        if back
        else moved(np.empty(range(1, len(shape) + 1)), axes)
    )
    return tuple(shape[n - 1] for n in order.shape)


def _moves(axes: Axes, rank: int) -> tuple[list[int], list[int]]:
    batch, channel = axes
    if channel is None:
        return [batch % rank], [0]
    return [batch % rank, channel % rank], [0, rank - 1]


class Given(NamedTuple):
    """Inputs x (N, *grid, C), which positions there are, (N, *grid) or None, and graphs, (N, P, P) or None."""

    x: Any
    mask: Any = None
    graphs: Any = None
    own: Any = None  # `Masked` or `Graphs` as they were given

    def of_network(self) -> Any:
        """What a network of `nn` takes; None if it does not take graphs on grids."""
        if self.own is not None:
            return self.own
        if self.graphs is not None:
            if np.ndim(self.x) != 3:
                return None
            return Graphs(self.x, self.graphs, self.mask, NEURAL_TANGENTS)
        return self.x if self.mask is None else Masked(self.x, self.mask, NEURAL_TANGENTS)


def given(x: Any, node: Node, mask_constant: float | None, pattern: Any) -> Given:
    """Inputs of a network with the batch first and channels last; entries that are `mask_constant` are zeros, and
    positions all of whose entries are so are missing."""
    if isinstance(x, Masked | Graphs):
        return Given(x.x, x.mask, x.adjacency, x)
    if not hasattr(x, "shape"):
        raise InvalidTypeError(f"x is of type {type(x).__name__}; expected an array, or a Kernel of kernel_fn")
    x = moved(x, axes_before(node))
    xp = jnp if isinstance(x, jax.Array) else np
    mask: Any = None
    if mask_constant is not None:
        missing = xp.isnan(x) if np.isnan(mask_constant) else x == mask_constant
        mask = ~missing.all(axis=-1) if x.ndim > 2 else None
        x = xp.where(missing, 0, x).astype(x.dtype)
    graphs = graphs_of(node, pattern, tuple(x.shape[1:-1]))
    if graphs is not None and len(graphs) != len(x):
        raise ShapeError(f"pattern has shape {np.shape(pattern)}; expected {len(x)} graphs, one for each input")
    return Given(x, mask, graphs if graphs is None else xp.asarray(graphs))


def graphs_of(node: Node, pattern: Any, grid: tuple[int, ...]) -> Any:
    """Adjacency matrices (N, P, P) of a pattern, as the network's layers read it; None where none is given or read."""
    reader = None if pattern is None else pattern_of(node)
    return None if reader is None else reader.adjacency(pattern, grid)


def check_convention(*inputs: Any) -> None:
    """Raise NotImplementedError for masks of another convention than neural-tangents', which layers one by one have."""
    for x in inputs:
        if isinstance(x, Masked | Graphs) and x.mask is not None and x.convention != NEURAL_TANGENTS:
            raise NotImplementedError(
                f"masks of convention={x.convention!r} go into networks that end on one vector; give mask_constant=, "
                f"convention={NEURAL_TANGENTS!r}, or use kernel_fn.network.kernel_field"
            )


def refuse_keywords(name: str, keywords: dict[str, Any]) -> None:
    """Raise NotImplementedError for arguments that have no counterpart."""
    if keywords:
        raise NotImplementedError(f"{name} does not take {', '.join(map(repr, keywords))} here")
