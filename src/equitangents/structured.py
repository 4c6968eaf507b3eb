"""Inputs with structure: missing positions, and one graph for each input.

`Masked(x, mask)` marks which positions of a padded array exist: pixels, words, atoms. `Graphs(x, adjacency, mask)` adds
the edges between the nodes of each input. Both go wherever a network takes x.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Self, TypeGuard

import jax
import numpy as np

from equitangents._types import ArrayLike, DType, Rows
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.validation import check_array, check_same_length

SMALLER, NEURAL_TANGENTS = CONVENTIONS = ("smaller", "neural-tangents")


def _check_mask(mask: Any, x: Any) -> None:
    if tuple(mask.shape) != tuple(x.shape[:-1]):
        raise ShapeError(
            "mask", tuple(mask.shape), tuple(x.shape[:-1]), "give one entry for each position of each input"
        )


class _Inputs:
    """Arrays with a common first axis (inputs), `x` first, and a `convention`."""

    __match_args__: ClassVar[tuple[str, ...]]  # of a dataclass: its fields in order

    x: ArrayLike
    convention: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of x."""
        return tuple(self.x.shape)

    @property
    def dtype(self) -> np.dtype:
        """The precision of x."""
        return self.x.dtype

    def _check_convention(self) -> None:
        if self.convention not in CONVENTIONS:
            raise InvalidArgumentError("convention", self.convention, list(CONVENTIONS))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Rows) -> Self:
        made: Callable[..., Self] = type(self)
        arrays, convention = self.tree_flatten()
        return made(*(None if part is None else part[rows] for part in arrays), convention)

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> np.ndarray:
        """Raise InvalidTypeError; otherwise NumPy would read the object as a list of inputs."""
        raise InvalidTypeError(
            "x", type(self), "an array", "networks and net.kernel take it, others take its x", verb="is of type"
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], str]:
        """All arrays, for JAX."""
        return tuple(vars(self)[name] for name in self._arrays()), self.convention

    @classmethod
    def tree_unflatten(cls, convention: str, parts: tuple[Any, ...]) -> Self:
        """From all arrays, without checks."""
        found = object.__new__(cls)
        for name, part in zip((*cls._arrays(), "convention"), (*parts, convention), strict=True):
            object.__setattr__(found, name, part)
        return found

    @classmethod
    def _arrays(cls) -> tuple[str, ...]:
        return tuple(name for name in cls.__match_args__ if name != "convention")


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class Masked(_Inputs):
    """Inputs x, (N, *positions, C), and which of their positions exist: mask (N, *positions), True where one does.

    Values at missing positions have no effect. A network on masked inputs computes what it computes on the smaller
    inputs that remain: sums, pools and attention skip missing positions, and windows are those of the smaller size.
    Windows need zero padding and stride 1, or "valid" padding with masks of the first positions along each axis.
    With `convention="neural-tangents"` any padding and stride goes: every window reads zeros at missing positions,
    divides by its full size, and exists where its central position does; a join, where any branch does. Outputs and
    kernels of an input without any position are zero.
    """

    x: ArrayLike
    mask: ArrayLike
    convention: str = SMALLER

    def __post_init__(self) -> None:
        self._check_convention()
        if hasattr(self.x, "shape") and hasattr(self.mask, "shape"):
            _check_mask(self.mask, self.x)

    @property
    def adjacency(self) -> None:
        """None: there are no graphs."""
        return


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class Graphs(_Inputs):
    """Nodes x, (N, P, C), the graph of each input, adjacency (N, P, P), and which nodes exist, mask (N, P) or None.

    adjacency[n, p, r] is the weight (0 or 1, or any number) with which node p receives from node r. Entries of missing
    nodes have no effect.
    `convention`: as in `Masked`.
    """

    x: ArrayLike
    adjacency: ArrayLike
    mask: ArrayLike | None = None
    convention: str = SMALLER

    def __post_init__(self) -> None:
        self._check_convention()
        if not (hasattr(self.x, "shape") and hasattr(self.adjacency, "shape")):
            return
        shape = tuple(self.x.shape)
        if len(shape) != 3:
            raise ShapeError("x", shape, "nodes of graphs, (N, nodes, channels)")
        wanted = (shape[0], shape[1], shape[1])
        if tuple(self.adjacency.shape) != wanted:
            raise ShapeError("adjacency", tuple(self.adjacency.shape), wanted, "give (N, nodes, nodes)")
        if hasattr(self.mask, "shape"):
            _check_mask(self.mask, self.x)


Inputs = ArrayLike | Masked | Graphs  # what networks take


def any_mask(masks: Sequence[Any]) -> Any:
    """The mask of the positions that exist in any of several; None if one of them is None."""
    return None if any(mask is None for mask in masks) else reduce(operator.or_, masks)


def is_structured(x: object) -> TypeGuard[Masked | Graphs]:
    """Whether x is `Masked` or `Graphs`."""
    return isinstance(x, _Inputs)


def checked(name: str, x: Any) -> Any:
    """Structured inputs with checked arrays, and zeros in x at missing positions, where it may be NaN.

    Raises InvalidTypeError, ShapeError or NotFiniteError for `name`.
    """
    xp = jax.numpy if isinstance(x.x, jax.Array) else np
    values = x.x if isinstance(x.x, jax.Array) else np.asarray(x.x)
    mask: Any = None if x.mask is None else xp.asarray(x.mask).astype(bool)
    if mask is not None:
        _check_mask(mask, values)
        values = xp.where(mask[..., None], values, 0)
    values = check_array(f"{name}.x", values, min_rank=2)
    if not isinstance(x, Graphs):
        return Masked(values, mask, x.convention)
    adjacency = check_array(f"{name}.adjacency", x.adjacency, rank=3)
    check_same_length(f"{name}.x", values, f"{name}.adjacency", adjacency)
    if mask is not None:
        adjacency = xp.where(mask[:, :, None] & mask[:, None, :], adjacency, 0)
    return Graphs(values, adjacency, mask, x.convention)
