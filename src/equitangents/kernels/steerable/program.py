"""Steerable programs: what layers on points do to the kernels of features, which are matrices.

For two inputs and one irrep there are K and Θ, (P, d, P', d): covariances of the components of one copy at all pairs
of points. Copies are independent, and so are irreps: their weights are apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from equitangents.kernels.operation import DualActivation, Operation
from equitangents.kernels.program import Program
from equitangents.steerable import Features
from equitangents.steerable.irrep import Irrep


@dataclass(frozen=True)
class Filter(Operation):
    """Sums over points by kernels of `rings` times angular parts: K' = W²/B Σ κ K κ'ᵀ (+ b² of numbers), B kernels."""

    into: Features
    out: Features
    radii: tuple[float, ...]
    width: float
    max_frequency: int | None
    W_var: float
    b_var: float


@dataclass(frozen=True)
class PointMap(Operation):
    """Equivariant maps at each point: the kernels of a `Filter` that act on the point itself alone."""

    into: Features
    out: Features
    W_var: float
    b_var: float


@dataclass(frozen=True)
class Gate(Operation):
    """Numbers through `scalars` (None: they are gates alone), others times `gate` of a number of their own."""

    needs_variances: ClassVar[bool] = True
    into: Features
    out: Features
    scalars: DualActivation | None
    gate: DualActivation


@dataclass(frozen=True)
class Sampled(Operation):
    """`activation` at sampled directions of the signal Σ_l h_l · f_l, and back to its coefficients."""

    needs_variances: ClassVar[bool] = True
    irreps: tuple[Irrep, ...]
    activation: DualActivation
    resolution: int


@dataclass(frozen=True)
class Norm(Operation):
    """u ↦ u Σ_a c_a exp(-t_a |u|²) for `coefficients` c and `rates` t."""

    needs_variances: ClassVar[bool] = True
    coefficients: tuple[float, ...]
    rates: tuple[float, ...]
    largest: float | None = None


@dataclass(frozen=True)
class PointMean(Operation):
    """The mean over all points that exist."""


Nonlinear = Gate | Sampled | Norm
Op = Filter | PointMap | Nonlinear | PointMean


def is_steerable(ops: tuple[Any, ...]) -> bool:
    """Whether these are operations of a steerable program."""
    return any(isinstance(op, Op) for op in ops)


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
        """How many of the first channels are coordinates."""
        return 0 if self.whole else self.features.space


SteerableProgram = Program[Points]
