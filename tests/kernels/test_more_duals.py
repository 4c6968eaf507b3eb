"""Duals of exponentials, polynomials, steps and normalisation are Gaussian integrals, also near equal inputs."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from equitangents import nn
from equitangents.kernels import duals
from equitangents.stax import own_layers
from oracles import literal_duals

A = np.array([0.3, 1.0, 1.7, 0.5])
B = np.array([0.9, 1.0, 0.2, 0.5])
C = np.array([0.1, -0.6, 0.3, 0.45])
HE3 = (1 / math.sqrt(6)) * np.array([0, -3, 0, 1.0])


def poly(c):
    return np.polynomial.Polynomial(c), np.polynomial.Polynomial(c).deriv()


SMOOTH = {
    "exp": (nn.Exp(0.5, 0.7), lambda x: 0.5 * np.exp(0.7 * x), lambda x: 0.35 * np.exp(0.7 * x)),
    "gaussian": (
        nn.Gaussian(1.2, -0.6),
        lambda x: 1.2 * np.exp(-0.6 * x**2),
        lambda x: -1.44 * x * np.exp(-0.6 * x**2),
    ),
    "rbf": (
        nn.Rbf(0.4),
        lambda x: math.sqrt(2) * np.sin(math.sqrt(0.8) * x + math.pi / 4),
        lambda x: math.sqrt(1.6) * np.cos(math.sqrt(0.8) * x + math.pi / 4),
    ),
    "hermite": (nn.Hermite(3), *poly(HE3)),
    "monomial": (nn.Monomial(4), *poly([0, 0, 0, 0, 1])),
    "polynomial": (nn.Polynomial((0.3, -1.0, 0.2, 0.1)), *poly([0.3, -1.0, 0.2, 0.1])),
    "gabor": (
        own_layers.Gabor(),
        lambda x: np.exp(-(x**2)) * np.sin(x),
        lambda x: np.exp(-(x**2)) * (np.cos(x) - 2 * x * np.sin(x)),
    ),
    "raised gaussian": (
        own_layers.Raised(nn.Gaussian(1.2, -0.6), -0.8),
        lambda x: 1.2 * np.exp(-0.6 * x**2) - 0.8,
        lambda x: -1.44 * x * np.exp(-0.6 * x**2),
    ),
    "wave": (own_layers.Wave(0.7), lambda x: np.sin(x + 0.7), lambda x: np.cos(x + 0.7)),
}


def values(dual, a, b, c):
    """(E φφ, E φ'φ' from the distance, the same two from the covariance, E φ(u)², E φ(u)), compiled once."""

    def all_of(a, b, c):
        return *dual.pair(a + b - 2 * c, a, b), *dual.covariance(c, a, b), *dual.moments(a)

    with jax.enable_x64(True):
        return [np.asarray(v) for v in jax.jit(all_of)(a, b, c)]


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", SMOOTH)
def test_duals_are_gaussian_integrals(name):
    layer, phi, slope = SMOOTH[name]
    product, derivative = literal_duals.trapezoid_dual(phi, slope, A, B, C)
    own = literal_duals.trapezoid_dual(phi, slope, A, A, A)[0]
    other = literal_duals.trapezoid_dual(phi, slope, B, B, B)[0]
    means = literal_duals.trapezoid_dual(phi, slope, A, B, 0 * C)[0]
    distance, d1, covariance, d2, square, first = values(layer.dual, A, B, C)
    second = values(layer.dual, B, A, C)[5]
    for found, expected in (
        (distance, own + other - 2 * product), (d1, derivative), (covariance, product), (d2, derivative),
        (square, own), (first * second, means),
    ):  # fmt: skip
        assert np.max(np.abs(found - expected)) <= 1e-9 * max(1, np.max(np.abs(expected)))


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", SMOOTH)
def test_near_equal_inputs_keep_their_digits(name):
    layer, _, slope = SMOOTH[name]
    d = np.full(4, 1e-20)
    with jax.enable_x64(True):
        distance, derivative = jax.jit(layer.dual.pair)(d, A, A)
    expected = literal_duals.trapezoid_dual(slope, slope, A, A, A)[0]
    assert np.max(np.abs(np.asarray(distance) / (d * expected) - 1)) <= 1e-8  # ∂E[(φ(u)-φ(v))²]/∂d = E[φ'φ']
    assert np.max(np.abs(np.asarray(derivative) / expected - 1)) <= 1e-8


@pytest.mark.parametrize("slope", [0.3, -1.0])
def test_a_half_linear_function_has_one_dual_by_the_distance_and_by_the_covariance(slope):
    distance, d1, covariance, d2, own, _ = values(duals.PiecewiseLinear(slope), A, B, C)
    other = (1 + slope**2) / 2 * B
    assert np.allclose(distance, own + other - 2 * covariance, atol=1e-13)
    assert np.allclose(d1, d2, rtol=1e-12)


def test_the_normalised_exponential_is_a_function_of_the_angle():
    distance, slope, covariance, slope2, square, first = values(nn.Exponential(0.7).dual, A, B, C)
    cosine = C / np.sqrt(A * B)
    expected = np.sqrt(A * B) * np.exp(0.7 * (cosine - 1))
    assert np.allclose(covariance, expected, rtol=1e-13)
    assert np.allclose(distance, A + B - 2 * expected, rtol=1e-12)
    assert np.allclose([slope, slope2], 0.7 * np.exp(0.7 * (cosine - 1)), rtol=1e-13)
    assert np.allclose(square, A)
    assert np.allclose(first, np.sqrt(A) * math.exp(-0.35))


def test_steps_have_the_angle_for_a_kernel_and_no_ntk():
    theta = np.arccos(C / np.sqrt(A * B))
    for layer, product, square, mean in (
        (nn.Sign(), 1 - 2 * theta / np.pi, 1.0, 0.0), (nn.Heaviside(), (1 - theta / np.pi) / 2, 0.5, 0.5)
    ):  # fmt: skip
        distance, _, covariance, _, own, first = values(layer.dual, A, B, C)
        assert np.allclose(covariance, product, atol=1e-14)
        assert np.allclose(distance, 2 * square - 2 * product, atol=1e-14)
        assert np.allclose(own, square)
        assert np.allclose(first, mean)
    x = np.random.default_rng(0).normal(size=(3, 4))
    net = nn.Sequential(nn.Dense(4), nn.Sign(), nn.Dense(1))
    angle = np.arccos(np.clip(_cosines(x), -1, 1))
    assert np.allclose(net.kernel(x).nngp, 1 - 2 * angle / np.pi, atol=1e-7)
    with pytest.raises(ValueError, match="jump has no neural tangent kernel"):
        _ = net.kernel(x).ntk


def _cosines(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


def test_normalisation_over_channels_is_the_correlation():
    distance, factor, covariance, _, square, first = values(duals.Normalised(0.1), A, B, C)
    a, b = A + 0.1, B + 0.1
    assert np.allclose(covariance, C / np.sqrt(a * b), rtol=1e-13)
    assert np.allclose(distance, A / a + B / b - 2 * C / np.sqrt(a * b), rtol=1e-12)
    assert np.allclose(factor, 1 / np.sqrt(a * b), rtol=1e-13)
    assert np.allclose(square, A / a)
    assert np.max(np.abs(first)) == 0


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_sines_of_a_huge_variance_know_an_input_from_others(size, rng):
    net = nn.Sequential(nn.Dense(1), nn.Monomial(3), nn.Dense(1), nn.Sin(), nn.Dense(1))
    x = size * rng.standard_normal((5, 6))
    found, q = net.kernel(x, engine="reference"), 15 * np.mean(x**2, axis=1) ** 3
    np.testing.assert_allclose(found.nngp, np.eye(5) / 2, atol=1e-12)
    np.testing.assert_allclose(found.ntk, np.diag(0.5 + 1.4 * q), rtol=1e-12, atol=1e-12)
