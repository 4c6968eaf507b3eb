"""Groups by name, and what each may do to an array: "images", "vectors", "points", …

| group | kinds |
|---|---|
| C4, D4, C16, SO2 | images, vectors (N, …, 2), matrices (N, …, 2, 2) |
| SO3, O3, tetrahedral, octahedral, icosahedral | vectors (N, …, 3), pseudovectors, matrices (N, …, 3, 3) |
| S_n, S5 | points (N, P, …), pairs (N, P, P, …), edges: arrays of point numbers |
| translations | images, that is signals on a grid, shifted around |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equitangents import actions, groups
from equitangents.actions.remedies import flattened
from equitangents.audit.contract.haar import O3, SO2, SO3, Permutations, rotation_angle
from equitangents.audit.contract.leaf_actions import (
    ImageTurns,
    Layout,
    LeafAction,
    OnLastAxis,
    PermuteAxes,
    RelabelIndices,
    Wrapped,
    spatial,
)
from equitangents.audit.contract.symmetry import Finite, Symmetry
from equitangents.audit.contract.trees import Inputs, Shared
from equitangents.errors import InvalidArgumentError
from equitangents.groups.names import parse_group_name

_KINDS = {
    "plane": ("images", "vectors", "matrices"),
    "space": ("vectors", "pseudovectors", "matrices"),
    "permutations": ("points", "pairs", "edges"),
    "translations": ("images",),
}
_LARGEST_TABLE = 5  # S_5 has 120 elements; larger ones are sampled


@dataclass(frozen=True, eq=False)
class Preset:
    """A named group with the ways in which it acts; `motion` gives (degrees, reflected), a matrix or a permutation."""

    family: str
    symmetry: Symmetry
    motion: Callable[[Any], Any]

    def leaf(self, kind: str, shape: tuple[int, ...], layout: Layout | None) -> LeafAction | None:
        """The action of this kind on arrays of this shape."""
        if kind in ("none", "invariant"):
            return None
        if kind not in _KINDS[self.family]:
            known = ", ".join(map(repr, _KINDS[self.family]))
            raise InvalidArgumentError(f"{kind!r} is not what {self.symmetry.name} acts on; expected {known} or None")
        return getattr(self, f"_{self.family}")(kind, shape, layout or "channels_last")

    def kind_of(self, name: str, x: Any) -> str:
        """What an only input must be; an error where that would be a guess."""
        if isinstance(x, Shared):
            raise InvalidArgumentError(f"{name} is Shared; the group must move some input")
        if self.family == "permutations":
            return "points"
        if self.family == "translations":
            return "images"
        d = 2 if self.family == "plane" else 3
        candidates = ["vectors"] if x.ndim in (2, 3) and x.shape[-1] == d else []
        if self.family == "plane" and x.ndim == 4:
            candidates.append("images")
        if len(candidates) != 1:
            raise InvalidArgumentError(
                f"{name} has shape {x.shape}; {self.symmetry.name} acts on vectors (N, {d}) or (N, P, {d})"
                + (", or on images of rank 4" if d == 2 else "")
                + "; say with inputs= what it is"
                + (flattened("x", x.shape) if d == 2 else "")
            )
        return candidates[0]

    def fitted(self, x: Inputs, kinds: Sequence[Any], layout: Layout | None) -> Preset:
        """With the number of points, or the grid, taken from the inputs."""
        chosen = [(k, leaf) for k, leaf in zip(kinds, x.leaves, strict=True) if isinstance(k, str) and k != "none"]
        if self.family == "permutations":
            sizes = {leaf.shape[1] for kind, leaf in chosen if kind in ("points", "pairs")}
            n = getattr(self.symmetry, "n", 0) or (len(sizes) == 1 and sizes.pop())
            if not n:
                raise InvalidArgumentError("the number of points is not plain from the inputs; give it, e.g. 'S5'")
            return _permutations(int(n))
        if self.family == "translations":
            shapes = {spatial(leaf.shape, layout) for kind, leaf in chosen if kind == "images"}
            if len(shapes) != 1:
                raise InvalidArgumentError(f"translations need inputs on one grid; found grids {sorted(shapes)}")
            return replace(self, symmetry=Finite(groups.translations(shapes.pop())))
        return self

    def _plane(self, kind: str, shape: tuple[int, ...], layout: Layout) -> LeafAction:
        if kind == "images":
            if isinstance(self.symmetry, Finite):
                order = self.symmetry.group.order
                reflects = self.motion(order - 1)[1]
                n = order // 2 if reflects else order
                if n in (1, 2, 4):
                    exact = actions.image_dihedral(n) if reflects else actions.image_rotations(n)
                    return Wrapped(exact, layout)
            return ImageTurns(self.motion, layout)
        name = f"{'vectors' if kind == 'vectors' else 'matrices'} of the plane"
        return OnLastAxis(lambda g: _plane_matrix(*self.motion(g)), 2, name, 1 if kind == "vectors" else 2)

    def _space(self, kind: str, shape: tuple[int, ...], layout: Layout) -> LeafAction:
        if kind == "pseudovectors":
            signed = lambda g: round(np.linalg.det(self.motion(g))) * self.motion(g)
            return OnLastAxis(signed, 3, "pseudovectors of space")
        return OnLastAxis(self.motion, 3, f"{kind} of space", 1 if kind == "vectors" else 2)

    def _permutations(self, kind: str, shape: tuple[int, ...], layout: Layout) -> LeafAction:
        n = len(self.motion(self.symmetry.identity))
        if kind == "edges":
            return RelabelIndices(n, self.motion)
        axes = (1,) if kind == "points" else (1, 2)
        return PermuteAxes(n, axes, f"permutations of {n} {kind}", self.motion)

    def _translations(self, kind: str, shape: tuple[int, ...], layout: Layout) -> LeafAction:
        return Wrapped(actions.translations(spatial(shape, layout)), layout)


def parse_group(name: str, x: Inputs) -> Preset:
    """The group called `name`: C4, D4, C16, SO2, SO3, O3, S5, S_n, translations, octahedral, …

    Raises InvalidArgumentError for other names.
    """
    named = parse_group_name("group", name)
    if named.family in ("C", "D"):
        return _cyclic(named.n or 1) if named.family == "C" else _dihedral(named.n or 1)
    if named.family == "S":
        return Preset("permutations", Permutations(0), lambda g: g) if named.n is None else _permutations(named.n)
    if named.family == "SO2":
        return Preset("plane", SO2(), lambda g: (g, False))
    if named.family in ("SO3", "O3"):
        return Preset("space", SO3() if named.family == "SO3" else O3(), lambda g: g)
    if named.family == "translations":
        return Preset("translations", SO2(), lambda g: g)  # the grid comes with the inputs
    group = getattr(groups, named.family)()
    return Preset(
        "space", Finite(group, [rotation_angle(m) for m in group.matrices], named.family), group.matrices.__getitem__
    )


def _cyclic(n: int) -> Preset:
    return Preset(
        "plane", Finite(groups.cyclic(n), [360.0 * g / n for g in range(n)]), lambda g: (360.0 * g / n, False)
    )


def _dihedral(n: int) -> Preset:
    angles = [360.0 * k / n for k in range(n)]
    return Preset(
        "plane", Finite(groups.dihedral(n), [*angles, *([None] * n)]), lambda g: (360.0 * (g % n) / n, g >= n)
    )


def _permutations(n: int) -> Preset:
    if n > _LARGEST_TABLE:
        return Preset("permutations", Permutations(n), lambda g: g)
    group = groups.symmetric(n)
    return Preset("permutations", Finite(group), lambda g: np.array(group.element(g)))


def _plane_matrix(degrees: float, reflected: bool) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.array([[c, -s], [s, c]])
    # images are reflected left to right: the first coordinate changes sign
    return turn @ np.diag([-1.0, 1.0]) if reflected else turn
