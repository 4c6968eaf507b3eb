"""Covariances after nonlinearities in numbers of 106 bits, of which cancellation leaves enough.

The formulas are those of the other modules of this package, each without a second one for nearly equal inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from equitangents.kernels.duals.erf import Erf
from equitangents.kernels.duals.exponential import Exp, Gaussian, NormalisedExponential, Rbf
from equitangents.kernels.duals.gabor import Gabor
from equitangents.kernels.duals.gelu import Gelu
from equitangents.kernels.duals.normalised import Normalised
from equitangents.kernels.duals.piecewise_linear import PiecewiseLinear
from equitangents.kernels.duals.polynomial import Polynomial
from equitangents.kernels.duals.steps import Heaviside, Sign
from equitangents.kernels.duals.trigonometric import Cos, Sin, Wave
from equitangents.kernels.twofold import PI, Twofold, arctangent, exponential, twofold

Moments = tuple[Twofold, Twofold]


def is_known(activation: Any) -> bool:
    """Whether `covariance` knows the dual."""
    return type(activation) in _COVARIANCES


def covariance(activation: Any, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    """(E[φ(u)φ(v)], E[φ'(u)φ'(v)]) of u and v with variances q1 and q2 and covariance k."""
    return _COVARIANCES[type(activation)](activation, k, q1, q2)


def _turn(k: Twofold, q1: Twofold, q2: Twofold) -> tuple[Twofold, Twofold]:
    """(1 - 2θ/π, √(q1 q2) sin θ)."""
    sine = (q1 * q2 - k * k).sqrt()
    return 1.0 - 2.0 * arctangent(sine, k) / PI, sine


def _piecewise_linear(phi: PiecewiseLinear, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    turn, sine = _turn(k, q1, q2)
    slope = twofold(phi.slope)
    odd, even = ((1.0 + slope) / 2.0) * ((1.0 + slope) / 2.0), ((1.0 - slope) / 2.0) * ((1.0 - slope) / 2.0)
    return odd * k + even * (2.0 * sine / PI + turn * k), odd + even * turn


def _sign(phi: Sign, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    return _turn(k, q1, q2)[0], 0.0 * k


def _heaviside(phi: Heaviside, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    return (1.0 + _turn(k, q1, q2)[0]) / 4.0, 0.0 * k


def _erf(phi: Erf, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    root = ((1.0 + 2.0 * q1) * (1.0 + 2.0 * q2) - 4.0 * k * k).sqrt()
    return 2.0 * arctangent(2.0 * k, root) / PI, 4.0 / (PI * root)


def _gelu(phi: Gelu, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    delta, inverse = (1.0 + q1) * (1.0 + q2) - k * k, 1.0 / (1.0 + q1) + 1.0 / (1.0 + q2)
    root = delta.sqrt()
    f, p = 0.5 / (PI * root), 0.25 + 0.5 * arctangent(k, root) / PI
    return k * p + f * (q1 * q2 - k * k + k * k * inverse), p + k * f * (inverse + 1.0 / delta)


def _waves(k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    half = (q1 + q2) / 2.0
    up, down = exponential(k - half), exponential(-k - half)
    return (up - down) / 2.0, (up + down) / 2.0


def _cosine(phi: Cos, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    sine, cosine = _waves(k, q1, q2)
    return cosine, sine


def _wave(phi: Wave, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    sine, cosine = _waves(k, q1, q2)
    share = math.sin(phi.phase) ** 2
    return sine + share * (cosine - sine), cosine + share * (sine - cosine)


def _exponential(phi: Exp, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    value = phi.a**2 * exponential(phi.b**2 * ((q1 + q2) / 2.0 + k))
    return value, phi.b**2 * value


def _gaussian(phi: Gaussian, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    delta = 1.0 - 2.0 * phi.b * (q1 + q2) + 4.0 * phi.b**2 * (q1 * q2 - k * k)
    value = phi.a**2 / delta.sqrt()
    return value, 4.0 * phi.b**2 * k * value / delta


def _radial(phi: Rbf, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    value = exponential(-phi.gamma * (q1 + q2 - 2.0 * k))
    return value, 2.0 * phi.gamma * value


def _normalised_exponential(phi: NormalisedExponential, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    r = (q1 * q2).sqrt()
    value = exponential(phi.gamma * (k / r - 1.0))
    return r * value, phi.gamma * value


def _gabor(phi: Gabor, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    minor, total = q1 * q2 - k * k, q1 + q2
    delta = 1.0 + 2.0 * total + 4.0 * minor
    half, inner = (total + 4.0 * minor) / (2.0 * delta), k / delta
    up, down, root = exponential(inner - half), exponential(-inner - half), delta.sqrt()
    sine, cosine = (up - down) / (2.0 * root), (up + down) / (2.0 * root)
    slope = 4.0 * inner * (1.0 + (1.0 + total) / delta) * sine + cosine * (1.0 / delta + 8.0 * inner * inner)
    return sine, slope


def _normalised(phi: Normalised, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    factor = 1.0 / ((q1 + phi.eps) * (q2 + phi.eps)).sqrt()
    return factor * k, factor


def _polynomial(phi: Polynomial, k: Twofold, q1: Twofold, q2: Twofold) -> Moments:
    value = slope = before = 0.0 * k
    power = value + 1.0
    for n in range(len(phi.coefficients)):
        both = _derivative(phi.coefficients, n, q1) * _derivative(phi.coefficients, n, q2) / float(math.factorial(n))
        value, slope = value + both * power, slope + float(n) * both * before
        before, power = power, power * k
    return value, slope


def _derivative(coefficients: tuple[float, ...], n: int, q: Twofold) -> Twofold:
    """E[φ⁽ⁿ⁾(u)] of u ~ N(0, q)."""
    total, power = 0.0 * q, 0.0 * q + 1.0
    for half, j in enumerate(range(n, len(coefficients), 2)):
        total = total + coefficients[j] * power * (math.factorial(j) / (2**half * math.factorial(half)))
        power = power * q
    return total


_COVARIANCES: dict[type, Callable[[Any, Twofold, Twofold, Twofold], Moments]] = {
    PiecewiseLinear: _piecewise_linear,
    Sign: _sign,
    Heaviside: _heaviside,
    Erf: _erf,
    Gelu: _gelu,
    Sin: lambda phi, k, q1, q2: _waves(k, q1, q2),
    Cos: _cosine,
    Wave: _wave,
    Exp: _exponential,
    Gaussian: _gaussian,
    Rbf: _radial,
    NormalisedExponential: _normalised_exponential,
    Gabor: _gabor,
    Normalised: _normalised,
    Polynomial: _polynomial,
}
