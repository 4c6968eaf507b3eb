"""Features: copies of irreps of SO(2), O(2), SO(3) or O(3), as channels.

The channels of "8x0+4x1" are 8 scalars, then 4 vectors: copy by copy, components innermost.

Irreps are orthogonal matrices ρ(g). In the plane the irrep m ≥ 1 rotates by m times the angle: ρ(R(θ)) = R(mθ), and the
reflection (x, y) ↦ (x, -y) is diag(1, -1). In space the irrep l is D^l of `sphere.wigner`, with Y_l(Rx) = D^l(R)
Y_l(x); the inversion is ± 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup
from equitangents.groups.rotation_group import check_rotations
from equitangents.groups.rotations_of_space import plane_isometries, space_rotations
from equitangents.groups.symmetry_group import CompactIrrep
from equitangents.validation import check_array

SPACES = {"SO(2)": 2, "O(2)": 2, "SO(3)": 3, "O(3)": 3}
"""The groups, and the dimension of the space that they act on."""

MAX_DEGREE = 12
_FORMS = {"SO(2)": "2", "O(2)": "0e, 0o or 2", "SO(3)": "2", "O(3)": "2e or 2o"}


@dataclass(frozen=True, order=True)
class SteerableIrrep(CompactIrrep):
    """One irrep: its group, its degree (frequency in the plane), and its parity, 1 or -1.

    Parity is the factor of a reflection (of the plane, for degree 0) or of the inversion (of space); "e" in text
    for 1, "o" for -1. Groups without reflections, and degrees ≥ 1 in the plane, have parity 1.
    """

    @property
    def is_trivial(self) -> bool:
        """Whether ρ(g) = 1 for all g."""
        return self.degree == 0 and self.parity == 1

    def matrix(self, g: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch d d"]:
        """The matrices ρ(g) for orthogonal matrices g, 2×2 or 3×3 (of determinant 1 for SO)."""
        matrices = plane_isometries if SPACES[self.group] == 2 else space_rotations
        return matrices(self.degree, self.parity == -1, check_elements(self.group, g))

    def __str__(self) -> str:
        return f"{self.degree}{('e' if self.parity == 1 else 'o') if has_parity(self.group, self.degree) else ''}"


def irrep(text: str, group: str) -> SteerableIrrep:
    """The irrep with this name, such as "2", "0o" (O(2)) or "1o" (O(3)).

    >>> irrep("1o", "O(3)").dimension
    3
    """
    group = group_name(group)
    if not isinstance(text, str):
        raise InvalidTypeError("irrep", text, _FORMS[group])
    match = re.fullmatch(r"(\d+)([eo]?)", text.strip())
    if match is None or int(match[1]) > MAX_DEGREE or bool(match[2]) != has_parity(group, int(match[1])):
        raise InvalidArgumentError("irrep", text, _FORMS[group], "the degree is 0 to 12")
    return SteerableIrrep(group, int(match[1]), -1 if match[2] == "o" else 1)


def trivial(group: str) -> SteerableIrrep:
    """The trivial irrep, that of scalars."""
    return SteerableIrrep(group, 0)


def has_parity(group: str, degree: int) -> bool:
    """Whether irreps of this degree have even and odd versions."""
    return group == "O(3)" or (group == "O(2)" and degree == 0)


def group_name(group: SymmetryGroup | str | None) -> str:
    """The name of one of the four groups, from a name or a group of `equitangents.groups`."""
    name = getattr(group, "name", group)
    if not isinstance(name, str):
        raise InvalidTypeError("group", group, list(SPACES))
    if name not in SPACES:
        raise InvalidArgumentError("group", name, list(SPACES))
    return name


def check_elements(group: str, g: ArrayLike) -> np.ndarray:
    """Elements (..., n, n) of a group, in float64; raises unless orthogonal, and of determinant 1 for SO(n)."""
    n = SPACES[group]
    g = np.asarray(check_array("g", g, allow_empty=True))
    if g.shape[-2:] != (n, n):
        raise ShapeError("g", g.shape, (..., n, n), "orthogonal matrices")
    return check_rotations("g", g, reflections=group.startswith("O"))


@dataclass(frozen=True, init=False, repr=False)
class Features:
    """How channels transform: `entries` are pairs (number of copies, irrep).

    Args:
        text: Copies and irreps, such as "8x0+4x1"; "1" without a number is one copy. Each irrep at most once. Parities
            are written for O(3), "8x0e+4x1o", and for degree 0 of O(2), "8x0e+2x0o+4x1".
        group: One of "SO(2)", "O(2)", "SO(3)", "O(3)", or such a group.

    Raises:
        InvalidArgumentError: The text contains an unknown or repeated irrep.

    >>> features = Features("8x0+4x1", "SO(3)")
    >>> features.dimension, features.matrix(np.eye(3)).shape
    (20, (20, 20))
    """

    group: str
    entries: tuple[tuple[int, SteerableIrrep], ...]

    def __init__(self, text: str | Features, group: SymmetryGroup | str | None = None) -> None:
        if isinstance(text, Features):
            if group is not None and group_name(group) != text.group:
                raise InvalidArgumentError("features", text.group, group_name(group), verb="are of")
            object.__setattr__(self, "group", text.group)
            object.__setattr__(self, "entries", text.entries)
            return
        if not isinstance(text, str):
            raise InvalidTypeError("features", text, "a text such as '8x0+4x1'")
        object.__setattr__(self, "group", group_name(group))
        object.__setattr__(self, "entries", tuple(_entry(part, self.group) for part in text.split("+")))
        kinds = self.irreps
        if twice := [kind for i, kind in enumerate(kinds) if kind in kinds[:i]]:
            wanted = "each irrep once, with all of its copies"
            raise InvalidArgumentError("features", twice[0], wanted, verb="name twice the irrep")

    @classmethod
    def of(cls, group: str, entries: tuple[tuple[int, SteerableIrrep], ...]) -> Features:
        """Features with these copies and irreps."""
        return cls("+".join(f"{n}x{kind}" for n, kind in entries), group)

    @property
    def irreps(self) -> tuple[SteerableIrrep, ...]:
        """The irreps, in order."""
        return tuple(kind for _, kind in self.entries)

    @property
    def dimension(self) -> int:
        """Number of channels."""
        return sum(n * kind.dimension for n, kind in self.entries)

    @property
    def is_trivial(self) -> bool:
        """Whether all features are invariant scalars."""
        return all(kind.is_trivial for kind in self.irreps)

    @property
    def space(self) -> int:
        """The dimension of the space on which the group acts, 2 or 3."""
        return SPACES[self.group]

    def copies(self, kind: SteerableIrrep) -> int:
        """Number of copies of an irrep, 0 if absent."""
        return dict((k, n) for n, k in self.entries).get(kind, 0)

    def parts(self) -> Iterator[tuple[SteerableIrrep, int, slice]]:
        """Yield (irrep, copies, slice of its channels)."""
        start = 0
        for n, kind in self.entries:
            stop = start + n * kind.dimension
            yield kind, n, slice(start, stop)
            start = stop

    def split(self, values: ArrayLike) -> dict[SteerableIrrep, Any]:
        """Channels (..., dimension) split by irrep: {irrep: (..., copies, d)}."""
        return {kind: values[..., at].reshape((*values.shape[:-1], n, -1)) for kind, n, at in self.parts()}

    def matrix(self, g: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch d d"]:
        """The representation ρ(g) on all channels, block-diagonal."""
        g = check_elements(self.group, g)
        found = np.zeros((*g.shape[:-2], self.dimension, self.dimension))
        for kind, n, at in self.parts():
            d, block = kind.dimension, kind.matrix(g)
            for start in range(at.start, at.start + n * d, d):
                found[..., start : start + d, start : start + d] = block
        return found

    def move(self, x: ArrayLike, g: Float[np.ndarray, "n n"]) -> np.ndarray:
        """Points x (..., coordinates and channels) transformed by g: coordinates by g, channels by ρ(g).

        Raises:
            ShapeError: The last axis does not hold the coordinates and the channels.
        """
        x = np.asarray(check_array("x", x, allow_empty=True))
        if x.shape[-1] != self.space + self.dimension:
            raise ShapeError("x", x.shape, (..., self.space + self.dimension), "coordinates, then features")
        g = check_elements(self.group, g)
        turned = x[..., : self.space] @ g.T
        return np.concatenate([turned, x[..., self.space :] @ self.matrix(g).T], axis=-1).astype(x.dtype)

    def __str__(self) -> str:
        return "+".join(f"{n}x{kind}" for n, kind in self.entries)

    def __repr__(self) -> str:
        return f"Features({str(self)!r}, {self.group!r})"


def _entry(text: str, group: str) -> tuple[int, SteerableIrrep]:
    match = re.fullmatch(r"\s*(?:(\d+)\s*x)?\s*(\w+)\s*", text)
    if match is None or match[1] == "0":
        raise InvalidArgumentError("features", text, "copies and an irrep, such as '4x1'", verb="hold")
    return int(match[1] or 1), irrep(match[2], group)
