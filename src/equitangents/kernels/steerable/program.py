"""Steerable programs: operations on the matrix kernels of features on points.

For two inputs and one irrep there are K and Θ, (P, d, P', d): covariances of the components of one copy at all pairs
of points. Copies are independent, and so are irreps: their weights are apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from equitangents.kernels.operation import DualActivation, Operation
from equitangents.kernels.program import Program
from equitangents.steerable import Features
from equitangents.steerable.angular import AngularKernel, angular_kernels
from equitangents.steerable.features import Irrep
from equitangents.steerable.harmonics import samples

Kernels = dict[tuple[Irrep, Irrep], tuple[AngularKernel, ...]]


@lru_cache(maxsize=256)
def filter_kernels(into: Features, out: Features, max_frequency: int | None) -> Kernels:
    """Angular kernels by (irrep out, irrep in); pairs without any are left out."""
    found = {(b, a): angular_kernels(b, a, max_frequency) for b in out.irreps for a in into.irreps}
    return {pair: kernels for pair, kernels in found.items() if kernels}


class PointOperation(Operation):
    """An operation on kernels of features at points."""

    largest: ClassVar[float | None] = None  # the longest vectors that it holds for; None: all

    def values(self, space: int) -> int:
        """Values of duals at one pair of points, of features under a group of this space; 0 without a nonlinearity."""
        return 0

    @property
    def angular_kernels(self) -> int:
        """The most kernels that end in one irrep from one other, on all rings, that it sums with."""
        return 1

    def widest(self, space: int) -> int:
        """The most numbers that one copy of a feature has at a point while it runs, beyond what went in."""
        return 0


@dataclass(frozen=True)
class Filter(PointOperation):
    """Sums over points by kernels of `rings` times angular parts: K' = W²/B Σ κ K κ'ᵀ (+ b² of numbers), B kernels."""

    into: Features
    out: Features
    radii: tuple[float, ...]
    width: float
    max_frequency: int | None
    W_var: float
    b_var: float

    @property
    def kernels(self) -> Kernels:
        """Its angular kernels, each of which stands on every ring."""
        return filter_kernels(self.into, self.out, self.max_frequency)

    @property
    def angular_kernels(self) -> int:
        """The kernels between two irreps, where there are the most, times the rings."""
        return max(map(len, self.kernels.values())) * len(self.radii)

    def products(self, points: int) -> int:
        """Of Σ κ K κ'ᵀ and Σ κ Θ κ'ᵀ."""
        total = 0
        for (out, into), kernels in self.kernels.items():
            a, b, count = out.dimension, into.dimension, len(kernels) * len(self.radii)
            total += 2 * count * points**3 * (a * b * b + a * a * b)
        return total

    def widest(self, space: int) -> int:
        """The largest irrep that comes out."""
        return max((kind.dimension for kind in self.out.irreps), default=0)


@dataclass(frozen=True)
class PointMap(PointOperation):
    """Equivariant maps at each point: the kernels of a `Filter` at distance 0."""

    into: Features
    out: Features
    W_var: float
    b_var: float


@dataclass(frozen=True)
class Gate(PointOperation):
    """Numbers through `scalars` (None: they are gates alone), others times `gate` of a number of their own."""

    needs_variances: ClassVar[bool] = True
    into: Features
    out: Features
    scalars: DualActivation | None
    gate: DualActivation

    def values(self, space: int) -> int:
        """Two: one of the scalars, one of the gates."""
        return 2


@dataclass(frozen=True)
class Sampled(PointOperation):
    """`activation` at sampled directions of the signal Σ_l h_l · f_l, and back to its coefficients."""

    needs_variances: ClassVar[bool] = True
    irreps: tuple[Irrep, ...]
    activation: DualActivation
    resolution: int

    def values(self, space: int) -> int:
        """One for each pair of directions."""
        return self.widest(space) ** 2

    def widest(self, space: int) -> int:
        """Number of sampled directions, the most values per position."""
        return len(samples(space, self.resolution, 0).points)


@dataclass(frozen=True)
class Norm(PointOperation):
    """u ↦ u Σ_a c_a exp(-t_a |u|²) for `coefficients` c and `rates` t."""

    needs_variances: ClassVar[bool] = True
    coefficients: tuple[float, ...]
    rates: tuple[float, ...]
    largest: float | None = None  # type: ignore[misc]
    off: tuple[float, float] = (0.0, 0.0)  # what values and slopes of η are off by, at most, where it was fitted
    allowed: float = 0.0  # of that, relative to the root mean square of η

    def values(self, space: int) -> int:
        """One for each pair of terms."""
        return len(self.rates) ** 2


@dataclass(frozen=True)
class PointMean(PointOperation):
    """The mean over all points that exist."""


Nonlinear = Gate | Sampled | Norm
Op = Filter | PointMap | Nonlinear | PointMean


@dataclass(frozen=True)
class Points:
    """The space of `features` on so many points, or of a `whole` input (N, channels), which then counts as one point.

    `outputs` come out, of a whole input or, a `field`, on points.
    """

    count: int
    features: Features
    outputs: Features
    whole: bool = False
    field: bool = False

    @property
    def coordinates(self) -> int:
        """Number of leading channels that are coordinates."""
        return 0 if self.whole else self.features.space


SteerableProgram = Program[Points]
