"""SO(2), the rotations of the plane; elements are angles in degrees, counter-clockwise."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents._aliases import Element
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.harmonic_matrices import plane_turns
from equitangents.groups.symmetry_group import CompactGroup, CompactIrrep, Flow, Immutable, SymmetryGroup
from equitangents.validation import check_whole

MAX_BANDLIMIT = 100_000


@final
class PlaneRotations(Immutable, CompactGroup):
    """SO(2), with equidistant angles for means of functions of a bandlimit; made by `so2`."""

    name = "SO(2)"
    dimension = 1
    default_draws = 24
    draws_are_independent = False
    bandlimit: int

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

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The rotations, a one-parameter subgroup."""
        return (Flow("turn", "radian", lambda t: float(np.degrees(t))),)

    def irreps(self, count: int) -> tuple[CompactIrrep, ...]:
        """Frequencies 0 .. count − 1: the trivial irrep, then rotations of a plane by m times the angle."""
        return tuple(_frequency(m) for m in range(check_whole("count", count, 0)))

    def is_same_group(self, other: SymmetryGroup) -> bool:
        """SO(2), whatever its bandlimit."""
        return isinstance(other, PlaneRotations)

    def _value(self) -> tuple[Any, ...]:
        return (self.bandlimit,)

    def __repr__(self) -> str:
        return f"<{self.name} sampled at bandlimit {self.bandlimit}, {self.order} angles>"


def so2(bandlimit: int = 16) -> PlaneRotations:
    """SO(2), with means that are exact for products of two functions of bandlimit B: frequencies below B each.

    >>> G = so2(3)
    >>> G.nodes, G.compose(300.0, 90.0), [irrep.dimension for irrep in G.irreps(3)]
    ([0.0, 72.0, 144.0, 216.0, 288.0], 30.0, [1, 2, 2])
    """
    return PlaneRotations(check_whole("bandlimit", bandlimit, 1, MAX_BANDLIMIT))


def _frequency(m: int) -> CompactIrrep:
    factor = 2 if m else 1
    character = lambda g: factor * np.cos(m * np.radians(g))
    return CompactIrrep(f"frequency {m}", factor, character, partial(plane_turns, m), "SO(2)")
