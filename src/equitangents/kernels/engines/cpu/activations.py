"""Dual activations as the CPU engine knows them: each kind's number (`native/src/program.hpp`) and its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from equitangents.kernels import duals

_SHORT, _LONG = 4, 20  # degrees of polynomials


@dataclass(frozen=True)
class Described:
    """A kind's number, the numbers that it needs of each input alone, its parameters, and what is added to φ."""

    kind: int
    sides: int = 2
    first: float = 0.0
    second: float = 0.0
    offset: float = 0.0
    coefficients: tuple[float, ...] = ()


_KINDS: dict[type, Callable[[Any], Described | None]] = {
    duals.PiecewiseLinear: lambda a: Described(0, first=a.slope),
    duals.Erf: lambda a: Described(1, 6),
    duals.Gelu: lambda a: Described(2, 4),
    duals.Sin: lambda a: Described(3),
    duals.Cos: lambda a: Described(4),
    duals.NormalisedExponential: lambda a: Described(5, first=a.gamma),
    duals.Wave: lambda a: Described(6, first=math.cos(2 * a.phase), second=math.sin(a.phase)),
    duals.Rbf: lambda a: Described(7, 1, a.gamma),
    duals.Exp: lambda a: Described(8, 1, a.a, a.b),
    duals.Gaussian: lambda a: Described(9, 3, a.a, a.b),
    duals.Gabor: lambda a: Described(10, 4),
    duals.Normalised: lambda a: Described(11, 4, a.eps),
    duals.Sign: lambda a: Described(13, first=4.0, second=1.0),
    duals.Heaviside: lambda a: Described(13, first=1.0, second=0.5),
    duals.RectifiedMonomial: lambda a: Described(14, first=a.degree, second=a.first_moment),
    duals.Polynomial: lambda a: _polynomial(a.coefficients),
    duals.Shifted: lambda a: _shifted(a),
}
STANDARDISED = 12


def described(activation: Any, bent: bool = False) -> Described | None:
    """How the engine is told of a dual, or None if it has none such; `bent`: a kink follows a smooth one."""
    how = _KINDS.get(type(activation))
    if how is not None and bent and isinstance(activation, duals.Gelu):
        return Described(17, 8)
    if bent and isinstance(activation, duals.Shifted):
        return _shifted(activation, bent)
    return None if how is None else how(activation)


def name_of(activation: Any) -> str:
    """What a dual is called where the engine lacks it."""
    return name_of(activation.of) if isinstance(activation, duals.Shifted) else type(activation).__name__


def _polynomial(coefficients: tuple[float, ...]) -> Described | None:
    degree = len(coefficients) - 1
    if degree > _LONG:
        return None
    kind, most = (15, _SHORT) if degree <= _SHORT else (16, _LONG)
    return Described(kind, most + 3, coefficients=coefficients)


def _shifted(activation: duals.Shifted, bent: bool = False) -> Described | None:
    of = described(activation.of, bent)
    return None if of is None else replace(of, offset=of.offset + activation.offset)
