"""Signals between layers: their positions and distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from equitangents.steerable.features import OnPoints, OnWhole

if TYPE_CHECKING:
    from equitangents.groups import Group
    from equitangents.groups.rotation_group import RotationGroup


class _Plain:
    """Positions of plain channels, which are no steerable features; all of them count alike unless they say more."""

    steerable: ClassVar[Literal[False]] = False
    axes: ClassVar[int | None] = None
    weights: ClassVar[np.ndarray | None] = None


class _Elements(_Plain):
    """One position for every element of a group, or for every one that it is sampled at."""

    on_group: ClassVar[Literal[True]] = True
    group: Group | RotationGroup

    @property
    def shape(self) -> tuple[int, ...]:
        """One position an element, (|G|,)."""
        return (self.group.order,)

    @property
    def count(self) -> int:
        """The number of elements."""
        return self.group.order

    def __str__(self) -> str:
        return f"the group {self.group.name}"


@dataclass(frozen=True)
class Grid(_Plain):
    """A grid of positions; the shape () is a plain vector of channels, and a point set is a grid of one dimension."""

    on_group: ClassVar[Literal[False]] = False

    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of positions of the grid."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def axes(self) -> int:  # type: ignore[override]
        """The number of axes of the grid."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"a grid of shape {self.shape}" if self.shape else "a plain vector"


@dataclass(frozen=True)
class OnGroup(_Elements):
    """One position for every element of a group."""

    group: Group


@dataclass(frozen=True)
class Blocks(_Plain):
    """Positions that are cosets of a subgroup: only pooling, flattening and dense layers may follow."""

    on_group: ClassVar[Literal[False]] = False

    count: int

    @property
    def shape(self) -> tuple[int, ...]:
        """One position a block, (count,)."""
        return (self.count,)

    def __str__(self) -> str:
        return f"{self.count} cosets"


@dataclass(frozen=True)
class OnRotations(_Elements):
    """One position for every sample point of SO(3) or O(3), with quadrature weights."""

    group: RotationGroup

    @property
    def weights(self) -> np.ndarray:  # type: ignore[override]
        """Weight of each position, (count,), summing to 1."""
        return self.group.weights


# `steerable`: features of which are made by `nn.steerable`; `on_group`: with a position an element of a group.
Positions = Grid | OnGroup | Blocks | OnRotations | OnPoints | OnWhole


@dataclass(frozen=True)
class Signal:
    """Fields of `channels` features over `positions`.

    `gaussian`: at infinite width each channel is a Gaussian process, which is what a nonlinearity needs before it.
    `given`: nothing random has happened yet: the signal is a function of the input alone.
    `uneven`: channels are not alike and may have means of their own, so that one mean does not stand for them.
    """

    several: ClassVar[Literal[False]] = False  # one, and no branches side by side

    positions: Positions
    channels: int
    gaussian: bool = False
    given: bool = False
    uneven: bool = False

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of one example, channels last."""
        return (*self.positions.shape, self.channels)

    @property
    def axes(self) -> int | None:
        """The number of axes of its grid; None if its positions are not a grid."""
        return self.positions.axes


Signals = Any
"""A `Signal`, or several side by side (`parallel.Branches`): what layers that join read, and `Parallel` gives."""
