"""A group as an audit needs it: elements to try, products to verify actions with, one-parameter subgroups.

Elements of a finite group are its integers; those of SO(2) angles in degrees; of SO(3) and O(3) matrices; of S_n
beyond the reach of tables, permutations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from equitangents.groups import Group


@dataclass(frozen=True)
class Flow:
    """A one-parameter subgroup t ↦ exp(t·ξ); `at(t)` is an element, `unit` that of t."""

    name: str
    unit: str
    at: Callable[[float], Any]


class Symmetry(ABC):
    """A group whose elements can be drawn, multiplied, inverted and shown."""

    name: str
    order: int | None
    default_elements: int
    """How many elements an audit tries unless it is told."""

    @property
    @abstractmethod
    def identity(self) -> Any:
        """The identity."""

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> list[Any]:
        """`count` elements after the Haar measure; never the identity of a finite group."""

    @abstractmethod
    def compose(self, a: Any, b: Any) -> Any:
        """a·b: b first, then a."""

    @abstractmethod
    def inverse(self, a: Any) -> Any:
        """a⁻¹."""

    @abstractmethod
    def label(self, g: Any) -> str:
        """g in a few characters."""

    def angle(self, g: Any) -> float | None:
        """Degrees, if g is a rotation; from 0 to 360 in the plane, to 180 in space."""
        return None

    def parameter(self, g: Any) -> Any:
        """g as plain values for JSON."""
        return np.asarray(g).tolist()

    @property
    def flows(self) -> tuple[Flow, ...]:
        """A basis of the Lie algebra; empty for finite groups."""
        return ()

    def __repr__(self) -> str:
        return f"<{self.name}>"


@final
class Finite(Symmetry):
    """A finite group; `angles[g]` is None for elements that are no rotations."""

    default_elements = 64

    def __init__(self, group: Group, angles: Sequence[float | None] | None = None, name: str | None = None):
        self.group = group
        self.name = name or group.name
        self.order = group.order
        self._angles = angles

    @property
    def identity(self) -> int:
        """The group's identity."""
        return self.group.identity

    def draw(self, count: int, rng: np.random.Generator) -> list[int]:
        """Different elements: all but the identity if there are no more than `count`, in their order."""
        others = np.delete(np.arange(self.group.order), self.group.identity)
        if len(others) > count:
            others = np.sort(rng.choice(others, count, replace=False))
        return [int(g) for g in others]

    def compose(self, a: int, b: int) -> int:
        """The group's product."""
        return self.group.compose(a, b)

    def inverse(self, a: int) -> int:
        """The group's inverse."""
        return self.group.inverse(a)

    def angle(self, g: int) -> float | None:
        """The angle that was given for g."""
        return None if self._angles is None else self._angles[g]

    def label(self, g: int) -> str:
        """The angle, else the group's own name of the element."""
        angle = self.angle(g)
        if angle is not None and sum(a == angle for a in self._angles or ()) == 1:
            return f"{angle:g}°"
        named = self.group.element(g)
        return str(g) if named == g else str(named).replace(" ", "")
