"""Irreducible real representations of SO(2), O(2), SO(3) and O(3), as orthogonal matrices ρ(g).

In the plane the irrep m ≥ 1 turns by m times the angle: ρ(R(θ)) = R(mθ), and the reflection (x, y) ↦ (x, -y) is
diag(1, -1). In space the irrep l is D^l of `sphere.wigner`, with Y_l(Rx) = D^l(R) Y_l(x); the inversion is ± 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup
from equitangents.sphere.wigner import wigner
from equitangents.validation import check_array

SPACES = {"SO(2)": 2, "O(2)": 2, "SO(3)": 3, "O(3)": 3}
"""The groups, and the dimension of the space that they act on."""

MAX_DEGREE = 12
_TOLERANCE = 1e-8  # of g gᵀ = 1
_FORMS = {"SO(2)": "2", "O(2)": "0e, 0o or 2", "SO(3)": "2", "O(3)": "2e or 2o"}


@dataclass(frozen=True, order=True)
class Irrep:
    """One irrep: its group, its degree (frequency in the plane), and its parity, 1 or -1.

    Parity is what a reflection (of the plane, for degree 0) or the inversion (of space) multiplies by; "e" in text
    for 1, "o" for -1. Groups without reflections, and degrees from 1 on in the plane, have none and keep 1.
    """

    group: str
    degree: int
    parity: int = 1

    @property
    def dimension(self) -> int:
        """2l + 1 in space; in the plane 1 for degree 0 and 2 for others."""
        if SPACES[self.group] == 3:
            return 2 * self.degree + 1
        return 2 if self.degree else 1

    @property
    def is_trivial(self) -> bool:
        """Whether no element changes it."""
        return self.degree == 0 and self.parity == 1

    def matrix(self, g: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch d d"]:
        """The representation's matrices ρ(g) of orthogonal matrices g, 2×2 or 3×3 (with determinant 1 for SO)."""
        g = check_elements(self.group, g)
        sign = np.round(np.linalg.det(g))
        if SPACES[self.group] == 2:
            return _in_plane(self, g, sign)
        found = np.asarray(wigner(g, self.degree + 1)[self.degree])
        if self.parity != (-1) ** self.degree:
            found = found * sign[..., None, None]
        return found

    def __str__(self) -> str:
        return f"{self.degree}{('e' if self.parity == 1 else 'o') if has_parity(self.group, self.degree) else ''}"


def irrep(text: str, group: str) -> Irrep:
    """The irrep that a text names, such as "2", "0o" (O(2)) or "1o" (O(3)).

    >>> irrep("1o", "O(3)").dimension
    3
    """
    group = group_name(group)
    if not isinstance(text, str):
        raise InvalidTypeError("irrep", text, _FORMS[group])
    match = re.fullmatch(r"(\d+)([eo]?)", text.strip())
    if match is None or int(match[1]) > MAX_DEGREE or bool(match[2]) != has_parity(group, int(match[1])):
        raise InvalidArgumentError("irrep", text, _FORMS[group], "the degree is 0 to 12")
    return Irrep(group, int(match[1]), -1 if match[2] == "o" else 1)


def trivial(group: str) -> Irrep:
    """The irrep of numbers that do not change."""
    return Irrep(group, 0)


def has_parity(group: str, degree: int) -> bool:
    """Whether irreps of this degree come in two kinds, even and odd."""
    return group == "O(3)" or (group == "O(2)" and degree == 0)


def group_name(group: SymmetryGroup | str | None) -> str:
    """The name of one of the four groups, given by name or as a group of `equitangents.groups`."""
    name = getattr(group, "name", group)
    if not isinstance(name, str):
        raise InvalidTypeError("group", group, list(SPACES))
    if name not in SPACES:
        raise InvalidArgumentError("group", name, list(SPACES))
    return name


def check_elements(group: str, g: ArrayLike) -> np.ndarray:
    """Elements (..., n, n) of a group, in float64; errors unless they are orthogonal, and proper for SO(n)."""
    n = SPACES[group]
    g = np.asarray(check_array("g", g, allow_empty=True), np.float64)
    if g.shape[-2:] != (n, n):
        raise ShapeError("g", g.shape, (..., n, n), "orthogonal matrices")
    error = np.abs(g @ np.swapaxes(g, -1, -2) - np.eye(n)).max(initial=0)
    if not error <= _TOLERANCE:
        raise InvalidArgumentError("g", error, "orthogonal matrices", verb="is off g gᵀ = 1 by")
    if group.startswith("SO") and not (np.linalg.det(g) > 0).all():
        raise InvalidArgumentError("g", "a reflection", "rotations", verb="holds")
    return g


def _in_plane(irrep: Irrep, g: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """R(mθ), times diag(1, -1) for reflections g = R(θ) diag(1, -1)."""
    if irrep.degree == 0:
        found = sign if irrep.parity == -1 else np.ones_like(sign)
        return found[..., None, None]
    turned = (g[..., 0, 0] + 1j * g[..., 1, 0]) ** irrep.degree
    c, s = turned.real, turned.imag
    return np.stack([np.stack([c, -s * sign], -1), np.stack([s, c * sign], -1)], -2)
