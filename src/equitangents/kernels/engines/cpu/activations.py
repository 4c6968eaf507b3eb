"""Codes of activation kernels for the CPU engine, and the precision that plans need.

Vectors of few features are often nearly parallel or nearly opposite. The tangent kernel depends on the angle between
them, whose square has the rounding errors: in single precision the error of a small angle is at most 3e-4. In n
dimensions angles below ε have a probability of order ε^(n-1), so that they are rare from five features on.

A power multiplies relative errors by its degree, so that two layers of third powers multiply them by nine.

Networks with smooth nonlinearities or layer normalisation have no scaling (`kernels.scales`): after these, and after
biases, parallel and opposite inputs have a small non-zero angle, whose square is known to rounding of the variances.
A kink depends on the angle itself. Dense networks with only biases before the kink recompute such pairs
(`kernels.runs.programs`); those with windows have many of them, at constant parts of signals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from equitangents.kernels import duals
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.engines.codes import CONVERTED_SIDES, DUAL_SIDES, LONG, RAISED_SIDES, SHORT, DualKind
from equitangents.kernels.engines.cpu.tabulated import LOWEST, tabulated
from equitangents.kernels.plans import OffsetPlan, Step
from equitangents.kernels.scales import has_bias, unit_bias


@dataclass(frozen=True, eq=False)
class Described:
    """A code, its parameters, the constant added to φ, and coefficients, one row or a table of rows."""

    kind: DualKind
    first: float = 0.0
    second: float = 0.0
    offset: float = 0.0
    coefficients: Any = ()

    @property
    def count(self) -> int:
        """Number of coefficients in a row."""
        return int(np.shape(self.coefficients)[-1])

    def sides(self, changes: bool = False) -> int:
        """Number of values per position needed of each input separately; `changes`: fields change their scaling."""
        more = CONVERTED_SIDES.get(self.kind, 0) + (RAISED_SIDES if self.offset else 0)
        return DUAL_SIDES[self.kind] + (more if changes else 0)


_KINDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {  # kind and parameters
    duals.PiecewiseLinearDual: lambda a: (DualKind.PIECEWISE_LINEAR, a.slope),
    duals.ErfDual: lambda a: (DualKind.ERF,),
    duals.GeluDual: lambda a: (DualKind.GELU,),
    duals.SinDual: lambda a: (DualKind.SINE,),
    duals.CosDual: lambda a: (DualKind.COSINE,),
    duals.NormalisedExponentialDual: lambda a: (DualKind.NORMALISED_EXPONENTIAL, a.gamma),
    duals.WaveDual: lambda a: (DualKind.WAVE, a.sign, a.sine),
    duals.RbfDual: lambda a: (DualKind.RADIAL_BASIS, a.gamma),
    duals.ExpDual: lambda a: (DualKind.EXPONENTIAL, a.a, a.b),
    duals.GaussianDual: lambda a: (DualKind.GAUSSIAN, a.a, a.b),
    duals.GaborDual: lambda a: (DualKind.GABOR,),
    duals.Normalised: lambda a: (DualKind.NORMALISED, a.eps),
    duals.SignDual: lambda a: (DualKind.STEP, 4.0, 1.0),
    duals.HeavisideDual: lambda a: (DualKind.STEP, 1.0, 0.5),
    duals.RectifiedMonomialDual: lambda a: (DualKind.RECTIFIED_MONOMIAL, a.degree, a.first_moment),
}


def described(activation: Any, bent: bool = False) -> Described | None:
    """Description of an activation kernel for the engine, or None; `bent`: a kink follows a smooth function."""
    if isinstance(activation, duals.Shifted):
        of = described(activation.of, bent)
        return None if of is None else replace(of, offset=of.offset + activation.offset)
    if isinstance(activation, duals.PolynomialDual):
        degree, kind = activation.steepness, DualKind.LONG_POLYNOMIAL
        if degree <= SHORT:
            kind = DualKind.POLYNOMIAL
        return None if degree > LONG else Described(kind, coefficients=activation.coefficients)
    if isinstance(activation, duals.Quadrature):
        found = tabulated(activation.function, activation.tolerance)
        return None if found is None else Described(found.kind, LOWEST, found.octaves, coefficients=found.numbers)
    if bent and isinstance(activation, duals.GeluDual):
        return Described(DualKind.BENT_GELU)
    how = _KINDS.get(type(activation))
    return None if how is None else Described(*how(activation))


def name_of(activation: Any) -> str:
    """Name of an activation kernel that the engine lacks."""
    of = activation.of if isinstance(activation, duals.Shifted) else activation
    return name_of(of) if of is not activation else type(of).__name__.removesuffix("Dual")


def is_tabulated(activation: Any) -> bool:
    """Whether an activation kernel is tabulated over a range of variances."""
    of = activation.of if isinstance(activation, duals.Shifted) else activation
    return isinstance(of, duals.Quadrature)


_FEW = 4
_STEEP = 3  # degrees of powers


@lru_cache(maxsize=256)
def at_any_norms(plan: Any) -> Any:
    """The plan for inputs of arbitrary norms: in double precision, with fields scaled separately."""
    return replace(plan, any_norms=True)


@lru_cache(maxsize=256)
def computed_in_double(plan: OffsetPlan, channels: int) -> bool:
    """Whether kernels of `plan` are computed in double precision even if inputs and results are in single precision."""
    if plan.any_norms or features(plan, channels) <= _FEW:
        return True
    steps = plan.steps
    if any(traits_of(phi).steepness >= _STEEP for phi in _nonlinearities(steps)) or bends_what_is_smooth(steps):
        return True
    bent = [i for i, op in enumerate(steps) if op.nonlinearity is not None and traits_of(op.nonlinearity).bent]
    biased = any(map(has_bias, steps[: max(bent, default=0)]))  # before a kink, or a jump
    return any(op.is_window for op in steps) and biased and unit_bias(steps) is None


@lru_cache(maxsize=256)
def changes_units(plan: OffsetPlan) -> bool:
    """Whether fields change their scaling (see `kernels.scales`): a function grows, or norms may differ much."""
    steps = plan.steps
    if plan.any_norms and unit_bias(steps) is None:
        return True
    return any(traits_of(a).grows for a in _nonlinearities(steps))


def bends_what_is_smooth(steps: Sequence[Step]) -> bool:
    """Whether a kink or a jump follows a smooth nonlinearity in these operations."""
    activations = _nonlinearities(steps)
    bent = [i for i, a in enumerate(activations) if traits_of(a).bent and getattr(a, "slope", 0.0) != 1.0]
    smooth = [i for i, a in enumerate(activations) if traits_of(a).curved]
    return bool(bent and smooth) and min(smooth) < max(bent)


@lru_cache(maxsize=256)
def has_tables(plan: OffsetPlan) -> bool:
    """Whether functions are tabulated, so that kernels are NaN at variances outside of the tables."""
    return any(map(is_tabulated, _nonlinearities(plan.steps)))


def _nonlinearities(steps: Sequence[Step]) -> list[Any]:
    """The activation kernels of all nonlinearities, in the order of the operations."""
    return [op.nonlinearity for op in steps if op.nonlinearity is not None]


def features(plan: OffsetPlan, channels: int) -> int:
    """The number of input channels that influence one position before the first nonlinearity.

    Pools add none: a window then reads one average instead of many positions.
    """
    span = 1
    positions = plan.stages[0].levels[0].positions
    for stage in plan.stages:
        for op in stage.steps:
            if op.nonlinearity is not None:
                return channels * min(span, positions)
            span *= op.span
    if plan.single:  # flattened before the first nonlinearity
        span = positions
    return channels * min(span, positions)
