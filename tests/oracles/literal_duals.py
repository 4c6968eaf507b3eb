"""Dual activations in closed form, for pairs of jointly Gaussian numbers.

For (u, v) ~ N(0, [[a, c], [c, b]]) and D = E(u − v)² = a + b − 2c each function returns
E[φ(u)φ(v)], E[φ′(u)φ′(v)] and E[(φ(u) − φ(v))²]; `mean` returns E[φ(u)]. Arrays broadcast.
Angles come from D, not from c, so that nothing is lost where u and v are nearly equal.
"""

from __future__ import annotations

import math

import numpy as np

SMOOTH = ("erf", "gelu", "sin", "cos", "identity")
KINKED = ("relu", "leaky_relu", "abs")


def half_angle(a, b, D):
    """(sin²(θ/2), θ) of the angle between two vectors of squared lengths a, b and squared distance D."""
    ra, rb = np.sqrt(a), np.sqrt(b)
    with np.errstate(invalid="ignore", divide="ignore"):
        sine2 = np.where(ra * rb > 0, (D - (ra - rb) ** 2) / (4 * ra * rb), 0.5)
    sine2 = np.clip(sine2, 0.0, 1.0)
    return sine2, 2 * np.arctan2(np.sqrt(sine2), np.sqrt(1 - sine2))


def _angle_times_cosine_less_sine(theta):
    """θ cos θ − sin θ, by its Taylor series Σ_k (−1)^k θ^(2k+1) 2k/(2k+1)! where θ is small."""
    series = sum((-1) ** k * theta ** (2 * k + 1) * (2 * k) / math.factorial(2 * k + 1) for k in range(1, 12))
    return np.where(theta < 1.0, series, theta * np.cos(theta) - np.sin(theta))


def _piecewise_linear(slope):
    # φ(u) = α u + β |u|; the products u|v| have mean zero.
    alpha, beta = (1 + slope) / 2, (1 - slope) / 2

    def dual(a, b, c, D):
        sine2, theta = half_angle(a, b, D)
        root = np.sqrt(a * b)
        distance_of_abs = (np.sqrt(a) - np.sqrt(b)) ** 2 + 2 * root * (
            2 * sine2 + 2 / np.pi * _angle_times_cosine_less_sine(theta)
        )
        product_of_abs = root * 2 / np.pi * (np.sin(theta) + (np.pi / 2 - theta) * (1 - 2 * sine2))
        return (
            alpha**2 * c + beta**2 * product_of_abs,
            alpha**2 + beta**2 * (1 - 2 * theta / np.pi),
            alpha**2 * D + beta**2 * distance_of_abs,
        )

    return dual, lambda a: beta * np.sqrt(2 * a / np.pi)


def _from_covariance(value, derivative, mean):
    """A smooth φ: the distance is E φ(u)² + E φ(v)² − 2 E φ(u)φ(v), zero exactly where u = v."""

    def dual(a, b, c, D):
        del D
        distance = value(a, a, a) + value(b, b, b) - 2 * value(a, b, c)
        return value(a, b, c), derivative(a, b, c), np.maximum(distance, 0.0)

    return dual, mean


def _erf():
    def gap(a, b, c):
        return 1 + 2 * (a + b) + 4 * (np.sqrt(a * b) - c) * (np.sqrt(a * b) + c)  # (1+2a)(1+2b) − 4c²

    return _from_covariance(
        lambda a, b, c: 2 / np.pi * np.arctan2(2 * c, np.sqrt(gap(a, b, c))),
        lambda a, b, c: 4 / np.pi / np.sqrt(gap(a, b, c)),
        lambda a: 0 * a,
    )


def _gelu():
    # φ(u) = u Φ(u): integrate by parts (Stein) until only Gaussian-tilted means remain.
    def parts(a, b, c):
        delta = 1 + a + b + (np.sqrt(a * b) - c) * (np.sqrt(a * b) + c)  # (1+a)(1+b) − c²
        return delta, 0.25 + np.arctan2(c, np.sqrt(delta)) / (2 * np.pi)  # and E[Φ(u)Φ(v)]

    def value(a, b, c):
        delta, both = parts(a, b, c)
        tilted = a * (b * (1 + a) - c**2) / (1 + a) + c**2 / (1 + b)
        return c * both + tilted / (2 * np.pi * np.sqrt(delta))

    def derivative(a, b, c):
        delta, both = parts(a, b, c)
        return both + c * (1 / (1 + a) + 1 / (1 + b) + 1 / delta) / (2 * np.pi * np.sqrt(delta))

    return _from_covariance(value, derivative, lambda a: a / np.sqrt(2 * np.pi * (1 + a)))


def _wave(sign, mean):
    def value(a, b, c):
        return 0.5 * (np.exp(-(a + b) / 2 + c) + sign * np.exp(-(a + b) / 2 - c))

    def derivative(a, b, c):
        return 0.5 * (np.exp(-(a + b) / 2 + c) - sign * np.exp(-(a + b) / 2 - c))

    return _from_covariance(value, derivative, mean)


def _identity():
    return (lambda a, b, c, D: (c + 0 * a, 1.0 + 0 * c, D + 0 * a)), lambda a: 0 * a


def _named(name, slope):
    if name in KINKED:
        return _piecewise_linear({"relu": 0.0, "abs": -1.0, "leaky_relu": slope}[name])
    return {
        "erf": _erf,
        "gelu": _gelu,
        "sin": lambda: _wave(-1.0, lambda a: 0 * a),
        "cos": lambda: _wave(1.0, lambda a: np.exp(-a / 2)),
        "identity": _identity,
    }[name]()


def dual(name, a, b, c, D, slope=0.0):
    """E[φ(u)φ(v)], E[φ′(u)φ′(v)], E[(φ(u) − φ(v))²] of the activation `name`."""
    return _named(name, slope)[0](a, b, c, D)


def mean(name, a, slope=0.0):
    """E[φ(u)] for u ~ N(0, a)."""
    return _named(name, slope)[1](a)


def trapezoid_dual(phi, derivative, a, b, c, step=1 / 12, reach=9.0):
    """The first two of `dual` for any smooth φ (arrays a, b, c), by the trapezoidal rule in two dimensions."""
    z = np.arange(-reach, reach + step / 2, step)
    density = np.exp(-(z**2) / 2) * step / np.sqrt(2 * np.pi)
    value, slope = np.empty(np.shape(a)), np.empty(np.shape(a))
    for index in np.ndindex(np.shape(a)):
        ra, rb = math.sqrt(a[index]), math.sqrt(b[index])
        cosine = float(np.clip(c[index] / (ra * rb), -1, 1)) if ra * rb > 0 else 0.0
        u = ra * z[:, None]
        v = rb * (cosine * z[:, None] + math.sqrt(1 - cosine**2) * z[None, :])
        value[index] = density @ (phi(u) * phi(v)) @ density
        slope[index] = density @ (derivative(u) * derivative(v)) @ density
    return value, slope
