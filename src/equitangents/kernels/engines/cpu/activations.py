"""Activation kernels as the CPU engine knows them: each kind and its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equitangents.kernels import duals
from equitangents.kernels.engines.codes import CONVERTED_SIDES, DUAL_SIDES, LONG, RAISED_SIDES, SHORT, DualKind
from equitangents.kernels.engines.cpu.tabulated import LOWEST, tabulated


@dataclass(frozen=True, eq=False)
class Described:
    """A kind, its parameters, and what is added to φ."""

    kind: DualKind
    first: float = 0.0
    second: float = 0.0
    offset: float = 0.0
    coefficients: ArrayLike = ()
    columns: int | None = None  # of a table of coefficients

    @property
    def count(self) -> int:
        """Number of coefficients in a row of a table."""
        return np.size(self.coefficients) if self.columns is None else self.columns

    def sides(self, changes: bool = False) -> int:
        """How many numbers a position it needs of each input alone, between fields in units if it `changes` these."""
        more = CONVERTED_SIDES.get(self.kind, 0) + (RAISED_SIDES if self.offset else 0)
        return DUAL_SIDES[self.kind] + (more if changes else 0)


_KINDS: dict[type, Callable[[Any], Described | None]] = {
    duals.PiecewiseLinear: lambda a: Described(DualKind.PIECEWISE_LINEAR, first=a.slope),
    duals.Erf: lambda a: Described(DualKind.ERF),
    duals.Gelu: lambda a: Described(DualKind.GELU),
    duals.Sin: lambda a: Described(DualKind.SINE),
    duals.Cos: lambda a: Described(DualKind.COSINE),
    duals.NormalisedExponential: lambda a: Described(DualKind.NORMALISED_EXPONENTIAL, first=a.gamma),
    duals.Wave: lambda a: Described(DualKind.WAVE, first=math.cos(2 * a.phase), second=math.sin(a.phase)),
    duals.Rbf: lambda a: Described(DualKind.RADIAL_BASIS, first=a.gamma),
    duals.Exp: lambda a: Described(DualKind.EXPONENTIAL, first=a.a, second=a.b),
    duals.Gaussian: lambda a: Described(DualKind.GAUSSIAN, first=a.a, second=a.b),
    duals.Gabor: lambda a: Described(DualKind.GABOR),
    duals.Normalised: lambda a: Described(DualKind.NORMALISED, first=a.eps),
    duals.Sign: lambda a: Described(DualKind.STEP, first=4.0, second=1.0),
    duals.Heaviside: lambda a: Described(DualKind.STEP, first=1.0, second=0.5),
    duals.RectifiedMonomial: lambda a: Described(DualKind.RECTIFIED_MONOMIAL, first=a.degree, second=a.first_moment),
    duals.Polynomial: lambda a: _polynomial(a.coefficients),
    duals.Shifted: lambda a: _shifted(a),
}


def described(activation: Any, bent: bool = False) -> Described | None:
    """Description of an activation kernel for the engine, or None; `bent`: a kink follows a smooth one."""
    if isinstance(activation, duals.Quadrature):
        return _tabulated(activation)
    how = _KINDS.get(type(activation))
    if how is not None and bent and isinstance(activation, duals.Gelu):
        return Described(DualKind.BENT_GELU)
    if bent and isinstance(activation, duals.Shifted):
        return _shifted(activation, bent)
    return None if how is None else how(activation)


def name_of(activation: Any) -> str:
    """Name of an activation kernel that the engine lacks."""
    return name_of(activation.of) if isinstance(activation, duals.Shifted) else type(activation).__name__


def _polynomial(coefficients: tuple[float, ...]) -> Described | None:
    degree = len(coefficients) - 1
    if degree > LONG:
        return None
    kind = DualKind.POLYNOMIAL if degree <= SHORT else DualKind.LONG_POLYNOMIAL
    return Described(kind, coefficients=coefficients)


def is_tabulated(activation: Any) -> bool:
    """Whether an activation kernel is a table over a range of variances."""
    of = activation.of if isinstance(activation, duals.Shifted) else activation
    return isinstance(of, duals.Quadrature) and of.order is None


def _tabulated(activation: duals.Quadrature) -> Described | None:
    if activation.order is not None or (found := tabulated(activation.function, activation.tolerance)) is None:
        return None
    return Described(found.kind, LOWEST, found.octaves, coefficients=found.numbers, columns=found.numbers.shape[1])


def _shifted(activation: duals.Shifted, bent: bool = False) -> Described | None:
    of = described(activation.of, bent)
    return None if of is None else replace(of, offset=of.offset + activation.offset)
