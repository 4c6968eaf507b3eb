"""What a group that is called by its name does to an array, once one says what the array holds: "images", "vectors", …

| group | kinds |
|---|---|
| C4, D4, C16, SO2 | images, vectors (N, …, 2), matrices (N, …, 2, 2) |
| SO3, O3, tetrahedral, octahedral, icosahedral | vectors (N, …, 3), pseudovectors, matrices (N, …, 3, 3) |
| S_n, S5 | points (N, P, …), pairs (N, P, P, …), edges: arrays of point numbers |
| translations | images, that is signals on a grid, shifted around |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equitangents.actions.group_action import GroupAction
from equitangents.actions.image_motions import ImageMotions, Motion
from equitangents.actions.images import exact_rotations, image_dihedral
from equitangents.actions.matrices import MatrixAction
from equitangents.actions.permuted_axes import PermutedAxes, RelabelledIndices
from equitangents.actions.positions import GridMotions
from equitangents.errors import InvalidArgumentError
from equitangents.groups import Permutations as AllPermutations
from equitangents.groups import PlaneRotations, RotationGroup, SymmetryGroup
from equitangents.groups.names import GroupName

Space = Literal["plane", "space", "permutations", "translations"]
KINDS: dict[Space, tuple[str, ...]] = {
    "plane": ("images", "vectors", "matrices"),
    "space": ("vectors", "pseudovectors", "matrices"),
    "permutations": ("points", "pairs", "edges"),
    "translations": ("images",),
}


def space_of(named: GroupName) -> Space:
    """Where a named group moves things."""
    if named.family in ("C", "D", "SO2"):
        return "plane"
    if named.family == "S":
        return "permutations"
    return "translations" if named.family == "translations" else "space"


@dataclass(frozen=True, eq=False)
class Kinds:
    """The actions of one group on arrays of every kind that it moves."""

    space: Space
    group: SymmetryGroup
    motion: Callable[[Any], Any]
    """Of an element: (degrees, reflected) in the plane, a matrix of space, a permutation."""

    def action(self, kind: str, shape: tuple[int, ...]) -> GroupAction:
        """The action of this kind on arrays of this shape, channels last."""
        if kind not in KINDS[self.space]:
            known = ", ".join(map(repr, KINDS[self.space]))
            raise InvalidArgumentError(f"{kind!r} is not what {self.group.name} acts on; expected {known} or None")
        return _ACTIONS[self.space](self, kind, shape)

    def angle(self, g: Any) -> float | None:
        """Degrees, if g is a rotation."""
        if self.space != "plane":
            return self.group.angle(g)
        degrees, reflected = self.motion(g)
        return None if reflected else degrees


def kinds_named(named: GroupName, group: SymmetryGroup) -> Kinds:
    """What a group does that was called by this name."""
    if named.family in ("C", "D"):
        return Kinds("plane", group, turns_of(named.family, named.n or 1))
    matrices = getattr(group, "matrices", None)
    if named.family in ("tetrahedral", "octahedral", "icosahedral") and matrices is not None:
        return Kinds("space", group, matrices.__getitem__)
    if named.family == "S" and group.elements is not None:
        return Kinds("permutations", group, lambda g: np.array(group.element(g)))  # type: ignore[attr-defined]
    return Kinds("translations", group, lambda g: g) if named.family == "translations" else kinds_of(group)  # type: ignore[return-value]


def kinds_of(group: SymmetryGroup) -> Kinds | None:
    """What a group does of which elements say it themselves, as angles or matrices do; None where numbers do not."""
    if isinstance(group, PlaneRotations):
        return Kinds("plane", group, lambda g: (g, False))
    if isinstance(group, RotationGroup):
        return Kinds("space", group, lambda g: g)
    return Kinds("permutations", group, lambda g: g) if isinstance(group, AllPermutations) else None


def turns_of(family: str, n: int) -> Motion:
    """Element f·n + k of C_n or D_n reflects f times, then turns by k·360°/n."""
    if family == "C":
        return lambda g: (360.0 * g / n, False)
    return lambda g: (360.0 * (g % n) / n, g >= n)


def plane_matrix(degrees: float, reflected: bool) -> np.ndarray:
    """What a motion of images does to vectors of the plane."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.array([[c, -s], [s, c]])
    # images are reflected left to right: the first coordinate changes sign
    return turn @ np.diag([-1.0, 1.0]) if reflected else turn


def _in_the_plane(kinds: Kinds, kind: str, shape: tuple[int, ...]) -> GroupAction:
    if kind == "images":
        return _exact_turns(kinds) or ImageMotions(kinds.group, kinds.motion)
    matrix = lambda g: plane_matrix(*kinds.motion(g))
    return MatrixAction(kinds.group, matrix, 2, f"{kind} of the plane", 1 if kind == "vectors" else 2)


def _exact_turns(kinds: Kinds) -> GroupAction | None:
    """Turns that take pixels to pixels."""
    if kinds.group.elements is None:
        return None
    order = len(kinds.group.elements)
    reflects = kinds.motion(order - 1)[1]
    n = order // 2 if reflects else order
    if n not in (1, 2, 4):
        return None
    return image_dihedral(n) if reflects else exact_rotations(n)


def _in_space(kinds: Kinds, kind: str, shape: tuple[int, ...]) -> GroupAction:
    motion = kinds.motion
    if kind == "pseudovectors":
        signed = lambda g: round(np.linalg.det(motion(g))) * motion(g)
        return MatrixAction(kinds.group, signed, 3, "pseudovectors of space")
    return MatrixAction(kinds.group, motion, 3, f"{kind} of space", 1 if kind == "vectors" else 2)


def _of_points(kinds: Kinds, kind: str, shape: tuple[int, ...]) -> GroupAction:
    n = len(kinds.motion(kinds.group.identity))
    if kind == "edges":
        return RelabelledIndices(kinds.group, n, kinds.motion)
    axes = (1,) if kind == "points" else (1, 2)
    return PermutedAxes(kinds.group, n, axes, f"permutations of {n} {kind}", kinds.motion)


def _on_a_grid(kinds: Kinds, kind: str, shape: tuple[int, ...]) -> GroupAction:
    return GridMotions(kinds.group)  # type: ignore[arg-type]


_ACTIONS: dict[Space, Callable[[Kinds, str, tuple[int, ...]], GroupAction]] = {
    "plane": _in_the_plane,
    "space": _in_space,
    "permutations": _of_points,
    "translations": _on_a_grid,
}
