"""Activation kernels: E[φ(u)φ(v)] and E[φ'(u)φ'(v)] of two Gaussian variables.

Each carries the squared distance d = q1 + q2 - 2k rather than the covariance k, so that nearly equal inputs keep all
their digits, and each is differentiable, without NaN, also at equal and at zero inputs.
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
