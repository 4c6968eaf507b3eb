"""Real orthogonal representations: direct sums of irreps, or user-supplied matrices ρ(g).

A representation of a group restricts to its subgroups: `at(group)` gives the matrices of a network's group, such as
those of an irrep of SO(3) at the 24 rotations of a cube, or of an irrep of C4 on a wallpaper group p4, whose
translations act trivially.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from equitangents._aliases import Element
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.families import cyclic, dihedral
from equitangents.groups.group import Group, in_whole, read_only
from equitangents.groups.irreps import Irrep
from equitangents.groups.matrix_group import MatrixGroup
from equitangents.groups.plane_rotations import PlaneIsometries, PlaneRotations
from equitangents.groups.rotation_group import RotationGroup
from equitangents.groups.rotations_of_space import plane_turns
from equitangents.groups.symmetry_group import CompactIrrep, SymmetryGroup
from equitangents.groups.wallpaper_group import WallpaperGroup

_TOLERANCE = 1e-8  # of ρ(g) ρ(h) = ρ(gh) and of ρ(g) ρ(g)ᵀ = 1
_FLIP = np.diag([1.0, -1.0])


@dataclass(frozen=True)
class FiniteMatrices:
    """The matrices ρ(g) of a finite group's elements, (order, d, d); compared by value."""

    matrices: Float[np.ndarray, "order d d"] = field(compare=False)
    name: str = field(default="matrices", compare=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        m = read_only(np.array(self.matrices, np.float64))
        object.__setattr__(self, "matrices", m)
        object.__setattr__(self, "digest", hashlib.sha256(repr(m.shape).encode() + m.tobytes()).hexdigest())

    @property
    def dimension(self) -> int:
        """The size d of the matrices."""
        return self.matrices.shape[1]

    def __call__(self, g: Element) -> Float[np.ndarray, "d d"]:
        """The matrix of element number g."""
        return self.matrices[g]


Part = FiniteMatrices | CompactIrrep


@dataclass(frozen=True)
class Representation:
    """A direct sum of parts, each an irrep or the matrices of a finite group: ρ(g) is block-diagonal.

    >>> from equitangents.groups import symmetric
    >>> trivial, sign, plane = symmetric(3).irreps("real")
    >>> direct_sum(trivial, plane).dimension
    3
    """

    parts: tuple[Part, ...]

    @cached_property
    def dimension(self) -> int:
        """d, the size of the matrices."""
        return sum(part.dimension for part in self.parts)

    @property
    def name(self) -> str:
        """The names of its parts, joined by plus signs."""
        return " + ".join(part.name for part in self.parts)

    def __call__(self, g: Element) -> Float[np.ndarray, "d d"]:
        """The matrix ρ(g) of an element: a number (finite groups), degrees (SO(2)), or a matrix."""
        return blocks([np.asarray(part(g))[None] for part in self.parts])[0]

    def at(self, group: SymmetryGroup) -> Float[np.ndarray, "elements d d"]:
        """ρ at every element of a finite group, or at the nodes of a compact one, in their order.

        Raises InvalidArgumentError where a part is a representation of another group.
        """
        return blocks([_at(part, group) for part in self.parts])

    def at_matrices(self, g: Float[np.ndarray, "k 3 3"], *, reflections: bool) -> Float[np.ndarray, "k d d"]:
        """ρ of irreps of SO(3), or of O(3) if `reflections`, at orthogonal matrices."""
        return blocks([_in_space(part, g, reflections) for part in self.parts])

    def __add__(self, other: RepresentationLike) -> Representation:
        return direct_sum(self, other)

    def __radd__(self, other: RepresentationLike) -> Representation:
        return direct_sum(other, self)

    def __repr__(self) -> str:
        return f"<representation of dimension {self.dimension}: {self.name}>"


_Summand = Representation | Irrep | CompactIrrep
RepresentationLike = _Summand | np.ndarray | Sequence[_Summand]
"""A representation, an irrep, matrices (order, d, d), or a list of irreps and representations: their direct sum."""


def direct_sum(*parts: RepresentationLike) -> Representation:
    """The direct sum of irreps and representations, in this order.

    >>> from equitangents.groups import so3
    >>> scalar, vector = so3(2).irreps(2)
    >>> direct_sum(scalar, vector, vector).dimension
    7
    """
    if not parts:
        raise InvalidArgumentError("parts", parts, "at least one representation")
    return Representation(tuple(p for part in parts for p in as_representation("a part", part).parts))


def regular(group: Group) -> Representation:
    """The regular representation of a finite group, (ρ(g) f)(h) = f(g⁻¹h), on functions f of the group.

    >>> from equitangents.groups import cyclic
    >>> regular(cyclic(3))(1) @ [1.0, 2.0, 3.0]
    array([3., 1., 2.])
    """
    if not isinstance(group, Group):
        raise InvalidTypeError("group", group, "a finite group")
    matrices = np.zeros((group.order,) * 3)
    everything = np.arange(group.order)
    for g in everything:
        matrices[g, group._compose(g, everything), everything] = 1
    return Representation((FiniteMatrices(matrices, f"the regular one of {group.name}"),))


def as_representation(name: str, value: RepresentationLike) -> Representation:
    """The representation of the argument: itself, an irrep, a list of these (direct sum), or matrices (order, d, d)."""
    if isinstance(value, Representation):
        return value
    if isinstance(value, CompactIrrep):
        return Representation((value,))
    if isinstance(value, Irrep):
        return Representation((FiniteMatrices(_real(name, value.matrices), f"irrep of dimension {value.dimension}"),))
    if isinstance(value, Sequence) and value and all(isinstance(part, _Summand) for part in value):
        return direct_sum(*value)
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        return Representation((FiniteMatrices(_real(name, value)),))
    raise InvalidTypeError(
        name,
        value,
        "an irrep such as group.irreps('real')[1], a list of irreps, a representation of "
        "equitangents.groups, or matrices (order, d, d)",
    )


def _real(name: str, matrices: object) -> np.ndarray:
    M = np.asarray(matrices)
    if M.ndim != 3 or M.shape[1] != M.shape[2] or not M.size:
        raise ShapeError(name, M.shape, "matrices (order, d, d)")
    if np.iscomplexobj(M):
        if not np.abs(M.imag).max() <= _TOLERANCE:
            raise InvalidArgumentError(
                name, "complex", "a real matrix, since outputs are real", "take one of group.irreps('real')"
            )
        M = M.real
    if M.dtype.kind not in "iuf":
        raise InvalidTypeError(name, M.dtype, "real numbers", verb="has dtype")
    if not np.isfinite(M).all():
        raise InvalidArgumentError(name, tuple(map(int, np.argwhere(~np.isfinite(M))[0])))
    return M.astype(np.float64)


def blocks(parts: list[np.ndarray]) -> np.ndarray:
    """Block-diagonal matrices (k, d, d) with diagonal blocks (k, dᵢ, dᵢ)."""
    if len(parts) == 1:
        return parts[0]
    d = sum(p.shape[1] for p in parts)
    found, start = np.zeros((len(parts[0]), d, d)), 0
    for p in parts:
        here = slice(start, start + p.shape[1])
        found[:, here, here] = p
        start += p.shape[1]
    return found


def _at(part: Part, group: SymmetryGroup) -> np.ndarray:
    """A part's matrices at the elements or nodes of a group."""
    if isinstance(part, FiniteMatrices):
        return _of_finite(part, group)
    whole, chosen = in_whole(group)
    if part.group in ("SO(3)", "O(3)"):
        if isinstance(group, RotationGroup):
            return _in_space(part, group.matrices, group.reflections)
        if isinstance(whole, MatrixGroup) and whole.matrices.shape[1] == 3:
            elements = whole.matrices[chosen]
            return _in_space(part, elements, bool((np.linalg.det(elements) < 0).any()))
    elif part.group in ("SO(2)", "O(2)") and (matrices := _in_plane(whole)) is not None:
        elements = matrices[chosen]
        if part.group == "O(2)":
            return part.at(elements)
        if (np.linalg.det(elements) < 0).any():
            raise InvalidArgumentError(
                "representation", part, "one that says what reflections do", "take an irrep of groups.o2()"
            )
        return part.at(np.degrees(np.arctan2(elements[:, 1, 0], elements[:, 0, 0])))
    raise InvalidArgumentError("representation", part, group, verb="is not of the group:")


def _in_space(part: Part, g: np.ndarray, reflections: bool) -> np.ndarray:
    if isinstance(part, FiniteMatrices) or part.group not in ("SO(3)", "O(3)"):
        raise InvalidArgumentError(
            "representation", part, "O(3)" if reflections else "SO(3)", verb="is not of the group:"
        )
    if reflections and part.group == "SO(3)":
        raise InvalidArgumentError(
            "representation",
            part,
            "one that says what reflections do",
            "take one of groups.o3(bandlimit).irreps(count)",
        )
    return part.at(g)


def _in_plane(group: SymmetryGroup) -> np.ndarray | None:
    """The elements of a finite group of the plane, with or without translations, as matrices (order, 2, 2); or None."""
    if isinstance(group, PlaneIsometries):
        return group.matrices
    if isinstance(group, PlaneRotations):
        return plane_turns(1, group.nodes)
    if isinstance(group, WallpaperGroup):
        return group.point_matrices[_points(group)].astype(np.float64)
    if isinstance(group, MatrixGroup) and group.matrices.shape[1] == 2:
        return group.matrices
    if not isinstance(group, Group):
        return None
    n = group.order // 2
    if group.order == 2 * n and (n > 1 or group.name == "D1") and group.has_same_table(dihedral(n)):
        turns = plane_turns(1, 360.0 * np.arange(n) / n)
        return np.concatenate([turns, turns @ _FLIP])
    if group.has_same_table(cyclic(group.order)):  # C2, too, which has the table of D1
        return plane_turns(1, 360.0 * np.arange(group.order) / group.order)
    return None


def _points(group: WallpaperGroup) -> np.ndarray:
    """The point-group index of each element."""
    return np.arange(group.order) // int(np.prod(group.shape))


def _of_finite(part: FiniteMatrices, group: SymmetryGroup) -> np.ndarray:
    if not isinstance(group, Group):
        raise InvalidArgumentError("representation", part.name, group, verb="is of a finite group:")
    M = part.matrices
    if isinstance(group, WallpaperGroup) and len(M) == group.point_order != group.order:
        M = M[_points(group)]
    if len(M) != group.order:
        raise InvalidArgumentError(
            "representation", len(M), group.order, "give a matrix for each element of the group", verb="has length"
        )
    if not np.abs(M @ M.swapaxes(1, 2) - np.eye(M.shape[1])).max() <= _TOLERANCE:
        raise InvalidArgumentError("representation", part.name, "orthogonal matrices")
    everything = np.arange(group.order)
    for s in group.generators or (group.identity,):
        if not np.abs(M @ M[s] - M[group._compose(everything, s)]).max() <= _TOLERANCE * len(M[0]):
            raise InvalidArgumentError(
                "representation", part.name, "matrices that multiply as the elements of the group do", str(group.name)
            )
    return M
