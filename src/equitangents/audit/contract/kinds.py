"""Kinds of arrays by their action: `Custom`, `Boxes`, `Keypoints`, `Labels`.

`Labels`: class c goes to p[c]. ρ(g) of scores (N, K) is (ρ(g) y)[p_g[c]] = y[c]; of class numbers (N,) ρ(g) c = p_g[c].
The maps of the generators extend to all elements of a finite group by ρ(a·s) = ρ(a) ρ(s) along shortest words; all
other words then test whether ρ respects products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, final

import numpy as np
from jaxtyping import Int

from equitangents._types import Element, Tree
from equitangents.actions.kinds import Kinds
from equitangents.actions.positions import check_permutation_table
from equitangents.actions.unchecked import FunctionMap, ImageBoxes, ImagePoints, UncheckedAction
from equitangents.audit.contract.leaf_actions import LeafAction, LeafKind, Place
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import Group, SymmetryGroup
from equitangents.groups.families import check_permutations


@final
class Custom(LeafKind):
    """Any map x ↦ function(g, x) as the action of a named group on one array, for `inputs=` or `output_action`.

    g is an angle in degrees (SO2), a 3×3 matrix (SO3, O3), a permutation (S_n), or a number of a finite group. NumPy
    in, NumPy out. Whether it respects products is checked on the largest inputs; `exact=False` allows 20 % for
    resampling.

    >>> import equitangents as et
    >>> tensors = et.audit.Custom(lambda R, x: R @ x @ R.T, name="tensors")
    >>> x = np.random.default_rng(0).normal(size=(10, 3, 3))
    >>> et.audit(lambda x: np.trace(x, axis1=1, axis2=2), "SO3", x, inputs=tensors, off_data=False).verdict
    'equivariant'
    """

    by_name = False

    def __init__(self, function: Callable[[Any, np.ndarray], Any], *, exact: bool = True, name: str = "custom action"):
        self.function, self.exact, self.name = function, exact, name

    def leaf(self, place: Place, items: LeafAction | None = None) -> LeafAction:
        """The action given by the function."""
        return LeafAction(CustomAction(place.group, self.function, self.name, exact=self.exact))


class CustomAction(FunctionMap):
    """An action given by a function of the user's."""


def unmoved(group: SymmetryGroup, name: str) -> CustomAction:
    """The trivial action."""
    return CustomAction(group, lambda g, x: x, name)


BoxFormat = Literal["xyxy", "cxcywh"]
Pixels = Literal["edges", "centres"]


class InImages(LeafKind):
    """Coordinates in images of a `size`, `normalized` or in pixels."""

    def __init__(self, size: tuple[int, int] | None, normalized: bool, pixels: Pixels) -> None:
        if pixels not in ("edges", "centres"):
            error = InvalidArgumentError if isinstance(pixels, str) else InvalidTypeError
            raise error(f"pixels is {pixels!r}; expected 'edges' or 'centres'")
        self.size, self.normalized, self.pixels = size, normalized, pixels

    def _rotations(self, place: Place, what: str) -> tuple[Kinds, tuple[float, float]]:
        """(the group that rotates images of this grid, (x, y) of their centre)."""
        kinds, size = place.kinds, self.size or place.grid
        if kinds is None or kinds.space != "plane":
            group = None if kinds is None else kinds.group.name
            raise InvalidArgumentError("action", group, f"C4, D4, SO2, …, which rotate {what} in images")
        if self.normalized:
            return kinds, (0.5, 0.5)
        if size is None or len(size) != 2:
            raise InvalidArgumentError("size", None, "(H, W) of the images, as no input is an image")
        less = 1 if self.pixels == "centres" else 0
        return kinds, ((size[1] - less) / 2, (size[0] - less) / 2)


@final
class Boxes(InImages):
    """Boxes in images (N, …, 4), for `output_action` or `inputs` of an audit; further numbers stay.

    Args:
        format: "xyxy", two corners, or "cxcywh", centre and sides; x to the right, y down, in pixels.
        size: (H, W) of the images; None: that of the model's images.
        normalized: whether coordinates reach from 0 to 1.
        pixels: what whole numbers are, the "edges" of pixels (an image of W pixels reaches from 0 to W) or their
            "centres" (from 0 to W − 1).

    Rows of zeros are not boxes and stay. Boxes rotate only by multiples of 90°, since others are not boxes.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(10, 6, 6, 1))
    >>> brightest = lambda x: np.abs(x).max((1, 2))  # (10, 1)
    >>> around = lambda x: 3 + brightest(x) * [-1, -1, 1, 1]  # about the centre of the image
    >>> et.audit(around, "C4", x, et.audit.Boxes("xyxy"), off_data=False).verdict
    'equivariant'
    """

    def __init__(
        self,
        format: BoxFormat = "xyxy",
        *,
        size: tuple[int, int] | None = None,
        normalized: bool = False,
        pixels: Pixels = "edges",
    ) -> None:
        if format not in ("xyxy", "cxcywh"):
            raise InvalidArgumentError("format", format, "'xyxy' or 'cxcywh'")
        super().__init__(size, normalized, pixels)
        self.format = format

    def leaf(self, place: Place, items: LeafAction | None = None) -> LeafAction:
        """The action on such boxes, of images of this grid."""
        rotations, centre = self._rotations(place, "boxes")
        return LeafAction(ImageBoxes(rotations.group, rotations.motion, centre, self.format == "cxcywh"))


@final
class Keypoints(InImages):
    """Points in images (N, …, 2), x to the right and y down, for `output_action` or `inputs` of an audit.

    Args:
        size: (H, W) of the images; None: that of the model's images.
        normalized: whether coordinates reach from 0 to 1.
        pixels: what whole numbers are, the "centres" of pixels (an image of W pixels reaches from 0 to W − 1), or their
            "edges" (from 0 to W).
        swapped: which point every point becomes under a reflection, as left and right hands do; [1, 0, 2].

    Further columns, such as visibility, stay.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).random(size=(10, 6, 6, 1))
    >>> def brightest(x):
    ...     i, j = np.divmod(x.reshape(len(x), -1).argmax(1), 6)
    ...     return np.stack([j, i], axis=1)
    >>> et.audit(brightest, "D4", x, et.audit.Keypoints(), off_data=False).verdict
    'equivariant'
    """

    def __init__(
        self,
        *,
        size: tuple[int, int] | None = None,
        normalized: bool = False,
        pixels: Pixels = "centres",
        swapped: Sequence[int] | None = None,
    ) -> None:
        super().__init__(size, normalized, pixels)
        self.swapped = None if swapped is None else check_permutations("swapped", [swapped])[0]
        if self.swapped is not None and (self.swapped[self.swapped] != np.arange(len(self.swapped))).any():
            raise InvalidArgumentError("swapped", swapped, remedy="done twice it must leave every point where it was")

    def leaf(self, place: Place, items: LeafAction | None = None) -> LeafAction:
        """The action on such points, of images of this grid."""
        rotations, centre = self._rotations(place, "keypoints")
        return LeafAction(ImagePoints(rotations.group, rotations.motion, centre, self.swapped))


def spelled(group: Group, of_generators: Sequence[np.ndarray]) -> Int[np.ndarray, "order classes"]:
    """The permutation of every element, by its shortest word in the generators: ρ(a·s) = ρ(a) ρ(s)."""
    maps = {int(group.identity): np.arange(len(of_generators[0]))}
    reached = [int(group.identity)]
    for a in reached:  # grows while it is read
        for s, p in zip(group.generators, of_generators, strict=True):
            b = int(group.compose(a, s))
            if b not in maps:
                maps[b] = maps[a][p]
                reached.append(b)
    return np.stack([maps[g] for g in range(group.order)])


@final
class Labels(LeafKind):
    """Permutation of classes or channels: class c goes to `permutation[c]`, for `output_action` of an audit.

    Args:
        permutation: that of the generator, for groups with one, such as C4 (rotation by 90°); for others a list of
            permutations, one for each generator in the order of `group.generators`, or one for each element.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
    >>> corners = lambda x: np.stack([x[:, 0, 0, 0], x[:, 0, 3, 0], x[:, 3, 3, 0], x[:, 3, 0, 0]], axis=1)
    >>> et.audit(corners, "C4", x, et.audit.Labels([3, 0, 1, 2]), off_data=False).verdict
    'equivariant'
    """

    by_name = False

    def __init__(self, permutation: Sequence[int] | Sequence[Sequence[int]] | np.ndarray) -> None:
        flat = not isinstance(permutation, Sequence | np.ndarray) or not any(map(np.ndim, permutation))
        self.rows = check_permutations("permutation", [permutation] if flat else permutation)

    def leaf(self, place: Place, items: LeafAction | None = None) -> LeafAction:
        """The action given by the table."""
        return LeafAction(LabelsAction(place.group, self.table(place.group)), place.channels)

    def table(self, group: SymmetryGroup) -> Int[np.ndarray, "order classes"]:
        """The permutation of every element; raises NotAnActionError if products are not respected."""
        if not isinstance(group, Group):
            raise InvalidArgumentError("Labels", group, "the generators of a finite group", verb="permute classes by")
        count = len(group.generators)
        if len(self.rows) not in (count, group.order):
            names = ", ".join(group.label(g) for g in group.generators)
            remedy = f"one permutation for each generator ({names})"
            raise InvalidArgumentError("Labels", len(self.rows), count, remedy, verb="has length")
        whole = len(self.rows) == group.order and count != group.order
        table = self.rows if whole else spelled(group, list(self.rows))
        return check_permutation_table("Labels", group, table)

    def __repr__(self) -> str:
        return f"equitangents.audit.Labels({(self.rows[0] if len(self.rows) == 1 else self.rows).tolist()})"


@final
class LabelsAction(UncheckedAction):
    """A table of permutations (|G|, K) that respects products, on scores and on class numbers."""

    permutes_entries = True
    table: np.ndarray

    def __init__(self, group: SymmetryGroup, table: np.ndarray):
        vars(self).update(group=group, table=table, name=f"permutation of {table.shape[1]} classes")

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """The last axis has one entry a class, or class numbers are below their number."""
        K = self.table.shape[1]
        if x.dtype.kind == "i":
            if x.size and not (x.min() >= 0 and x.max() < K):
                raise ShapeError(name, int(x.max()), range(K), "the classes of Labels", verb="holds class")
        elif x.shape[-1] != K:
            raise ShapeError(name, x.shape, (..., K), "the classes of Labels")

    def __call__(self, g: Element, x: Tree) -> np.ndarray:
        """(ρ(g) x)[p[c]] = x[c]; p[x] for class numbers, of which those beyond the table stay."""
        p = self.table[g]
        if x.dtype.kind != "i":
            return x[..., np.argsort(p)]
        known = (x >= 0) & (x < len(p))
        return np.where(known, p[np.where(known, x, 0)], x)

    def _key(self) -> tuple[Any, ...]:
        return (self.table.shape, self.table.tobytes())


def cycles(p: np.ndarray) -> str:
    """A permutation as cycles of classes: "0→3→2→1", or "0→1, 2→4→3"; "" for the identity.

    >>> cycles(np.array([3, 0, 1, 2]))
    '0→3→2→1'
    """
    seen: set[int] = set()
    parts = []
    for start in range(len(p)):
        cycle = [start]
        while (following := int(p[cycle[-1]])) != start:
            cycle.append(following)
        if start not in seen and len(cycle) > 1:
            parts.append("→".join(map(str, cycle)))
        seen.update(cycle)
    return ", ".join(parts)
