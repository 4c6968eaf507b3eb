"""`Kernel`, what kernel_fn(x1, x2, None) gives; inputs with axes in any order, masks and graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, Tree
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.stax.tree import Axes, Node, Signals, branches_of, signal_of
from equitangents.structured import NEURAL_TANGENTS, Graphs, Masked, is_structured

_KNOWN = {"pytree_node": False}


@dataclass(frozen=True, eq=False)
class Kernel:
    """Kernels between two sets of inputs, with what a further kernel_fn needs.

    `nngp` and `ntk` (N1, N2), or over positions (N1, N2, H, H, W, W, …), with diagonal_spatial (N1, N2, H, W, …).
    `cov1`, `cov2`: kernels of each input with itself, (N1, …), with diagonal_batch=False (N1, N1, …); cov2 is None
    where x2 is. `shape1`, `shape2`: of the outputs. `mask1`, `mask2`: True where a position is missing, (N, …, 1),
    or None.
    """

    nngp: Tree
    ntk: Tree
    cov1: Tree
    cov2: Tree
    x1_is_x2: Tree = True
    mask1: Tree = None
    mask2: Tree = None
    is_gaussian: bool = field(default=False, metadata=_KNOWN)
    is_reversed: bool = field(default=False, metadata=_KNOWN)
    is_input: bool = field(default=False, metadata=_KNOWN)
    diagonal_batch: bool = field(default=True, metadata=_KNOWN)
    diagonal_spatial: bool = field(default=False, metadata=_KNOWN)
    shape1: Tree = field(default=None, metadata=_KNOWN)
    shape2: Tree = field(default=None, metadata=_KNOWN)
    batch_axis: int = field(default=0, metadata=_KNOWN)
    channel_axis: int = field(default=-1, metadata=_KNOWN)

    def replace(self, **changes: Tree) -> Kernel:
        """A copy of this kernel with some entries changed."""
        return dataclasses.replace(self, **changes)

    def asdict(self) -> dict[str, Tree]:
        """All entries by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def astuple(self) -> tuple[Tree, ...]:
        """All entries in order."""
        return tuple(self.asdict().values())

    def cut(self, rows: slice, columns: slice) -> Kernel:
        """Kernels between some of the first and some of the second inputs."""
        cov2 = self.cov1 if self.cov2 is None else self.cov2
        mask2 = self.mask1 if self.mask2 is None else self.mask2
        both = [None if v is None else v[rows, columns] for v in (self.nngp, self.ntk)]
        own = [v[at] if self.diagonal_batch else v[at, at] for v, at in ((self.cov1, rows), (cov2, columns))]
        masks = [None if m is None else m[at] for m, at in ((self.mask1, rows), (mask2, columns))]
        diagonal = rows == columns and self.x1_is_x2 is True
        sizes = self.nngp[rows, columns].shape
        shapes = [_resized(s, self.batch_axis, n) for s, n in zip((self.shape1, self.shape2), sizes, strict=False)]
        return self.replace(
            nngp=both[0], ntk=both[1], cov1=own[0], cov2=None if diagonal else own[1], x1_is_x2=diagonal,
            mask1=masks[0], mask2=None if diagonal else masks[1], shape1=shapes[0], shape2=shapes[1],
        )  # fmt: skip

    @classmethod
    def joined(cls, rows: list[list[Kernel]], alone: bool) -> Kernel:
        """The kernels of blocks: lists of rows of them; `alone`: of one set of inputs with itself."""
        first = rows[0][0]
        xp = jnp if isinstance(first.nngp, jax.Array) else np

        def whole(name: str) -> Tree:
            if getattr(first, name) is None:
                return None
            return xp.concatenate([xp.concatenate([getattr(k, name) for k in row], axis=1) for row in rows], axis=0)

        if not first.diagonal_batch:
            raise NotImplementedError("batch does not join kernels of diagonal_batch=False; call kernel_fn without it")
        alone = alone or (first.x1_is_x2 is True and first.cov2 is None)
        cov1 = xp.concatenate([row[0].cov1 for row in rows], axis=0)
        seconds = [(k.cov1 if k.cov2 is None else k.cov2) for k in rows[0]]
        nngp = whole("nngp")
        shapes = [
            _resized(s, first.batch_axis, n) for s, n in zip((first.shape1, first.shape2), nngp.shape, strict=False)
        ]
        masks = [None, None]
        if first.mask1 is not None:
            second = [(k.mask1 if k.mask2 is None else k.mask2) for k in rows[0]]
            masks = [xp.concatenate([row[0].mask1 for row in rows]), None if alone else xp.concatenate(second)]
        return first.replace(
            nngp=nngp, ntk=whole("ntk"), cov1=cov1, cov2=None if alone else xp.concatenate(seconds, axis=0),
            x1_is_x2=alone, mask1=masks[0], mask2=masks[1], shape1=shapes[0], shape2=shapes[1],
        )  # fmt: skip


def _resized(shape: Tree, axis: int, size: int) -> Tree:
    return None if shape is None else (*shape[:axis], size, *shape[axis + 1 :])


NAMES = tuple(f.name for f in dataclasses.fields(Kernel))
_ARRAYS = tuple(f.name for f in dataclasses.fields(Kernel) if f.metadata.get("pytree_node", True))
_STATIC = tuple(name for name in NAMES if name not in _ARRAYS)

jax.tree_util.register_dataclass(Kernel, data_fields=list(_ARRAYS), meta_fields=list(_STATIC))


Input = ArrayLike | Masked | Graphs
Inputs = Input | Kernel | tuple["Inputs", ...] | list["Inputs"]
Shape = tuple[int, ...]
_SAME = 1e-12  # inputs that differ by less are one, as in neural-tangents


def moved(x: ArrayLike, axes: Axes | None) -> ArrayLike:
    """An array with the batch first and the channels last."""
    if axes is None or axes == (0, -1):
        return x
    return (jnp if isinstance(x, jax.Array) else np).moveaxis(x, *_moves(axes, x.ndim))


def moved_back(x: ArrayLike, axes: Axes | None) -> ArrayLike:
    """An array with batch first and channels last, moved back to these axes."""
    if axes is None or axes == (0, -1):
        return x
    source, target = _moves(axes, x.ndim)
    return (jnp if isinstance(x, jax.Array) else np).moveaxis(x, target, source)


def moved_shape(shape: Shape, axes: Axes | None, *, back: bool = False) -> Shape:
    """A shape with the batch first and the channels last; sizes may be -1."""
    order = np.empty(range(1, len(shape) + 1))
    return tuple(shape[n - 1] for n in (moved_back(order, axes) if back else moved(order, axes)).shape)


def _moves(axes: Axes, rank: int) -> tuple[list[int], list[int]]:
    batch, channel = axes
    if channel is None:
        return [batch % rank], [0]
    return [batch % rank, channel % rank], [0, rank - 1]


class RawInputs(NamedTuple):
    """Inputs x (N, *grid, C), which positions there are, (N, *grid) or None, and graphs, (N, P, P) or None."""

    x: ArrayLike
    mask: ArrayLike | None = None
    graphs: ArrayLike | None = None
    own: Masked | Graphs | None = None  # as they were given

    def of_network(self) -> Input | None:
        """The input of a network of `nn`; None for graphs on grids."""
        if self.own is not None:
            return self.own
        if self.graphs is not None:
            if np.ndim(self.x) != 3:
                return None
            return Graphs(self.x, self.graphs, self.mask, NEURAL_TANGENTS)
        return self.x if self.mask is None else Masked(self.x, self.mask, NEURAL_TANGENTS)


def given(x: Inputs, node: Node, mask_constant: float | None, pattern: Tree) -> RawInputs:
    """Inputs of a network with the batch first and channels last; entries that are `mask_constant` are zeros, and
    positions all of whose entries are so are missing."""
    if is_structured(x):
        return RawInputs(x.x, x.mask, x.adjacency, x)
    if not hasattr(x, "shape"):
        raise InvalidTypeError("x", type(x), "an array, or a Kernel of kernel_fn", verb="is of type")
    values = moved(x, node.axes_before)  # type: ignore[arg-type]
    xp = jnp if isinstance(values, jax.Array) else np
    mask = None
    if mask_constant is not None:
        missing = xp.isnan(values) if np.isnan(mask_constant) else values == mask_constant
        mask = ~missing.all(axis=-1) if values.ndim > 2 else None
        values = xp.where(missing, 0, values).astype(values.dtype)
    graphs = graphs_of(node, pattern, tuple(values.shape[1:-1]))
    if graphs is not None and len(graphs) != len(values):
        raise ShapeError("pattern", np.shape(pattern), len(values), "give a graph for each input")
    return RawInputs(values, mask, graphs if graphs is None else xp.asarray(graphs))


def pieces(x: Inputs) -> list[Input | Kernel]:
    """All inputs of a nested structure, in order."""
    return [piece for part in x for piece in pieces(part)] if isinstance(x, tuple | list) else [x]


def alike(x1: Inputs, x2: Inputs | None) -> bool | jax.Array:
    """Whether both sets of inputs are one; a JAX number where they are traced; of `Masked` ones only if given once."""
    if x2 is None or x2 is x1:
        return True
    if is_structured(x1) or is_structured(x2):
        return False
    if getattr(x1, "shape", ()) != getattr(x2, "shape", None):
        return False
    if precision.is_traced(x1) or precision.is_traced(x2):
        return jnp.all(jnp.abs(x1 - x2) < _SAME)  # type: ignore[operator]
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(np.asarray(x1) - np.asarray(x2)) < _SAME))


def graphs_of(node: Node, pattern: Tree, grid: Shape) -> ArrayLike | None:
    """Adjacency matrices (N, P, P) of a pattern, as the network's layers read it; None where none is given or read."""
    reader = None if pattern is None else node.pattern
    return None if reader is None else reader.adjacency(pattern, grid)


def check_convention(*inputs: Inputs | None) -> None:
    """Raise NotImplementedError for masks of another convention than neural-tangents'."""
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


def signal_and_batch(node: Node, shape: Tree) -> tuple[int, Signals]:
    """(number of inputs, signal) of a shape, or of several in a tuple or a list."""
    if not all(isinstance(n, int | np.integer) or n is None for n in shape):
        found = [signal_and_batch(child, s) for child, s in zip(node.readers(len(shape)), shape, strict=True)]
        return found[0][0], branches_of([signal for _, signal in found])
    batch, *rest = moved_shape(tuple(shape), node.axes_before)
    return batch, signal_of(tuple(rest))


def shape_after(node: Node, signal: Signals, batch: int) -> Tree:
    """The shape of the outputs, or a list of several."""
    return _shape_of(signal, batch, node.axes_after(node.axes_before))


def _shape_of(signal: Signals, batch: int, axes: Axes | None) -> Tree:
    if signal.several:
        return [_shape_of(part, batch, axes) for part in signal.parts]
    return moved_shape((batch, *signal.array_shape), axes, back=True)
