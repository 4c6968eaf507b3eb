"""Vectors, and matrices, along the last axes of NumPy arrays, moved by a matrix M(g) of any group's element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from equitangents._types import ArrayLike, Element
from equitangents.actions.given_maps import GivenMap
from equitangents.errors import ShapeError
from equitangents.groups import SymmetryGroup


@final
class MatrixAction(GivenMap):
    """Vectors along the last axis multiplied by M(g); `power` 2: matrices M(g) x M(g)ᵀ along the last two."""

    needs_floats = True

    def __init__(
        self,
        group: SymmetryGroup,
        matrix: Callable[[Any], np.ndarray],
        dimension: int,
        name: str,
        power: int = 1,
    ):
        vars(self).update(group=group, matrix=matrix, d=dimension, name=name, power=power)

    matrix: Callable[[Any], np.ndarray]
    d: int
    power: int

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """The last axes have the right length."""
        if x.ndim < 1 + self.power or x.shape[-self.power :] != (self.d,) * self.power:
            axes = "the last axis" if self.power == 1 else "the last two axes"
            raise ShapeError(f"{name} has shape {x.shape}; {self.name} need {self.d} entries along {axes}")

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """M(g) x."""
        M = self.matrix(g).astype(x.dtype if x.dtype.kind == "f" else np.float64)
        y = x @ M.T
        return y if self.power == 1 else M @ y

    def _key(self) -> tuple[Any, ...]:
        return (self.matrix, self.d, self.power)
