"""Plans of the CPU engine for programs on rotations: a field at every relative rotation.

Behind a full window the field has one position, and signals are their harmonic coefficients, one vector (B²·C,) each,
scaled so that their kernel is the mean of products. Under windows narrower than the sphere it has the points of a
Gauss–Legendre grid, and signals are their values there, (N, points, C); the kernel of two signals at two points is the
mean of products over channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from equitangents.kernels.operation import FrozenArray, Operation
from equitangents.kernels.plans.levels import Levels, TableLevel, grid_levels, still
from equitangents.kernels.program import Op


@dataclass(frozen=True)
class RotationPlan:
    """Run `field` at every rotation, average with `weights`, then run `vector`.

    Either rings of Euler angles R_z(α) R_y(β) R_z(γ), each of azimuths² rotations of one weight: `waves`,
    (azimuths // 2 + 1, 2B - 1), hold cos kα for k ≥ 0 and sin |k|α for k < 0, and `mixing`, (rings, 2, entries), the
    factors that make a ring's spectrum of the products of degrees 1 to B - 1 (see `rotations.hpp`). Or, with
    azimuths = 0, single rotations, and `mixing` holds their Wigner matrices, degree after degree.
    """

    field: tuple[Op, ...]
    vector: tuple[Op, ...]
    bandlimit: int
    azimuths: int
    waves: FrozenArray
    mixing: FrozenArray
    weights: FrozenArray
    any_norms: bool = False  # whether norms of signals may differ as they like

    form: ClassVar[Literal["rotations"]] = "rotations"
    single = False
    positions = 1
    block_weight = 1.0

    @cached_property
    def levels(self) -> Levels:
        """One position, at every depth."""
        return grid_levels(self.field, ())

    @cached_property
    def fibres(self) -> FrozenArray:
        """As many as there are rotations."""
        return FrozenArray(np.zeros((self.weights.array.size * max(1, self.azimuths) ** 2, 0), np.int32))

    @property
    def labels(self) -> FrozenArray:
        """One label for all positions: the readout is a mean over all of them."""
        return FrozenArray(np.zeros(1, np.int32))


@dataclass(frozen=True)
class ZonalMean(Operation):
    """Multiplies degree l of a field on the sphere by coefficients[l]; degrees beyond are dropped."""

    coefficients: FrozenArray


@dataclass(frozen=True)
class SphereMean(Operation):
    """The mean over the sphere: the sum with these weights of its points."""

    weights: FrozenArray


@dataclass(frozen=True)
class Turns:
    """Rotations ± R_z(α) R_y(β) R_z(γ) for all α and γ of `azimuths`; `matrices` has a row for each β.

    That holds, degree after degree, the matrix of R_y(-β) among orders m ≥ 0, then that among m = -1, -2, ….
    """

    azimuths: FrozenArray
    matrices: FrozenArray
    weights: FrozenArray  # of one rotation, for each β
    signs: int

    @property
    def count(self) -> int:
        """The number of rotations."""
        return int(self.signs * self.weights.array.size * self.azimuths.array.size**2)


@dataclass(frozen=True)
class SpherePlan:
    """At every rotation run `sphere`, which ends with a SphereMean, then `after`; average, then run `vector`.

    `legendre` (degrees, degrees, northern rings): harmonics of degree l and order m at azimuth 0. `points`: for each
    northern ring, the weight of its points in ∫ dx. `single`: one rotation, the readout being a mean over the sphere.
    """

    sphere: tuple[Op | ZonalMean | SphereMean, ...]
    after: tuple[Op, ...]
    vector: tuple[Op, ...]
    bandlimit: int
    rings: int
    legendre: FrozenArray
    points: FrozenArray
    turns: Turns
    single: bool
    any_norms: bool = False  # whether norms of signals may differ as they like

    form: ClassVar[Literal["sphere"]] = "sphere"
    block_weight = 1.0

    @property
    def field(self) -> tuple[Op | ZonalMean | SphereMean, ...]:
        """Everything that runs at every rotation."""
        return self.sphere + self.after

    @property
    def windows(self) -> list[int]:
        """The degrees that each window on the sphere keeps."""
        return [op.coefficients.array.size for op in self.sphere if isinstance(op, ZonalMean)]

    @property
    def positions(self) -> int:
        """Points of the sphere."""
        return self.rings * (2 * self.rings - 1)

    @property
    def degrees(self) -> int:
        """The most degrees of a signal or a window."""
        return len(self.legendre.array)

    @cached_property
    def levels(self) -> Levels:
        """The points, then a single position."""
        points, one = (TableLevel(FrozenArray(np.arange(n, dtype=np.int32)[None])) for n in (self.positions, 1))
        after = still(self.after, one)
        return Levels((points,) * len(self.sphere) + after.levels, ((),) * len(self.sphere) + after.branches)

    @cached_property
    def fibres(self) -> FrozenArray:
        """As many as there are rotations."""
        return FrozenArray(np.zeros(self.turns.count, np.int32))

    @property
    def labels(self) -> FrozenArray:
        """The label of the single position."""
        return FrozenArray(np.zeros(1, np.int32))

    def tables(self) -> list[np.ndarray]:
        """Cosines and sines along a ring, Legendre functions, weights of points; the same of the rotations."""
        m = np.arange(self.degrees)
        azimuths = 2 * np.pi * np.arange(self.rings) / (2 * self.rings - 1)
        packed = np.concatenate([self.legendre.array[k:, k].ravel() for k in m])
        along, around = np.outer(m, azimuths), np.outer(self.turns.azimuths.array, m)
        ours = [np.cos(along), np.sin(along), packed, self.points.array]
        return [*ours, np.cos(around), np.sin(around), self.turns.matrices.array, self.turns.weights.array]
