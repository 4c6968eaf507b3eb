"""Actions of named groups on arrays of each kind: "images", "vectors", …

| group | kinds |
|---|---|
| C4, D4, C16, SO2 | images (N, H, W, C), (N, H, W) and, frame by frame, (N, T, H, W, C), vectors (N, …, 2), matrices
  (N, …, 2, 2), voigt (N, …, 3), complex states, whose phase rotates; of C5 also 5 features, shifted cyclically |
| SO3, O3, tetrahedral, octahedral, icosahedral | vectors (N, …, 3), pseudovectors, matrices (N, …, 3, 3), voigt
  (N, …, 6) |
| S_n, S5 | points (N, P, …), also called nodes, rows or sets; pairs (N, P, P, …), edges: arrays of point numbers |
| translations | images, that is signals on a grid, shifted cyclically; sequences (N, T) or (N, T, C) |
| reversal | sequences, reversed in time |
| sign | values, x ↦ −x |

Used by audits, which draw elements, and by measures and ensembles, which need an `Action` of a finite group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import AnyAction, Element
from equitangents.actions.action import Action, GroupAction, check_group, image_hint
from equitangents.actions.compact import from_function
from equitangents.actions.images import ImageMotions, ImageStacks, image_dihedral, image_rotations
from equitangents.actions.positions import GridMotions, permutations
from equitangents.actions.subset import ActionSubset
from equitangents.actions.unchecked import (
    FunctionMap,
    MatrixAction,
    PermutedAxes,
    RelabelledIndices,
    check_sequences,
    check_signed,
    circular_shifts,
    phase_turns,
    voigt_matrix,
)
from equitangents.actions.vectors import channels, linear, rotations
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import SymmetryGroup, cyclic, symmetric
from equitangents.groups.families import Permutations as AllPermutations
from equitangents.groups.names import FAMILIES, GroupName, Space, parse_group_name
from equitangents.groups.plane_rotations import PlaneRotations
from equitangents.groups.rotation_group import RotationGroup

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ArrayKind:
    """The actions of some groups on arrays of one kind."""

    action: Callable[[Kinds, Shape], GroupAction] | None
    """The action on arrays of this shape, channels last, for any elements; None: only `listed` is known."""
    listed: Callable[[Kinds, Shape], Action] | None = None
    """The same action of a group whose elements are listed, as networks and kernels use it."""
    recognised: Callable[[Kinds, Shape], bool] = lambda kinds, shape: False
    """Whether an array of this shape is taken to be of this kind if nobody says what it is."""
    expected: str = ""
    """The shapes that are recognised, as text."""
    sought: bool = True
    """Whether outputs of unknown motion are tried as this kind."""


@dataclass(frozen=True, eq=False)
class Kinds:
    """The actions of one group on arrays of every kind."""

    space: Space
    group: SymmetryGroup
    motion: Callable[[Any], Any]
    """Of an element: (degrees, reflected) in the plane, a matrix of space, a permutation."""

    def action(self, kind: str, shape: Shape) -> GroupAction:
        """The action of this kind on arrays of this shape, channels last."""
        kind = _ALSO.get(kind, kind) if self.space == "permutations" else kind
        known = {name: entry.action for name, entry in KINDS[self.space].items() if entry.action is not None}
        if kind not in known:
            raise InvalidArgumentError("kind", kind, [*known, None], str(self.group.name))
        return known[kind](self, shape)

    def recognised(self, shape: Shape) -> list[str]:
        """The names of the kinds that an array of this shape (channels last) may be."""
        return [name for name, kind in KINDS[self.space].items() if kind.recognised(self, shape)]

    def listed(self, kind: str, shape: Shape) -> Action | None:
        """`action` for networks and kernels, of a group whose elements are listed; None if there is none."""
        make = KINDS[self.space][kind].listed
        return None if make is None else make(self, shape)

    def expected(self) -> list[str]:
        """Descriptions of the array shapes whose kind is recognised."""
        return [kind.expected for kind in KINDS[self.space].values() if kind.expected]

    def angle(self, g: Element) -> float | None:
        """Rotation angle in degrees; None if g is not a rotation."""
        if self.space != "plane":
            return self.group.angle(g)
        degrees, reflected = self.motion(g)
        return None if reflected else degrees


def kinds_named(named: GroupName, group: SymmetryGroup) -> Kinds:
    """Actions of the group with this name."""
    return Kinds(named.space, group, FAMILIES[named.family].motion(group))


def kinds_of(group: SymmetryGroup) -> Kinds | None:
    """Actions of a group whose elements are angles or matrices; None for numbered elements."""
    families = {PlaneRotations: "SO2", RotationGroup: "SO3", AllPermutations: "S"}
    family = families.get(type(group))
    return None if family is None else kinds_named(GroupName(family), group)


def plane_matrix(degrees: float, reflected: bool) -> np.ndarray:
    """Matrix of an image motion on vectors of the plane."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.array([[c, -s], [s, c]])
    # images are reflected left to right: the first coordinate changes sign
    return turn @ np.diag([-1.0, 1.0]) if reflected else turn


def _order(kinds: Kinds) -> int:
    assert kinds.group.elements is not None
    return len(kinds.group.elements)


def _rotation_order(kinds: Kinds) -> tuple[int, bool]:
    """(n, whether the group has reflections) of C_n or D_n."""
    order = _order(kinds)
    reflects = bool(kinds.motion(order - 1)[1])
    return (order // 2 if reflects else order), reflects


def _images(kinds: Kinds, shape: Shape) -> GroupAction:
    """The action on images, grey images or frames: exact if pixels go to pixels, else by splines."""
    if len(shape) in (3, 5):
        return ImageStacks(_images(kinds, (1, 1, 1, 1)), grey=len(shape) == 3)
    if kinds.group.elements is not None and _rotation_order(kinds)[0] in (1, 2, 4):
        return _listed_images(kinds, shape)
    return ImageMotions(kinds.group, kinds.motion)


def _listed_images(kinds: Kinds, shape: Shape) -> Action:
    n, reflects = _rotation_order(kinds)
    return image_dihedral(n) if reflects else image_rotations(n)


def _plane_tensors(rank: int, name: str) -> Callable[[Kinds, Shape], GroupAction]:
    of_plane = f"{name} of the plane"
    return lambda kinds, shape: MatrixAction(kinds.group, lambda g: plane_matrix(*kinds.motion(g)), 2, of_plane, rank)


def _shifts(kinds: Kinds, shape: Shape) -> Action:
    n = shape[1]
    shifts = (np.arange(n)[:, None] + np.arange(n)) % n
    return linear(cyclic(n), np.eye(n)[shifts].transpose(0, 2, 1))


def _is_shifted(kinds: Kinds, shape: Shape) -> bool:
    return len(shape) == 2 and kinds.group.elements is not None and _rotation_order(kinds) == (shape[1], False)


def _space_tensors(rank: int, name: str) -> Callable[[Kinds, Shape], GroupAction]:
    return lambda kinds, shape: MatrixAction(kinds.group, kinds.motion, 3, f"{name} of space", rank)


def _pseudovectors(kinds: Kinds, shape: Shape) -> GroupAction:
    signed = lambda g: round(np.linalg.det(kinds.motion(g))) * kinds.motion(g)
    return MatrixAction(kinds.group, signed, 3, "pseudovectors of space")


def _points(axes: tuple[int, ...], name: str) -> Callable[[Kinds, Shape], GroupAction]:
    def action(kinds: Kinds, shape: Shape) -> GroupAction:
        n = len(kinds.motion(kinds.group.identity))
        return PermutedAxes(kinds.group, n, axes, f"permutations of {n} {name}", kinds.motion)

    return action


def _listed_points(kinds: Kinds, shape: Shape) -> Action:
    """The action on points (N, P, C), or on P features (N, P)."""
    group = check_group("group", kinds.group)
    table = np.array([kinds.motion(g) for g in range(_order(kinds))])
    if len(shape) == 3:
        return permutations(group, table)
    return linear(group, np.eye(shape[1])[table].transpose(0, 2, 1))


def _voigt(doubled: bool) -> Callable[[Kinds, Shape], GroupAction]:
    def action(kinds: Kinds, shape: Shape) -> GroupAction:
        matrix, count = (kinds.motion, 6) if kinds.space == "space" else (lambda g: plane_matrix(*kinds.motion(g)), 3)
        name = f"voigt {'strains, with a factor 2 off the diagonal' if doubled else 'stresses'}"
        return MatrixAction(kinds.group, lambda g: voigt_matrix(matrix(g), doubled), count, name)

    return action


_ALSO = {"nodes": "points", "rows": "points", "sets": "points"}
_VOIGT = {"voigt": ArrayKind(_voigt(False), sought=False), "voigt:strain": ArrayKind(_voigt(True), sought=False)}
_reversed = lambda g, x: x[:, ::-1] if g else x
_negated = lambda g, x: -x if g else x
_are_sequences = lambda kinds, shape: len(shape) in (2, 3)
_vectors_of = lambda d: lambda kinds, shape: len(shape) in (2, 3) and shape[-1] == d
KINDS: dict[Space, dict[str, ArrayKind]] = {
    "plane": {
        "images": ArrayKind(_images, _listed_images, lambda k, shape: len(shape) == 4, "images (N, H, W, C)"),
        "vectors": ArrayKind(
            _plane_tensors(1, "vectors"),
            lambda kinds, shape: channels(
                kinds.group,  # type: ignore[arg-type]
                np.array([plane_matrix(*kinds.motion(g)) for g in range(_order(kinds))]),
            ),
            _vectors_of(2),
            "vectors of the plane (N, …, 2)",
        ),
        "features": ArrayKind(None, _shifts, _is_shifted, "(N, n) for cyclic shifts of features by C_n"),
        "matrices": ArrayKind(_plane_tensors(2, "matrices")),
        **_VOIGT,
        "states": ArrayKind(lambda kinds, shape: phase_turns(kinds.group, kinds.motion), sought=False),
    },
    "space": {
        "vectors": ArrayKind(
            _space_tensors(1, "vectors"),
            lambda kinds, shape: rotations(kinds.group),  # type: ignore[call-overload]
            _vectors_of(3),
            "vectors of space (N, 3) or (N, P, 3)",
        ),
        "pseudovectors": ArrayKind(_pseudovectors),
        "matrices": ArrayKind(_space_tensors(2, "matrices")),
        **_VOIGT,
    },
    "permutations": {
        "points": ArrayKind(
            _points((1,), "points"),
            _listed_points,
            lambda kinds, shape: len(shape) in (2, 3),
            "features (N, P) or points (N, P, C)",
        ),
        "pairs": ArrayKind(_points((1, 2), "pairs")),
        "edges": ArrayKind(
            lambda k, shape: RelabelledIndices(k.group, len(k.motion(k.group.identity)), k.motion), sought=False
        ),
    },
    "translations": {
        "images": ArrayKind(
            lambda kinds, shape: GridMotions(kinds.group),  # type: ignore[arg-type]
            lambda kinds, shape: GridMotions(kinds.group),  # type: ignore[arg-type]
            lambda kinds, shape: len(shape) >= 3,
            "signals on a grid (N, *positions, C)",
        ),
        "sequences": ArrayKind(lambda kinds, shape: circular_shifts(kinds.group, len(shape) == 3), sought=False),  # type: ignore[arg-type]
    },
    "reversal": {
        "sequences": ArrayKind(
            lambda kinds, shape: FunctionMap(
                kinds.group, _reversed, "sequences, reversed", check_sequences, len(shape) == 3
            ),
            lambda kinds, shape: from_function(kinds.group, _reversed, name="reversal of sequences"),  # type: ignore[arg-type, return-value]
            _are_sequences,
            "sequences (N, T) or (N, T, C)",
        )
    },
    "sign": {
        "values": ArrayKind(
            lambda kinds, shape: FunctionMap(kinds.group, _negated, "values, with the other sign", check_signed),
            lambda kinds, shape: from_function(kinds.group, _negated, name="change of sign"),  # type: ignore[arg-type, return-value]
            lambda kinds, shape: len(shape) >= 2,
            "arrays of numbers (N, …)",
        )
    },
}


ActionLike = GroupAction | ActionSubset | str
"""An action, some elements of one, or the name of a group."""


def as_action(argument: str, action: AnyAction, shape: tuple[int, ...]) -> AnyAction:
    """`action` itself, or the action of the group with this name on inputs of `shape`, (N, …).

    Raises InvalidArgumentError or ShapeError, which name `argument`, if the named group does not act on such inputs.

    >>> as_action("augmentation", "C4", (10, 8, 8, 1))
    <action rotations by 90° of images of C4>
    """
    if not isinstance(action, str):
        return action
    named = parse_group_name(argument, action)
    if instead := FAMILIES[named.family].instead:
        raise InvalidArgumentError(argument, action, "a finite group", instead)
    kinds = kinds_named(named, _group(argument, action, named, shape))
    recognised = kinds.recognised(shape)
    if not recognised:
        inputs = "X" if argument == "augmentation" else "x"
        hint = image_hint(inputs, shape) if named.family in ("C", "D", "translations") else ""
        remedy = f"{inputs} has shape {shape}{hint}"
        raise ShapeError(argument, action, "; ".join(kinds.expected()), remedy, verb="is")
    return kinds.listed(recognised[0], shape)


def _group(argument: str, action: str, named: GroupName, shape: tuple[int, ...]) -> SymmetryGroup:
    """The group with its elements listed; the number of points or the grid comes from the inputs' shape."""
    if named.family != "S":
        group = named.group(grid=shape[1:-1] if len(shape) >= 3 else (1,))
        assert group is not None
        return group
    if len(shape) not in (2, 3):
        return symmetric(1)  # of no matter: such inputs are refused
    if named.n not in (None, shape[1]):
        raise ShapeError(argument, action, "S_n with n the number of points or features", str(shape[1]))
    return symmetric(shape[1])
