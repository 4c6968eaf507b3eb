"""SO(2), whose elements are angles in degrees, counter-clockwise, and O(2), whose elements are orthogonal matrices."""

from __future__ import annotations

import math
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float

from equitangents._aliases import Element
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.group import read_only
from equitangents.groups.rotation_group import CompactGroup, MatricesGroup
from equitangents.groups.rotations_of_space import plane_turns
from equitangents.groups.symmetry_group import CompactIrrep
from equitangents.validation import check_whole

MAX_BANDLIMIT = 100_000


@final
class PlaneRotations(CompactGroup):
    """SO(2), with equidistant angles for means of band-limited functions; made by `so2`."""

    name = "SO(2)"
    default_draws = 24

    def __init__(self, bandlimit: int):
        vars(self).update(bandlimit=bandlimit)

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

    @property
    def weights(self) -> Float[np.ndarray, " nodes"]:
        """Equal weights of all nodes, which sum to 1."""
        return np.full(self.order, 1 / self.order)

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

    def irreps(self, count: int) -> tuple[CompactIrrep, ...]:
        """Frequencies 0 .. count − 1: the trivial irrep, then rotations of a plane by m times the angle."""
        return tuple(CompactIrrep(self.name, m) for m in range(check_whole("count", count, 0)))


def so2(bandlimit: int = 16) -> PlaneRotations:
    """SO(2), with means that are exact for products of two functions whose frequencies are below B = `bandlimit`.

    >>> G = so2(3)
    >>> G.nodes, G.compose(300.0, 90.0), [irrep.dimension for irrep in G.irreps(3)]
    ([0.0, 72.0, 144.0, 216.0, 288.0], 30.0, [1, 2, 2])
    """
    return PlaneRotations(check_whole("bandlimit", bandlimit, 1, MAX_BANDLIMIT))


_FLIP = np.diag([1.0, -1.0])


@final
class PlaneIsometries(MatricesGroup):
    """O(2), with equidistant angles for means of band-limited functions; made by `o2`.

    g = R(α) diag(1, ±1): the reflection diag(1, −1) first, then the rotation.
    """

    name = "O(2)"
    default_draws = 24
    size = 2
    reflections = True

    def __init__(self, bandlimit: int):
        vars(self).update(bandlimit=bandlimit)

    @property
    def order(self) -> int:
        """The number of nodes, 2(2B − 1)."""
        return 2 * (2 * self.bandlimit - 1)

    @cached_property
    def matrices(self) -> Float[np.ndarray, "nodes 2 2"]:
        """Every node as a matrix: all rotations, from angle 0 on, then each of them after a reflection."""
        count = self.order // 2
        turns = plane_turns(1, 360.0 * np.arange(count) / count)
        return read_only(np.concatenate([turns, turns @ _FLIP]))

    @property
    def weights(self) -> Float[np.ndarray, " nodes"]:
        """Equal weights of all nodes, which sum to 1."""
        return np.full(self.order, 1 / self.order)

    def draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Equidistant angles with one random offset; every second element reflects first."""
        turns = plane_turns(1, rng.uniform(0, 360) + 360 * np.arange(count) / count)
        return [turn @ _FLIP if i % 2 else turn for i, turn in enumerate(turns)]

    def label(self, g: Element) -> str:
        """Degrees, and whether a reflection comes first, as text."""
        g = self.check_element("g", g)
        turned = f"{np.degrees(np.arctan2(g[1, 0], g[0, 0])):.1f}°"
        return turned if np.linalg.det(g) > 0 else f"reflection, {turned}"

    def irreps(self, count: int) -> tuple[CompactIrrep, ...]:
        """Frequencies 0 .. count − 1; for frequency 0 the trivial irrep and the sign of reflections."""
        count = check_whole("count", count, 0)
        kinds = [(0, 1), (0, -1)][: 2 * count] + [(m, 1) for m in range(1, count)]
        return tuple(CompactIrrep(self.name, m, parity) for m, parity in kinds)


def o2(bandlimit: int = 16) -> PlaneIsometries:
    """O(2), with means that are exact for products of two functions whose frequencies are below B = `bandlimit`.

    >>> [irrep.dimension for irrep in o2(3).irreps(3)]
    [1, 1, 2, 2]
    """
    return PlaneIsometries(check_whole("bandlimit", bandlimit, 1, MAX_BANDLIMIT))
