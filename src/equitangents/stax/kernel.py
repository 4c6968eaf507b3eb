"""`Kernel`, the result of kernel_fn(x1, x2, None); inputs with axes in any order, masks and graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, Tree
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.nn.branches import Branches
from equitangents.nn.layer import Grid, Signal
from equitangents.stax.tree import Axes, Node, Signals
from equitangents.structured import NEURAL_TANGENTS, Graphs, Masked, is_structured


@dataclass(frozen=True, eq=False)
class Kernel:
    """Kernels between two sets of inputs, with the data that a further kernel_fn needs.

    `nngp` and `ntk` (N1, N2), or over positions (N1, N2, H, H, W, W, …).
    `cov1`, `cov2`: kernels of each input with itself, (N1, …); cov2 is None
    if x2 is. `shape1`, `shape2`: shapes of the outputs. `mask1`, `mask2`: True for missing positions, (N, …, 1),
    or None.
    """

    nngp: Tree
    ntk: Tree
    cov1: Tree
    cov2: Tree
    x1_is_x2: Tree = True
    mask1: Tree = None
    mask2: Tree = None
    is_gaussian: bool = False
    is_reversed: bool = False
    is_input: bool = False
    shape1: Tree = None
    shape2: Tree = None
    batch_axis: int = 0
    channel_axis: int = -1

    def replace(self, **changes: Tree) -> Kernel:
        """A copy of this kernel with some entries changed."""
        return dataclasses.replace(self, **changes)


NAMES = tuple(f.name for f in dataclasses.fields(Kernel))
_ARRAYS = ("nngp", "ntk", "cov1", "cov2", "x1_is_x2", "mask1", "mask2")

jax.tree_util.register_dataclass(Kernel, data_fields=_ARRAYS, meta_fields=NAMES[len(_ARRAYS) :])


Input = ArrayLike | Masked | Graphs
Shape = tuple[int, ...]
_SAME = 1e-12  # inputs that differ by less are one, as in neural-tangents


def moved(x: ArrayLike, axes: Axes | None, *, back: bool = False) -> ArrayLike:
    """An array with its axes moved to batch first and channels last; `back`: the inverse."""
    if axes is None or axes == (0, -1):
        return x
    named = [axis % x.ndim for axis in axes if axis is not None]
    usual = [0, x.ndim - 1][: len(named)]
    xp = jnp if isinstance(x, jax.Array) else np
    return xp.moveaxis(x, usual, named) if back else xp.moveaxis(x, named, usual)


def moved_shape(shape: Shape, axes: Axes | None, *, back: bool = False) -> Shape:
    """A shape with the batch first and the channels last; `back`: the inverse. Sizes may be -1."""
    order = np.empty(range(1, len(shape) + 1))
    return tuple(shape[n - 1] for n in moved(order, axes, back=back).shape)


class RawInputs(NamedTuple):
    """Inputs x (N, *grid, C), a mask of existing positions (N, *grid) or None, and graphs (N, P, P) or None."""

    x: ArrayLike
    mask: ArrayLike | None = None
    graphs: ArrayLike | None = None
    own: Masked | Graphs | None = None  # as they were given

    def of_network(self) -> Input | None:
        """The same as an input of a network of `nn`; None for graphs on grids."""
        if self.own is not None:
            return self.own
        if self.graphs is not None:
            return Graphs(self.x, self.graphs, self.mask, NEURAL_TANGENTS) if np.ndim(self.x) == 3 else None
        return self.x if self.mask is None else Masked(self.x, self.mask, NEURAL_TANGENTS)


def raw_inputs(x: Input, node: Node, mask_constant: float | None, pattern: Tree) -> RawInputs:
    """Inputs of a network, batch first, channels last: entries equal to `mask_constant` become zeros, and positions
    with only these are missing.
    """
    if isinstance(x, (Masked, Graphs)):
        return RawInputs(x.x, x.mask, x.adjacency, x)
    if not hasattr(x, "shape"):
        raise InvalidTypeError("x", type(x), "an array, or a Kernel of kernel_fn", verb="is of type")
    values = moved(x, node.axes_before)
    if values.ndim < 2:
        raise ShapeError("x", values.shape, "(N, channels) or (N, *positions, channels)")
    xp = jnp if isinstance(values, jax.Array) else np
    mask = None
    if mask_constant is not None:
        missing = xp.isnan(values) if np.isnan(mask_constant) else values == mask_constant
        mask = ~missing.all(axis=-1) if values.ndim > 2 else None
        values = xp.where(missing, 0, values).astype(values.dtype)
    reads = None if pattern is None else node.pattern
    if reads is None:
        return RawInputs(values, mask)
    graphs = reads.adjacency(pattern, tuple(values.shape[1:-1]))
    if len(graphs) != len(values):
        raise ShapeError("pattern", np.shape(pattern), len(values), "give a graph for each input")
    return RawInputs(values, mask, xp.asarray(graphs))


def sides(node: Node, x1: Tree, x2: Tree = None) -> tuple[tuple[Node, ...], tuple[Tree, ...], tuple[Tree, ...]]:
    """For each of several inputs, or the only one: (the nodes that read them, the inputs x1, the inputs x2)."""
    if not isinstance(x1, tuple | list):
        return (node,), (x1,), (x2,)
    nodes = node.readers(len(x1))
    if len(nodes) != len(x1):
        raise ShapeError("x1", len(x1), len(nodes), "give one for each of the layers side by side", verb="has length")
    return nodes, tuple(x1), tuple(x2) if isinstance(x2, tuple | list) else (None,) * len(x1)


def alike(ones: Sequence[Input | Kernel], twos: Sequence[Input | None]) -> bool | jax.Array:
    """Whether both sets of inputs are one, as a JAX value if they are traced; for `Masked` only if x2 is None."""
    found = [_alike(x1, x2) for x1, x2 in zip(ones, twos, strict=True)]
    return found[0] if all(each is found[0] for each in found) else jnp.all(jnp.asarray(found))


def _alike(x1: Tree, x2: Tree) -> Tree:
    if isinstance(x1, Kernel):
        return x1.x1_is_x2
    if x2 is None or x2 is x1:
        return True
    if is_structured(x1) or is_structured(x2) or getattr(x1, "shape", ()) != getattr(x2, "shape", None):
        return False
    if precision.is_traced(x1) or precision.is_traced(x2):
        return jnp.all(jnp.abs(x1 - x2) < _SAME)
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(np.asarray(x1) - np.asarray(x2)) < _SAME))


def check_convention(*inputs: Input | None) -> None:
    """Raise NotImplementedError for masks with a convention other than neural-tangents'."""
    for x in inputs:
        if is_structured(x) and x.mask is not None and x.convention != NEURAL_TANGENTS:
            raise NotImplementedError(
                f"masks of convention={x.convention!r} go into networks that end on one vector; give mask_constant=, "
                f"convention={NEURAL_TANGENTS!r}, or use kernel_fn.network.kernel_field"
            )


def refuse_keywords(name: str, keywords: Iterable[str]) -> None:
    """Raise NotImplementedError for arguments that have no counterpart."""
    if keywords := list(keywords):
        raise NotImplementedError(f"{name} does not take {', '.join(map(repr, keywords))} here")


def branches_of(parts: Sequence[Signal]) -> Branches:
    """Signals of independent inputs as `Branches`."""
    return Branches(tuple(parts), tuple(frozenset({("input", i)}) for i in range(len(parts))))


def signal_of(shape: Sequence[int]) -> Signal:
    """The signal of inputs of shape (*grid, channels)."""
    *grid, channels = shape
    return Signal(Grid(tuple(grid)), channels, deterministic=True)


def signal_and_batch(node: Node, shape: Tree) -> tuple[int, Signals]:
    """(number of inputs, signal) for a shape, or for several in a tuple or a list."""
    nodes, shapes, _ = ((node,), (shape,), ()) if _is_shape(shape) else sides(node, shape)
    if not all(map(_is_shape, shapes)):
        raise NotImplementedError("inputs within several inputs are not here; give all of them in one tuple")
    found = [moved_shape(tuple(s), reader.axes_before) for reader, s in zip(nodes, shapes, strict=True)]
    signals = [signal_of(rest) for _, *rest in found]
    return found[0][0], signals[0] if _is_shape(shape) else branches_of(signals)


def _is_shape(shape: Tree) -> bool:
    return all(isinstance(n, int | np.integer) or n is None for n in shape)


def shape_after(node: Node, signal: Signals, batch: int) -> Tree:
    """The shape of the outputs, or a list of shapes for several."""
    if signal.several:
        return [shape_after(node, part, batch) for part in signal.parts]
    return moved_shape((batch, *signal.array_shape), node.axes_after(node.axes_before), back=True)
