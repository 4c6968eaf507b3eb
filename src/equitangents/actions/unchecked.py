"""Actions without checks of elements, on NumPy arrays, for audits.

Matrices act on vectors, matrices and symmetric tensors; permutations on points along axes and on point numbers.
Sequences (N, T) or (N, T, C) are shifted or reversed; complex amplitudes change their phase.

Coordinates in images are in pixels, x to the right and y down; `size` = (H, W). Integer coordinates are either pixel
edges, so that an image extends from 0 to W, or pixel centres, so that it extends from 0 to W − 1. Normalised
coordinates run from 0 to 1 between the edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from equitangents._types import ArrayLike, Element, Elements, Tree
from equitangents.actions.action import GroupAction
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup
from equitangents.groups.wallpaper_group import TranslationGroup

Motion = Callable[[Any], tuple[float, bool]]
"""Of an element: its angle in degrees, and whether it reflects left and right first."""


class UncheckedAction(GroupAction):
    """Base of unchecked actions: subclasses define ρ(g) x and check signals."""

    def orbit(self, x: ArrayLike, elements: Elements = None) -> np.ndarray:
        """ρ(g) x along a new first axis, for `elements`; by default for the nodes of the group."""
        return np.stack(list(self.one_by_one(self.group.nodes if elements is None else elements, x)))  # type: ignore[arg-type]

    def verify(self, x: Tree) -> None:
        """Check that the map applies to x; these maps are actions by construction."""
        self.check_signals("x", x)

    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """Elements as an array, each in the group's own format."""
        return np.stack([np.asarray(self.group.check_element(name, g)) for g in elements])


@final
@dataclass(frozen=True, eq=False, repr=False)
class MatrixAction(UncheckedAction):
    """Vectors along the last axis multiplied by M(g); `power` 2: matrices M(g) x M(g)ᵀ along the last two."""

    needs_floats = True
    group: SymmetryGroup
    matrix: Callable[[Any], np.ndarray]
    d: int
    name: str
    power: int = 1

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Raise ShapeError unless the last axes have length d; single numbers (N,) are (N, 1)."""
        shape = (*x.shape, 1) if x.ndim == 1 else x.shape
        if len(shape) < 1 + self.power or shape[-self.power :] != (self.d,) * self.power:
            raise ShapeError(name, x.shape, (..., *(self.d,) * self.power), self.name)

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """M(g) x."""
        M = self.matrix(g).astype(x.dtype if x.dtype.kind == "f" else np.float64)
        y = x @ M.T
        return y if self.power == 1 else M @ y


INDICES = {
    3: ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)),
    2: ((0, 0), (1, 1), (0, 1)),
}


def voigt_matrix(M: Float[np.ndarray, "d d"], doubled: bool) -> Float[np.ndarray, "k k"]:
    """The matrix of S ↦ M S Mᵀ on symmetric tensors written as vectors in Voigt order.

    xx, yy, zz, yz, xz, xy in space; xx, yy, xy in the plane. `doubled`: off-diagonal components are twice the tensor's,
    as in strains; stresses hold the tensor's components.
    """
    i, j = np.transpose(INDICES[len(M)])
    V = M[i][:, i] * M[j][:, j] + (i != j) * M[i][:, j] * M[j][:, i]
    factor = np.where(i != j, 2.0, 1.0) if doubled else np.ones(len(i))
    return V * factor[:, None] / factor


@final
@dataclass(frozen=True, eq=False, repr=False)
class PermutedAxes(UncheckedAction):
    """Positions i of the axes `axes` go to p[i]: points and node features (axis 1), pairs (axes 1 and 2)."""

    group: SymmetryGroup
    n: int
    axes: tuple[int, ...]
    name: str
    permutation: Callable[[Any], np.ndarray]

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Raise ShapeError unless the axes have length n."""
        if x.ndim <= max(self.axes) or any(x.shape[a] != self.n for a in self.axes):
            raise ShapeError(name, x.shape, self.n, "as many entries along the axes of nodes")

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """(ρ(p) x)[p[i]] = x[i]."""
        inverse = np.argsort(self.permutation(g))
        for axis in self.axes:
            x = np.take(x, inverse, axis=axis)
        return x


@final
class RelabelledIndices(UncheckedAction):
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


@dataclass(frozen=True, eq=False, repr=False)
class FunctionMap(UncheckedAction):
    """function(g, x) on arrays that pass `check(name, x)`; elements and arrays as the group and the model have them."""

    group: SymmetryGroup
    function: Callable[[Any, Any], Any]
    name: str
    check: Callable[[str, ArrayLike], None] = lambda name, x: None
    channels_last: bool = False
    exact: bool = True

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Call `check(name, x)`."""
        self.check(name, x)

    def __call__(self, g: Element, x: ArrayLike) -> np.ndarray:
        """function(g, x)."""
        y = np.asarray(self.function(g, x))
        if y.shape != x.shape:
            raise ShapeError(self.name, y.shape, x.shape, "it must keep the shape", verb="gives shape")
        return y


def circular_shifts(group: TranslationGroup, channels_last: bool) -> FunctionMap:
    """Circular shifts of sequences: (ρ(t) x)[i + t] = x[i], indices modulo the length."""

    def check(name: str, x: ArrayLike) -> None:
        if x.ndim not in (2, 3) or x.shape[1] != group.order or len(group.shape) != 1:
            raise ShapeError(
                name, x.shape, "sequences (N, length) or (N, length, C)", "of the length that the action moves"
            )

    shift = lambda g, x: np.roll(x, int(g), axis=1)
    return FunctionMap(group, shift, "circular shifts of sequences", check, channels_last)


def check_sequences(name: str, x: ArrayLike) -> None:
    """Raise ShapeError unless there is an axis of steps."""
    if x.ndim < 2:
        raise ShapeError(name, x.shape, "sequences (N, T) or (N, T, C)")


def check_signed(name: str, x: ArrayLike) -> None:
    """Raise InvalidTypeError unless x holds signed numbers."""
    if x.dtype.kind in "ub":
        raise InvalidTypeError(name, x.dtype, remedy="numbers of this type have no sign", verb="has dtype")


def phase_turns(group: SymmetryGroup, motion: Motion) -> FunctionMap:
    """Complex amplitudes, such as quantum states: rotation by φ multiplies by exp(iφ), reflections conjugate first."""

    def check(name: str, x: ArrayLike) -> None:
        if x.dtype.kind != "c":
            raise InvalidTypeError(
                name, x.dtype, remedy="a phase multiplies complex numbers (complex64, complex128)", verb="has dtype"
            )

    def turn(g: Element, x: ArrayLike) -> ArrayLike:
        degrees, reflected = motion(g)
        return ((x.conj() if reflected else x) * np.exp(1j * np.radians(degrees))).astype(x.dtype)

    return FunctionMap(group, turn, "states, multiplied by a phase", check)


def screen_matrix(degrees: float, reflected: bool) -> Float[np.ndarray, "2 2"]:
    """Matrix of an image motion on (x right, y down): reflection first, then counter-clockwise rotation."""
    quarter = {0: (1.0, 0.0), 1: (0.0, 1.0), 2: (-1.0, 0.0), 3: (0.0, -1.0)}
    exact = quarter.get(round(degrees / 90) % 4) if degrees % 90 == 0 else None
    c, s = exact or (float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees))))
    turn = np.array([[c, s], [-s, c]])
    return turn @ np.diag([-1.0, 1.0]) if reflected else turn


@final
@dataclass(frozen=True, eq=False, repr=False)
class ImagePoints(UncheckedAction):
    """Points (N, …, 2 or more): x and y first, what follows stays; `swapped` points change places under reflections."""

    needs_floats = True
    group: SymmetryGroup
    motion: Motion
    centre: tuple[float, float]
    swapped: Int[np.ndarray, " K"] | None = None
    name: str = "keypoints of images"

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Raise ShapeError unless the last axis begins with x and y."""
        if x.ndim < 2 or x.shape[-1] < 2:
            raise ShapeError(name, x.shape, "x, y along the last axis")
        if self.swapped is not None and (x.ndim < 3 or x.shape[-2] != len(self.swapped)):
            raise ShapeError(name, x.shape, (..., len(self.swapped), 2), "swapped names points")

    def __call__(self, g: Element, x: ArrayLike) -> np.ndarray:
        """M (x − c) + c for the coordinates (x, y)."""
        degrees, reflected = self.motion(g)
        M, c = screen_matrix(degrees, reflected), np.asarray(self.centre)
        y = np.array(x, np.result_type(x, np.float32) if x.dtype.kind != "f" else x.dtype)
        y[..., :2] = (x[..., :2] - c) @ M.T + c
        return y[..., self.swapped, :] if reflected and self.swapped is not None else y


@final
class ImageBoxes(UncheckedAction):
    """Boxes (N, …, 4 or more) with sides along the axes: x1, y1, x2, y2 or, `centred`, cx, cy, w, h; the rest stays."""

    needs_floats = True
    motion: Motion
    centre: tuple[float, float]
    centred: bool

    def __init__(self, group: SymmetryGroup, motion: Motion, centre: tuple[float, float], centred: bool):
        form = "cx, cy, w, h" if centred else "x1, y1, x2, y2"
        if group.elements is None or any(motion(g)[0] % 90 for g in group.elements):
            raise InvalidArgumentError(
                "group",
                group,
                "C2, C4, D1, D2 or D4, under which boxes stay boxes",
                "audit their centres as 'keypoints'",
            )
        vars(self).update(group=group, motion=motion, centre=centre, centred=centred, name=f"boxes ({form})")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Raise ShapeError unless the last axis begins with the four numbers of a box."""
        if x.ndim < 2 or x.shape[-1] < 4:
            raise ShapeError(name, x.shape, "four numbers along the last axis")

    def __call__(self, g: Element, x: ArrayLike) -> np.ndarray:
        """Boxes with both corners moved and sorted, or the centre moved and the sides exchanged; rows of zeros stay."""
        M, c = screen_matrix(*self.motion(g)), np.asarray(self.centre)
        y = np.array(x)
        if self.centred:
            y[..., :2] = (x[..., :2] - c) @ M.T + c
            y[..., 2:4] = x[..., 2:4] @ np.abs(M).T
        else:
            first, second = ((x[..., a : a + 2] - c) @ M.T + c for a in (0, 2))
            y[..., :2], y[..., 2:4] = np.minimum(first, second), np.maximum(first, second)
        return np.where((x != 0).any(axis=-1, keepdims=True), y, x)


@final
class ClassMasks(UncheckedAction):
    """Class numbers of pixels, (N, H, W) or (N, H, W, 1): moved with images; resampled: the likeliest class."""

    images: GroupAction

    def __init__(self, group: SymmetryGroup, images: GroupAction):
        vars(self).update(group=group, images=images, exact=images.exact, name="masks of class numbers")

    def check_signals(self, name: str, x: ArrayLike) -> None:
        """Raise unless x holds one whole number per pixel."""
        if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[-1] != 1):
            raise ShapeError(name, x.shape, "masks (N, H, W)")
        if x.dtype.kind == "f" and not (x == np.round(x)).all():
            raise ShapeError(
                name, "other than whole numbers", "class numbers of masks", "soft masks are 'images'", verb="holds"
            )
        self.images.check_signals(name, np.asarray(x).reshape(*x.shape[:3], 1))

    def __call__(self, g: Element, x: ArrayLike) -> np.ndarray:
        """Moved masks; a position between pixels gets the class whose interpolated indicator mask is largest."""
        batch = np.ascontiguousarray(x.reshape(*x.shape[:3], 1))
        if self.images.moves_exactly(g):
            return np.asarray(self.images(g, batch)).reshape(x.shape).astype(x.dtype)
        classes = np.unique(batch)
        masks = np.asarray(self.images(g, (batch == classes).astype(np.float64)))
        background = 1 - masks.sum(axis=-1)  # pixels from outside the image are class 0
        masks[..., 0] += background if classes[0] == 0 else 0.0
        return classes[masks.argmax(axis=-1)].reshape(x.shape).astype(x.dtype)

    def moves_exactly(self, g: Element) -> bool:
        """Whether g maps pixels to pixels."""
        return self.images.moves_exactly(g)
