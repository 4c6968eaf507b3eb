"""Where steerable features live: on points, whose coordinates are their first channels, or on a whole input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from equitangents.steerable.features import Features


@dataclass(frozen=True)
class OnPoints:
    """Features on `count` points; each point's channels are its coordinates and then its features.

    `given`: they are the input's own, as many copies as there are; after weights copies are infinitely many.
    `grid`: that of the pixels that the points are, if they are.
    """

    steerable: ClassVar[Literal[True]] = True
    on_points: ClassVar[Literal[True]] = True
    on_group: ClassVar[Literal[False]] = False
    axes: ClassVar[None] = None  # they are no grid

    features: Features
    count: int
    weights: None = None
    given: bool = True
    grid: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """One axis of points."""
        return (self.count,)

    @property
    def coordinates(self) -> int:
        """How many channels are coordinates, 2 or 3."""
        return self.features.space

    def __str__(self) -> str:
        return f"{self.count} points with features {self.features} of {self.features.group}"


@dataclass(frozen=True)
class OnWhole:
    """Features of a whole input, without points; `given` as for points."""

    steerable: ClassVar[Literal[True]] = True
    on_points: ClassVar[Literal[False]] = False
    on_group: ClassVar[Literal[False]] = False
    axes: ClassVar[None] = None  # they are no grid

    features: Features
    weights: None = None
    given: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """No axis of positions."""
        return ()

    @property
    def count(self) -> int:
        """One position, the whole input."""
        return 1

    @property
    def coordinates(self) -> int:
        """No channels are coordinates."""
        return 0

    def __str__(self) -> str:
        return f"a whole input with features {self.features} of {self.features.group}"
