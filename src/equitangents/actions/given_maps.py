"""Actions without checks of elements, on NumPy arrays, for audits.

Matrices of elements act on vectors, matrices and symmetric tensors; permutations on points along axes, and on their
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from equitangents._types import ArrayLike, Element, Elements, Tree
from equitangents.actions.group_action import GroupAction
from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup


class GivenMap(GroupAction):
    """Base of unchecked actions: subclasses define ρ(g) x and check signals."""

    def orbit(self, x: ArrayLike, elements: Elements = None) -> np.ndarray:
        """ρ(g) x along a new first axis, for `elements` or the nodes of the group."""
        return np.stack(list(self.one_by_one(self.group.nodes if elements is None else elements, x)))  # type: ignore[arg-type]

    def verify(self, x: Tree) -> None:
        """Check that x fits; that ρ is an action is known of these maps."""
        self.check_signals("x", x)

    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """Elements as an array, each in the group's own form."""
        return np.stack([np.asarray(self.group.check_element(name, g)) for g in elements])


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
            raise ShapeError(name, x.shape, (..., *(self.d,) * self.power), self.name)

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """M(g) x."""
        M = self.matrix(g).astype(x.dtype if x.dtype.kind == "f" else np.float64)
        y = x @ M.T
        return y if self.power == 1 else M @ y

    def _key(self) -> tuple[Any, ...]:
        return (self.matrix, self.d, self.power)


INDICES = {
    3: ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)),
    2: ((0, 0), (1, 1), (0, 1)),
}


@final
class VoigtAction(GivenMap):
    """Symmetric tensors as vectors along the last axis, ρ(g) S = M(g) S M(g)ᵀ, in Voigt's order.

    xx, yy, zz, yz, xz, xy in space; xx, yy, xy in the plane. `doubled`: the components off the diagonal are twice the
    tensor's, as in strains; stresses hold them as they are.
    """

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
            raise ShapeError(name, x.shape, (..., count), "Voigt tensors")

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
            raise ShapeError(name, x.shape, self.n, "as many entries along the axes of nodes")

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
            raise InvalidTypeError(name, x.dtype, remedy="edges are pairs of node numbers", verb="has dtype")
        if x.size and x.max() >= self.n:
            raise ShapeError(name, int(x.max()), range(self.n), verb="names node")

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """p[x]."""
        return np.where(x >= 0, self.permutation(g)[x.astype(np.int64)], x).astype(x.dtype)

    def _key(self) -> tuple[Any, ...]:
        return (self.n, self.permutation)
