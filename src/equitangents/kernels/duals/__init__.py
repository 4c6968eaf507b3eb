"""Activation kernels: E[φ(u)φ(v)] and E[φ'(u)φ'(v)] of two Gaussian variables.

Each carries the squared distance d = q1 + q2 - 2k rather than the covariance k, so that nearly equal inputs keep all
their digits, and each is differentiable, without NaN, also at equal and at zero inputs.
"""

from equitangents.kernels.duals.erf import Erf
from equitangents.kernels.duals.exponential import Exp, Gaussian, NormalisedExponential, Rbf
from equitangents.kernels.duals.gabor import Gabor
from equitangents.kernels.duals.gelu import Gelu
from equitangents.kernels.duals.normalised import Normalised
from equitangents.kernels.duals.piecewise_linear import PiecewiseLinear
from equitangents.kernels.duals.polynomial import Polynomial
from equitangents.kernels.duals.quadrature import Quadrature
from equitangents.kernels.duals.rectified import RectifiedMonomial
from equitangents.kernels.duals.shifted import Shifted
from equitangents.kernels.duals.steps import Heaviside, Sign
from equitangents.kernels.duals.trigonometric import Cos, Sin, Wave

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
