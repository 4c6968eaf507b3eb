"""Inputs and outputs as trees of arrays: one array, tuples, dictionaries, and any nesting of them.

A tuple of inputs is several arguments, f(*x); everything else is one argument, f(x).

The layout of images and sequences is inferred from their shape if it is unambiguous. (N, 3, 32, 32) has channels first
and (N, 32, 32, 3) last: only one reading has a square grid, or as many channels as images have. (N, 8, 8, 8) and
(N, 3, 3, 32) are ambiguous.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from equitangents._types import Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError
from equitangents.validation import as_rectangular, copied, is_half

logger = logging.getLogger("equitangents.audit")


@dataclass(frozen=True, eq=False)
class Shared:
    """An input without a batch axis, passed unchanged with every batch, such as the edges of a graph."""

    value: Tree


@dataclass(frozen=True, eq=False)
class Batch:
    """An array whose batch is along another axis than the first, as sequences and states of recurrent networks have it.

    As an input `Batch(x, axis=1)`; its kind refers to the axes with the batch moved first. As `output_action`,
    `Batch(kind, axis=1)`: the output's batch is along axis 1, and it transforms as `kind` (None: invariant).
    """

    value: Tree
    axis: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.axis, bool) or not isinstance(self.axis, int) or self.axis < 0:
            raise InvalidArgumentError("axis", self.axis, "a whole number, at least 0")


@dataclass(frozen=True, eq=False)
class InputLeaves:
    """The leaves of x, batch first, with their names and tree structure; `n` inputs."""

    leaves: tuple[Any, ...]
    names: tuple[str, ...]
    structure: PyTreeDef
    n: int
    axes: tuple[int, ...] = ()
    """Batch axis of every leaf in the model; empty: all along the first axis."""

    def subset(self, chosen: Any) -> InputLeaves:
        """Some of the inputs."""
        return self.mapped(lambda a: a[chosen])

    @property
    def batches(self) -> list[np.ndarray]:
        """The arrays with one row per input, without shared ones."""
        return [a for a in self.leaves if not isinstance(a, Shared)]

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> InputLeaves:
        """The inputs with `change` applied to every array that is not shared."""
        return self.replaced([a if isinstance(a, Shared) else change(a) for a in self.leaves])

    def replaced(self, leaves: Sequence[Any]) -> InputLeaves:
        """The inputs with other arrays."""
        n = next(len(a) for a in leaves if not isinstance(a, Shared))
        return replace(self, leaves=tuple(leaves), n=n)

    def tree(self, leaves: Sequence[Any] | None = None) -> Tree:
        """The arguments of the model."""
        values = [a.value if isinstance(a, Shared) else a for a in (self.leaves if leaves is None else leaves)]
        if self.axes:
            values = [np.moveaxis(a, 0, axis) if axis else a for a, axis in zip(values, self.axes, strict=True)]
        return jax.tree.unflatten(self.structure, values)

    def own_tree(self) -> Tree:
        """Copies of the arguments of the model, which may work in place."""
        return self.tree([Shared(copied(a.value)) if isinstance(a, Shared) else copied(a) for a in self.leaves])


def as_inputs(x: Tree, called: str = "x") -> InputLeaves:
    """x as named NumPy arrays; raises errors that name an array that cannot be used."""
    if isinstance(x, list) and not any(isinstance(part, np.ndarray | jax.Array | Shared | Batch) for part in x):
        x = as_rectangular(called, x)  # nested lists of numbers are one array
    if isinstance(x, Mapping) and not isinstance(x, dict):  # such as the batches that tokenizers make
        x = dict(x)
    pairs, structure = jax.tree_util.tree_flatten_with_path(x)
    if not pairs:
        raise InvalidTypeError(called, "no array", "a batch of inputs, or a tuple or dictionary of them", verb="holds")
    names = tuple(called + jax.tree_util.keystr(path) for path, _ in pairs)
    leaves = tuple(_as_leaf(name, leaf) for name, (_, leaf) in zip(names, pairs, strict=True))
    sizes = {name: len(a) for name, a in zip(names, leaves, strict=True) if not isinstance(a, Shared)}
    if not sizes:
        raise ShapeError(called, Shared, "at least one batch", verb="is nothing but")
    if len(set(sizes.values())) > 1:
        remedy = "wrap inputs without a batch axis in Shared; pad smaller molecules with zeros, and give a mask"
        raise ShapeError(called, sizes, "equally many rows in all inputs", remedy, verb="has rows")
    axes = tuple(leaf.axis if isinstance(leaf, Batch) else 0 for _, leaf in pairs)
    return InputLeaves(leaves, names, structure, next(iter(sizes.values())), axes if any(axes) else ())


def along_axis(x: Tree, axis: int) -> Tree:
    """The arrays of x, or of a dictionary of them, as batches along this axis."""
    if not axis:
        return x
    return {name: Batch(a, axis) for name, a in x.items()} if isinstance(x, dict) else Batch(x, axis)


def sampled(x: Tree, y: np.ndarray | None, count: int, seed: int) -> tuple[Tree, np.ndarray | None]:
    """At most `count` of the inputs in their order, drawn without replacement, with their rows of y."""
    inputs = as_inputs(x)
    if y is not None and np.shape(y)[:1] != (inputs.n,):
        raise ShapeError("y", np.shape(y), (inputs.n, ...), "one row an input")
    rows = np.sort(np.random.default_rng(seed).choice(inputs.n, min(count, inputs.n), replace=False))
    return inputs.subset(rows).tree(), None if y is None else np.asarray(y)[rows]


def _as_leaf(name: str, leaf: Tree) -> Tree:
    if isinstance(leaf, Shared):
        return leaf
    axis, leaf = (leaf.axis, leaf.value) if isinstance(leaf, Batch) else (0, leaf)
    array = to_numpy(leaf, name)
    if is_half(getattr(leaf, "dtype", None)):
        logger.info("%s has dtype %s; it is converted to float32", name, leaf.dtype)
    if array.ndim <= axis and axis:
        raise ShapeError(name, array.shape, "an axis for the batch", str(axis))
    array = np.ascontiguousarray(np.moveaxis(array, axis, 0)) if axis else array
    if array.dtype.kind not in "fiubc":
        raise InvalidTypeError(name, array.dtype, "numbers", verb="has dtype")
    if array.ndim < 1 or array.shape[0] < 1:
        raise ShapeError(name, array.shape, "(N, …), at least one input")
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise NotFiniteError(name, where)
    return array


def dotted(path: Iterable[Any]) -> str:
    """Path of a leaf in a tree by keys, names and positions, "a.b.0"."""
    own = lambda part: next((getattr(part, name) for name in ("key", "name", "idx") if hasattr(part, name)), part)
    return ".".join(str(own(part)) for part in path)


def on_host(leaf: Tree) -> Tree:
    """A PyTorch tensor detached on the CPU; anything else unchanged."""
    return leaf.detach().cpu() if hasattr(leaf, "detach") else leaf


def to_numpy(leaf: Tree, name: str = "an array") -> np.ndarray:
    """An array of any library as NumPy, on the host and detached from gradients."""
    leaf = on_host(leaf)
    if str(getattr(leaf, "dtype", "")) == "torch.bfloat16":
        leaf = leaf.float()
    array = as_rectangular(name, leaf)
    return array.astype(np.float32) if is_half(array.dtype) else array


def per_leaf(name: str, value: Tree, structure: PyTreeDef, count: int) -> list[Any]:
    """`value` (a tree of None, strings, actions) matched leaf by leaf to a structure of `count` leaves.

    None stands for all leaves; another single value only if there is one leaf.
    """
    if value is None:
        return [None] * count
    leaves, own = jax.tree.flatten(value, is_leaf=lambda part: part is None)
    if own == structure:
        return leaves
    if count == 1 and len(leaves) == 1:
        return leaves
    raise InvalidTypeError(name, own, structure, "one entry for each array", verb="has the structure")


Layout = Literal["channels_last", "channels_first"]

_CHANNELS = (1, 2, 3, 4)
"""Usual numbers of channels of images; for sequences only 1, since few steps are as likely as few channels."""
_LAYOUTS = ["channels_first", "channels_last"]  # (N, C, H, W) and (N, H, W, C)

layouts_logger = logging.getLogger("equitangents.audit.layouts")


def to_last(x: np.ndarray, layout: Layout | None) -> np.ndarray:
    """Channels moved from axis 1, in that layout, to the end."""
    return np.moveaxis(x, 1, -1) if layout == "channels_first" else x


def from_last(x: np.ndarray, layout: Layout | None) -> np.ndarray:
    """The reverse of `to_last`."""
    return np.moveaxis(x, -1, 1) if layout == "channels_first" else x


def spatial(shape: tuple[int, ...], layout: Layout | None) -> tuple[int, ...]:
    """Numbers of positions of a batch of images."""
    return shape[2:] if layout == "channels_first" else shape[1:-1]


def layout_of(shape: Sequence[int]) -> Layout | None:
    """The layout of a batch of this shape; None if it is ambiguous."""
    if len(shape) < 3:
        return None
    votes = {_by_grid(shape), _by_channels(shape)} - {None}
    return votes.pop() if len(votes) == 1 else None


def _by_grid(shape: Sequence[int]) -> Layout | None:
    """The layout in which the grid, of two dimensions or more, has equal sides."""
    if len(shape) < 4 or shape[1] == shape[-1]:
        return None
    first, last = len(set(shape[2:])) == 1, len(set(shape[1:-1])) == 1
    return None if first == last else "channels_first" if first else "channels_last"


def _by_channels(shape: Sequence[int]) -> Layout | None:
    """The layout with a usual number of channels."""
    few = _CHANNELS if len(shape) > 3 else _CHANNELS[:1]
    first, last = shape[1] in few, shape[-1] in few
    return None if first == last else "channels_first" if first else "channels_last"


def settled_layout(shapes: Sequence[tuple[int, ...]], needed: bool) -> Layout:
    """The layout of images of these shapes: inferred, or channels last by default.

    `needed`: without a convention for the model, nothing is assumed. Raises InvalidArgumentError if it is ambiguous.
    """
    if not needed or not shapes:
        guess = next((s for s in shapes if len(s) == 4 and layout_of(s) == "channels_first"), None)
        if guess is None:
            return "channels_last"
        raise InvalidArgumentError(
            "layout", None, _LAYOUTS, f"x of shape {guess} looks like channels first, (N, C, H, W)"
        )
    layouts = {layout for s in shapes if (layout := layout_of(s)) is not None}
    if len(layouts) != 1:
        raise InvalidArgumentError("layout", None, _LAYOUTS, f"x of shape {shapes[0]} is ambiguous")
    (layout,) = layouts
    layouts_logger.info("layout: %s, from the shape %s", layout, " and ".join(map(str, shapes)))
    return layout
