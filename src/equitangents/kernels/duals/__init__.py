"""Activation kernels: E[φ(u)φ(v)] and E[φ'(u)φ'(v)] of two Gaussian variables.

Each carries the squared distance d = q1 + q2 - 2k rather than the covariance k, so that nearly equal inputs keep all
their digits, and each is differentiable, without NaN, also at equal and at zero inputs.
"""

from equitangents.kernels.duals.elementary import (
    Exp,
    Gabor,
    Gaussian,
    Normalised,
    NormalisedExponential,
    Polynomial,
    Rbf,
    Shifted,
)
from equitangents.kernels.duals.kinks import Heaviside, PiecewiseLinear, RectifiedMonomial, Sign
from equitangents.kernels.duals.quadrature import Quadrature
from equitangents.kernels.duals.smooth import Cos, Erf, Gelu, Sin, Wave

__all__ = [
    "Cos",
    "Erf",
    "Exp",
    "Gabor",
    "Gaussian",
    "Gelu",
    "Heaviside",
    "Normalised",
    "NormalisedExponential",
    "PiecewiseLinear",
    "Polynomial",
    "Quadrature",
    "Rbf",
    "RectifiedMonomial",
    "Shifted",
    "Sign",
    "Sin",
    "Wave",
]
