"""The closed forms of the oracle against integrals done without them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf, ndtr

from oracles import literal_duals

CASES = [(1.0, 1.0, 0.3), (0.5, 2.0, -0.7), (1.3, 0.2, 0.5), (2.0, 2.0, 1.999), (0.7, 0.7, 0.0), (1.5, 1.1, -1.2)]

SMOOTH = {
    "erf": (erf, lambda u: 2 / np.sqrt(np.pi) * np.exp(-(u**2))),
    "gelu": (lambda u: u * ndtr(u), lambda u: ndtr(u) + u * np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)),
    "sin": (np.sin, np.cos),
    "cos": (np.cos, lambda u: -np.sin(u)),
    "identity": (lambda u: u, np.ones_like),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_duals_are_gaussian_integrals(name):
    phi, derivative = SMOOTH[name]
    a, b, c = np.array(CASES).T
    value, slope, distance = literal_duals.dual(name, a, b, c, a + b - 2 * c)
    product, gain = literal_duals.trapezoid_dual(phi, derivative, a, b, c)
    own, other = (literal_duals.trapezoid_dual(phi, derivative, q, q, q)[0] for q in (a, b))
    np.testing.assert_allclose(value, product, rtol=0, atol=1e-13)
    np.testing.assert_allclose(slope, gain, rtol=0, atol=1e-13)
    np.testing.assert_allclose(distance, own + other - 2 * product, rtol=0, atol=4e-13)
    nodes, weights = np.polynomial.hermite_e.hermegauss(170)
    means = phi(np.sqrt(a)[:, None] * nodes) @ weights / weights.sum()
    np.testing.assert_allclose(literal_duals.mean(name, a), means, rtol=0, atol=2e-13)


@pytest.mark.parametrize(("name", "slope"), [("relu", 0.0), ("leaky_relu", 0.1), ("leaky_relu", -0.3), ("abs", -1.0)])
def test_kinked_duals_are_integrals_over_the_angle(name, slope):
    # (u, v) in polar coordinates: E r² = 2, and the angle's integrand has kinks where u or v changes sign.
    phi = lambda u: np.where(u > 0, u, slope * u)
    derivative = lambda u: np.where(u > 0, 1.0, slope)
    for a, b, c in CASES:
        s, t = c / math.sqrt(a), math.sqrt(b - c**2 / a)

        def both(alpha, s=s, t=t, a=a):
            return math.sqrt(a) * math.cos(alpha), s * math.cos(alpha) + t * math.sin(alpha)

        tilt = math.atan2(t, s)
        kinks = sorted(x % (2 * math.pi) for k in (-1, 1) for x in (k * math.pi / 2, tilt + k * math.pi / 2))
        edges = [0.0, *kinks, 2 * math.pi]

        def integral(f, edges=edges, both=both):
            at = lambda alpha: float(f(*both(alpha)))
            return sum(quad(at, p, q, epsabs=1e-14)[0] for p, q in itertools.pairwise(edges)) / (2 * math.pi)

        value, gain, distance = literal_duals.dual(name, a, b, c, a + b - 2 * c, slope)
        assert value == pytest.approx(2 * integral(lambda u, v: phi(u) * phi(v)), rel=0, abs=1e-12)
        assert gain == pytest.approx(integral(lambda u, v: derivative(u) * derivative(v)), rel=0, abs=1e-12)
        assert distance == pytest.approx(2 * integral(lambda u, v: (phi(u) - phi(v)) ** 2), rel=0, abs=1e-12)
        one = (
            quad(lambda z: float(phi(z)) * math.exp(-z * z / 2), -12, 0)[0]
            + quad(lambda z: float(phi(z)) * math.exp(-z * z / 2), 0, 12)[0]
        )
        assert literal_duals.mean(name, a, slope) == pytest.approx(
            math.sqrt(a / 2 / math.pi) * one, rel=1e-10, abs=1e-12
        )


@pytest.mark.parametrize("name", ["relu", "abs", "erf", "gelu", "sin", "cos", "identity"])
def test_equal_arguments_have_distance_zero_and_their_own_variance(name):
    a = np.array([1e-8, 0.3, 1.0, 7.0])
    value, slope, distance = literal_duals.dual(name, a, a, a, 0 * a)
    assert (distance == 0).all()
    if name in ("relu", "abs"):
        gain = 0.5 if name == "relu" else 1.0
        np.testing.assert_allclose(value, gain * a, rtol=3e-16)
        np.testing.assert_array_equal(slope, np.full(4, gain))


@pytest.mark.parametrize("distance", [1e-9, 1e-6, 1e-3, 0.1, 1.0])
def test_relu_distance_keeps_its_digits(distance):
    # E (relu u − relu v)² = D/2 − |sin θ − θ cos θ| √(ab)/π for a = b, with the difference expanded in θ.
    D = distance**2
    theta = 2 * math.asin(distance / 2)
    _, slope, got = literal_duals.dual("relu", 1.0, 1.0, 1 - D / 2, D)
    odd = sum((-1) ** k * theta ** (2 * k + 1) * 2 * k / math.factorial(2 * k + 1) for k in range(1, 14))
    assert got == pytest.approx(D / 2 + odd / math.pi, rel=1e-14)
    assert 0.5 - slope == pytest.approx(theta / (2 * math.pi), rel=1e-6, abs=1e-16)
