"""Activation kernels: E[φ(u)φ(v)] and E[φ'(u)φ'(v)] of two Gaussian variables.

They use the squared distance d = q1 + q2 - 2k instead of the covariance k, which keeps all digits for nearly equal
inputs, and are differentiable, without NaN, also at equal and at zero inputs.
"""

from equitangents.kernels.duals.elementary import (
    ExpDual,
    GaborDual,
    GaussianDual,
    Normalised,
    NormalisedExponentialDual,
    PolynomialDual,
    RbfDual,
    Shifted,
)
from equitangents.kernels.duals.kinks import HeavisideDual, PiecewiseLinearDual, RectifiedMonomialDual, SignDual
from equitangents.kernels.duals.quadrature import Quadrature
from equitangents.kernels.duals.smooth import CosDual, ErfDual, GeluDual, SinDual, WaveDual

__all__ = [
    "CosDual",
    "ErfDual",
    "ExpDual",
    "GaborDual",
    "GaussianDual",
    "GeluDual",
    "HeavisideDual",
    "Normalised",
    "NormalisedExponentialDual",
    "PiecewiseLinearDual",
    "PolynomialDual",
    "Quadrature",
    "RbfDual",
    "RectifiedMonomialDual",
    "Shifted",
    "SignDual",
    "SinDual",
    "WaveDual",
]
