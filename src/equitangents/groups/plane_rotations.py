"""SO(2), whose elements are angles in degrees, counter-clockwise, and O(2), whose elements are orthogonal matrices."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents._aliases import Element
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import read_only
from equitangents.groups.rotations_of_space import plane_turns
from equitangents.groups.symmetry_group import CompactGroup, CompactIrrep, Flow, Immutable, MatricesGroup, SymmetryGroup
from equitangents.validation import check_whole

MAX_BANDLIMIT = 100_000


class _OfPlane(Immutable, CompactGroup):
    """SO(2) or O(2), with equidistant angles for means of functions of a bandlimit."""

    dimension = 1
    default_draws = 24
    bandlimit: int

    def __init__(self, bandlimit: int):
        vars(self).update(bandlimit=bandlimit)

    @property
    @abstractmethod
    def order(self) -> int:
        """The number of nodes."""

    @property
    def weights(self) -> Float[np.ndarray, " nodes"]:
        """Equal weights of all nodes, which sum to 1."""
        return np.full(self.order, 1 / self.order)

    def is_same_group(self, other: SymmetryGroup) -> bool:
        """Whether it is of the same name, whatever its bandlimit."""
        return type(self) is type(other)

    def _value(self) -> tuple[Any, ...]:
        return (self.bandlimit,)


@final
class PlaneRotations(_OfPlane):
    """SO(2), with equidistant angles for means of functions of a bandlimit; made by `so2`."""

    name = "SO(2)"

    @property
    def identity(self) -> float:
        """The rotation by 0 degrees."""
        return 0.0

    @property
    def order(self) -> int:
        """The number of nodes, 2B − 1."""
        return 2 * self.bandlimit - 1

    @property
    def nodes(self) -> list[float]:
        """Equidistant angles from 0 on."""
        return [360.0 * k / self.order for k in range(self.order)]

    def check_element(self, name: str, g: Element) -> float:
        """`g` as a float."""
        angle = np.asarray(g)
        if angle.ndim or angle.dtype.kind not in "iuf":
            raise InvalidTypeError(name, g, "an angle in degrees")
        if not math.isfinite(angle):
            raise InvalidArgumentError(name, g, "a finite angle in degrees")
        return float(angle)

    def draw(self, count: int, rng: np.random.Generator) -> list[float]:
        """Equidistant angles with one random offset: unbiased, with less variance than independent ones."""
        return [float(a) for a in np.sort((rng.uniform(0, 360) + 360 * np.arange(count) / count) % 360)]

    def compose(self, a: float, b: float) -> float:
        """Sum of the angles."""
        return (a + b) % 360

    def inverse(self, a: float) -> float:
        """The opposite angle, from 0 to below 360."""
        return -a % 360

    def angle(self, g: float) -> float:
        """The element itself, in degrees."""
        return float(g)

    def label(self, g: float) -> str:
        """Degrees, to one decimal."""
        return f"{g:.1f}°"

    def parameter(self, g: float) -> float:
        """The element's value in reports: its degrees."""
        return float(g)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The rotations, a one-parameter subgroup."""
        return (Flow("turn", "radian", lambda t: float(np.degrees(t))),)

    def irreps(self, count: int) -> tuple[CompactIrrep, ...]:
        """Frequencies 0 .. count − 1: the trivial irrep, then rotations of a plane by m times the angle."""
        return tuple(CompactIrrep(self.name, m) for m in range(check_whole("count", count, 0)))

    def __repr__(self) -> str:
        return f"<{self.name} sampled at bandlimit {self.bandlimit}, {self.order} angles>"


def so2(bandlimit: int = 16) -> PlaneRotations:
    """SO(2), with means that are exact for products of two functions of bandlimit B: frequencies below B each.

    >>> G = so2(3)
    >>> G.nodes, G.compose(300.0, 90.0), [irrep.dimension for irrep in G.irreps(3)]
    ([0.0, 72.0, 144.0, 216.0, 288.0], 30.0, [1, 2, 2])
    """
    return PlaneRotations(check_whole("bandlimit", bandlimit, 1, MAX_BANDLIMIT))


TOLERANCE = 1e-8  # of g gᵀ = 1
_FLIP = np.diag([1.0, -1.0])


@final
class PlaneIsometries(_OfPlane, MatricesGroup):
    """O(2), with equidistant angles for means of functions of a bandlimit; made by `o2`.

    g = R(α) diag(1, ±1): the reflection diag(1, −1) first, then the turn.
    """

    name = "O(2)"

    @property
    def identity(self) -> Float[np.ndarray, "2 2"]:
        """The unit matrix (2, 2)."""
        return read_only(np.eye(2))

    @property
    def order(self) -> int:
        """The number of nodes, 2(2B − 1)."""
        return 2 * (2 * self.bandlimit - 1)

    @cached_property
    def matrices(self) -> Float[np.ndarray, "nodes 2 2"]:
        """Every node as a matrix: the rotations from 0 on, then the same after a reflection."""
        count = self.order // 2
        turns = plane_turns(1, 360.0 * np.arange(count) / count)
        return read_only(np.concatenate([turns, turns @ _FLIP]))

    def check_element(self, name: str, g: Element) -> Float[np.ndarray, "2 2"]:
        """`g` as a matrix."""
        g = np.asarray(g, np.float64)
        if g.shape != (2, 2):
            raise ShapeError(name, g.shape, "a matrix (2, 2)")
        if not np.abs(g @ g.T - np.eye(2)).max() <= TOLERANCE:
            raise InvalidArgumentError(name, g.tolist(), "an orthogonal matrix")
        return g

    def draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Equidistant angles with one random offset, every other one after a reflection."""
        turns = plane_turns(1, rng.uniform(0, 360) + 360 * np.arange(count) / count)
        return [turn @ _FLIP if i % 2 else turn for i, turn in enumerate(turns)]

    def label(self, g: Element) -> str:
        """Degrees, and whether a reflection comes first."""
        g = self.check_element("g", g)
        turned = f"{np.degrees(np.arctan2(g[1, 0], g[0, 0])):.1f}°"
        return turned if np.linalg.det(g) > 0 else f"reflection, {turned}"

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The rotations, a one-parameter subgroup."""
        return (Flow("turn", "radian", lambda t: plane_turns(1, np.degrees(t))),)

    def irreps(self, count: int) -> tuple[CompactIrrep, ...]:
        """Frequencies 0 .. count − 1; for frequency 0 the trivial irrep and the sign of reflections."""
        count = check_whole("count", count, 0)
        kinds = [(0, 1), (0, -1)][: 2 * count] + [(m, 1) for m in range(1, count)]
        return tuple(CompactIrrep(self.name, m, parity) for m, parity in kinds)

    def __repr__(self) -> str:
        return f"<{self.name} sampled at bandlimit {self.bandlimit}, {self.order} elements>"


def o2(bandlimit: int = 16) -> PlaneIsometries:
    """O(2), with means that are exact for products of two functions of bandlimit B: frequencies below B each.

    >>> [irrep.dimension for irrep in o2(3).irreps(3)]
    [1, 1, 2, 2]
    """
    return PlaneIsometries(check_whole("bandlimit", bandlimit, 1, MAX_BANDLIMIT))
