"""Permutations of points: of the positions along axes of NumPy arrays, and of the numbers that name points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from equitangents._types import ArrayLike, Element
from equitangents.actions.given_maps import GivenMap
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup


@final
class PermutedAxes(GivenMap):
    """Positions i of the axes `axes` go to p[i]: points and node features (axis 1), pairs (axes 1 and 2)."""

    n: int
    axes: tuple[int, ...]
    permutation: Callable[[Any], np.ndarray]

    def __init__(
        self, group: SymmetryGroup, n: int, axes: tuple[int, ...], name: str, permutation: Callable[[Any], np.ndarray]
    ):
        vars(self).update(group=group, n=n, axes=axes, name=name, permutation=permutation)

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """The axes have n entries."""
        if x.ndim <= max(self.axes) or any(x.shape[a] != self.n for a in self.axes):
            raise ShapeError(f"{name} has shape {x.shape}; expected {self.n} entries along axes {self.axes}")

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """(ρ(p) x)[p[i]] = x[i]."""
        inverse = np.argsort(self.permutation(g))
        for axis in self.axes:
            x = np.take(x, inverse, axis=axis)
        return x

    def _key(self) -> tuple[Any, ...]:
        return (self.n, self.axes, self.permutation)


@final
class RelabelledIndices(GivenMap):
    """Arrays of point numbers, e.g. edges (N, E, 2): number i becomes p[i]; negative numbers, the padding, stay."""

    n: int
    permutation: Callable[[Any], np.ndarray]

    def __init__(self, group: SymmetryGroup, n: int, permutation: Callable[[Any], np.ndarray]):
        vars(self).update(group=group, n=n, permutation=permutation, name=f"relabelling of {n} nodes")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Raise unless x holds whole numbers below n, the number of nodes; models return them as any type."""
        if x.dtype.kind not in "iu" and not (x.dtype.kind == "f" and (x == np.round(x)).all()):
            raise InvalidTypeError(f"{name} has dtype {x.dtype}; edges are pairs of node numbers")
        if x.size and x.max() >= self.n:
            raise ShapeError(f"{name} names node {int(x.max())}; there are {self.n} nodes, numbered from 0")

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """p[x]."""
        return np.where(x >= 0, self.permutation(g)[x.astype(np.int64)], x).astype(x.dtype)

    def _key(self) -> tuple[Any, ...]:
        return (self.n, self.permutation)
