"""Symmetric tensors as vectors: Voigt's xx, yy, zz, yz, xz, xy in space, xx, yy, xy in the plane.

ρ(g) S = M(g) S M(g)ᵀ. Stresses hold the components as they are; strains hold twice those off the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from equitangents._types import ArrayLike, Element
from equitangents.actions.given_maps import GivenMap
from equitangents.errors import ShapeError
from equitangents.groups import SymmetryGroup

INDICES = {
    3: ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)),
    2: ((0, 0), (1, 1), (0, 1)),
}


@final
class VoigtAction(GivenMap):
    """Tensors along the last axis; `doubled`: the components off the diagonal are twice the tensor's, as in strains."""

    needs_floats = True
    matrix: Callable[[Any], np.ndarray]
    d: int
    doubled: bool

    def __init__(self, group: SymmetryGroup, matrix: Callable[[Any], np.ndarray], dimension: int, doubled: bool):
        what = "strains, with a factor 2 off the diagonal" if doubled else "stresses"
        name = f"voigt {what}"
        vars(self).update(group=group, matrix=matrix, d=dimension, doubled=doubled, name=name)

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """The last axis holds 6 components in space, 3 in the plane."""
        count = len(INDICES[self.d])
        if x.ndim < 2 or x.shape[-1] != count:
            raise ShapeError(f"{name} has shape {x.shape}; Voigt tensors need {count} entries along the last axis")

    def __call__(self, g: Element, x: ArrayLike) -> np.ndarray:
        """M(g) S M(g)ᵀ, in Voigt's order."""
        M = self.matrix(g).astype(x.dtype if x.dtype.kind == "f" else np.float64)
        pairs, factor = INDICES[self.d], 2.0 if self.doubled else 1.0
        whole = np.empty((*x.shape[:-1], self.d, self.d), np.result_type(x, M))
        for k, (i, j) in enumerate(pairs):
            whole[..., i, j] = whole[..., j, i] = x[..., k] / (1.0 if i == j else factor)
        turned = M @ whole @ M.T
        return np.stack([turned[..., i, j] * (1.0 if i == j else factor) for i, j in pairs], axis=-1)

    def _key(self) -> tuple[Any, ...]:
        return (self.matrix, self.d, self.doubled)
