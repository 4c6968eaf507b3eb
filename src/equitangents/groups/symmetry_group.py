"""Interface of finite and compact groups: products, inverses, elements or draws, means, irreps.

| group | an element is | `elements` | `nodes` of means |
|---|---|---|---|
| `Group`, finite | a number | all | all |
| `Permutations`, S_n of any n | an array p, i ↦ p[i] | None | None |
| `PlaneRotations`, SO(2) | degrees | None | equidistant angles |
| `PlaneIsometries`, O(2) | a matrix | None | equidistant angles, with and without a reflection |
| `RotationGroup`, SO(3) and O(3) | a matrix | None | a quadrature |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from equitangents._aliases import Element, Elements, Tree
from equitangents.groups.rotations_of_space import plane_isometries, plane_turns, space_rotations
from equitangents.validation import check_whole


class SymmetryGroup(ABC):
    """A group whose elements can be drawn, multiplied, inverted and labelled; immutable and hashable.

    The type of an element depends on the group: a number (finite groups), an angle, a matrix or a permutation.
    """

    name: str
    identity: Element
    default_draws: int = 32
    """How many elements are tried where nobody says how many."""

    @abstractmethod
    def compose(self, a: Element, b: Element) -> Element:
        """a·b: b first, then a."""

    @abstractmethod
    def inverse(self, a: Element) -> Element:
        """The inverse a⁻¹."""

    @abstractmethod
    def check_element(self, name: str, g: Element) -> Element:
        """`g` in the group's own format; otherwise an error that names `name`."""

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> list[Any]:
        """`count` elements drawn from the Haar measure; of a finite group, distinct ones other than the identity."""

    def random(self, count: int, seed: int = 0) -> np.ndarray:
        """`draw(count)` as an array; empty if there is no element to draw."""
        drawn = self.draw(check_whole("count", count, 0), np.random.default_rng(seed))
        return np.stack([np.asarray(g) for g in drawn]) if drawn else np.asarray(self.identity)[None][:0]

    @abstractmethod
    def label(self, g: Element) -> str:
        """Short text for g."""

    @property
    def elements(self) -> Sequence[Any] | None:
        """All elements, in order; None if they are infinitely many, or too many to list."""
        return None

    @property
    def nodes(self) -> Sequence[Any] | np.ndarray | None:
        """Nodes g_i of the mean Σ_i w_i f(g_i) over the group; None if elements must be drawn."""
        return None

    @property
    def weights(self) -> Float[np.ndarray, " nodes"] | None:
        """Weights of the nodes of a mean over the group, summing to 1."""
        return None

    def is_same_group(self, other: SymmetryGroup) -> bool:
        """Whether both are the same group with the same elements; their quadratures may differ."""
        return self == other

    def angle(self, g: Element) -> float | None:
        """Rotation angle in degrees (0 to 360 in the plane, 0 to 180 in space); None if g is not a rotation."""
        return None

    def parameter(self, g: Element) -> Tree:
        """g as plain values for JSON."""
        return np.asarray(g).tolist()

    def _value(self) -> tuple[Any, ...]:
        """Hashable data; groups of one type are equal if theirs are."""
        return (self.name,)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash((type(self), self._value()))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"groups are immutable; cannot set {name}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@dataclass(frozen=True)
class CompactIrrep:
    """An irreducible representation of SO(2), O(2), SO(3) or O(3) over the real numbers, by orthogonal matrices.

    `group` is the group's name; `degree` is l, or the frequency in the plane; `parity` is −1 if plane reflections (for
    degree 0) or the inversion of space change the sign.
    """

    group: str
    degree: int
    parity: int = 1

    @property
    def dimension(self) -> int:
        """2l + 1 in space; in the plane 1 for degree 0 and 2 for others."""
        if self.group in ("SO(3)", "O(3)"):
            return 2 * self.degree + 1
        return 2 if self.degree else 1

    @property
    def name(self) -> str:
        """The degree, and "odd" for parity −1."""
        if self.group in ("SO(3)", "O(3)"):
            return f"l = {self.degree}" + (", odd under inversion" if self.parity == -1 else "")
        return f"frequency {self.degree}" + (", the sign of reflections" if self.parity == -1 else "")

    def __call__(self, g: Element) -> np.ndarray:
        """The matrix ρ(g) of one element."""
        return self.at(np.asarray(g))

    def at(self, elements: Elements) -> Float[np.ndarray, "*batch d d"]:
        """The matrices (…, d, d) of many elements: angles in degrees for SO(2), matrices for the other groups."""
        if self.group == "SO(2)":
            return plane_turns(self.degree, elements)
        matrices = plane_isometries if self.group == "O(2)" else space_rotations
        return matrices(self.degree, self.parity == -1, elements)

    def character(self, g: Elements) -> Float[np.ndarray, "*batch"]:
        """χ(g) = tr ρ(g), of one element or of many."""
        return np.asarray(np.trace(self.at(g), axis1=-2, axis2=-1))

    def __repr__(self) -> str:
        return f"<irrep of dimension {self.dimension}, {self.name}>"
