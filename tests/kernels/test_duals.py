"""Dual activations against two-dimensional integrals, near-equal inputs against exact differences."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy.special import erf, ndtr

from equitangents import nn
from equitangents.kernels import duals
from equitangents.stax import own_layers

A = np.array([0.3, 1.0, 1.7, 0.5])
B = np.array([0.9, 1.0, 0.2, 0.5])
C = np.array([0.1, -0.6, 0.3, 0.45])


def poly(*c):
    return Polynomial(c), Polynomial(c).deriv()


CASES = {
    "relu": (duals.PiecewiseLinear(0.0), lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "leaky": (duals.PiecewiseLinear(0.2), lambda x: np.where(x > 0, x, 0.2 * x), lambda x: np.where(x > 0, 1, 0.2)),
    "abs": (duals.PiecewiseLinear(-1.0), np.abs, np.sign),
    "erf": (duals.Erf(), erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-(x**2))),
    "sin": (duals.Sin(), np.sin, np.cos),
    "cos": (duals.Cos(), np.cos, lambda x: -np.sin(x)),
    "gelu": (duals.Gelu(), lambda x: x * ndtr(x), lambda x: ndtr(x) + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)),
    "exp": (nn.Exp(0.5, 0.7).dual, lambda x: 0.5 * np.exp(0.7 * x), lambda x: 0.35 * np.exp(0.7 * x)),
    "gaussian": (
        nn.Gaussian(1.2, -0.6).dual,
        lambda x: 1.2 * np.exp(-0.6 * x**2),
        lambda x: -1.44 * x * np.exp(-0.6 * x**2),
    ),
    "rbf": (
        nn.Rbf(0.4).dual,
        lambda x: math.sqrt(2) * np.sin(math.sqrt(0.8) * x + math.pi / 4),
        lambda x: math.sqrt(1.6) * np.cos(math.sqrt(0.8) * x + math.pi / 4),
    ),
    "hermite": (nn.Hermite(3).dual, *poly(0, -3 / math.sqrt(6), 0, 1 / math.sqrt(6))),
    "monomial": (nn.Monomial(4).dual, *poly(0, 0, 0, 0, 1)),
    "polynomial": (nn.Polynomial((0.3, -1.0, 0.2, 0.1)).dual, *poly(0.3, -1.0, 0.2, 0.1)),
    "gabor": (
        own_layers.Gabor().dual,
        lambda x: np.exp(-(x**2)) * np.sin(x),
        lambda x: np.exp(-(x**2)) * (np.cos(x) - 2 * x * np.sin(x)),
    ),
    "raised gaussian": (
        own_layers.Raised(nn.Gaussian(1.2, -0.6), -0.8).dual,
        lambda x: 1.2 * np.exp(-0.6 * x**2) - 0.8,
        lambda x: -1.44 * x * np.exp(-0.6 * x**2),
    ),
    "wave": (own_layers.Wave(0.7).dual, lambda x: np.sin(x + 0.7), lambda x: np.cos(x + 0.7)),
}
FIRST, MORE = tuple(CASES)[:7], tuple(CASES)[7:]


def expectation(f, q1, q2, rho):
    """E[f(u, v)] in polar coordinates, where kinks along rays through the origin do no harm to the radial integral."""
    r, wr = np.polynomial.legendre.leggauss(80)
    r, wr = 6 * (r + 1), 6 * wr
    breaks = {0.0, 2 * math.pi}
    a = math.acos(rho)
    breaks |= {(zero + turn * math.pi) % (2 * math.pi) for zero in (0.0, a) for turn in (0.5, 1.5)}
    edges = sorted(breaks)
    total = 0.0
    for lo, hi in itertools.pairwise(edges):
        t, wt = np.polynomial.legendre.leggauss(60)
        t, wt = lo + (hi - lo) * (t + 1) / 2, wt * (hi - lo) / 2
        R, T = np.meshgrid(r, t, indexing="ij")
        u = math.sqrt(q1) * R * np.cos(T)
        v = math.sqrt(q2) * R * np.cos(T - a)
        density = R * np.exp(-(R**2) / 2) / (2 * math.pi)
        total += wr @ (f(u, v) * density) @ wt
    return total


def values(dual, a, b, c):
    """(E φφ, E φ'φ' from the distance, the same two from the covariance, E φ(u)², E φ(u)), compiled once."""

    def all_of(a, b, c):
        return *dual.pair(a + b - 2 * c, a, b), *dual.covariance(c, a, b), *dual.moments(a)

    with jax.enable_x64(True):
        return [np.asarray(v) for v in jax.jit(all_of)(a, b, c)]


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", CASES)
def test_duals_are_gaussian_expectations(name):
    dual, phi, slope = CASES[name]
    distance, d1, covariance, d2, square, first = values(dual, A, B, C)
    integrals = [
        [expectation(f, a, b, c / math.sqrt(a * b)) for a, b, c in zip(A, B, C, strict=True)]
        for f in (
            lambda u, v: (phi(u) - phi(v)) ** 2, lambda u, v: slope(u) * slope(v), lambda u, v: phi(u) * phi(v),
            lambda u, v: phi(u) ** 2, lambda u, v: phi(u),
        )
    ]  # fmt: skip
    expected = [integrals[i] for i in (0, 1, 2, 1, 3, 4)]
    for found, exact in zip((distance, d1, covariance, d2, square, first), expected, strict=True):
        assert np.max(np.abs(found - exact)) <= 1e-9 * max(1, np.max(np.abs(exact)))


FINE = [(np.float64, 1e-10, name) for name in MORE]
COARSE = [(np.float32, gap, name) for gap in (1e-3, 1e-6) for name in FIRST if name != "gelu"]


@pytest.mark.quick(3)
@pytest.mark.parametrize(("dtype", "gap", "name"), [*FINE[:1], *COARSE, *FINE[1:]])
def test_small_distances_keep_their_digits(dtype, gap, name):
    """E[(φ(u)-φ(v))²] → E[φ'²] d as d → 0, to relative order √d; in float32 the covariance alone would drown."""
    dual, _, slope = CASES[name]
    q = 1.3
    exact = expectation(lambda u, v: slope(u) ** 2, q, q, 0.5)
    with jax.enable_x64(dtype == np.float64):
        distance, derivative = jax.jit(dual.pair)(*map(dtype, (gap**2, q, q)))
    allowed = 1e-8 if dtype == np.float64 else 3 * gap + 2e-3
    assert float(distance) == pytest.approx(gap**2 * exact, rel=allowed, abs=0)
    assert dtype == np.float32 or float(derivative) == pytest.approx(exact, rel=allowed)


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_inputs_stay_equal_exactly(name, dtype):
    dual = CASES[name][0]
    with jax.enable_x64(dtype == "float64"):
        q = jnp.asarray([0.0, 1e-20, 0.3, 1.0, 7.0], dtype)
        distance, derivative = jax.jit(dual.pair)(jnp.zeros_like(q), q, q)
        assert distance.dtype == derivative.dtype == q.dtype
        np.testing.assert_array_equal(distance, 0)
        assert np.isfinite(derivative).all()


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in ("leaky", "abs") else ()) for name in FIRST]
)
def test_gradients_at_equal_and_at_zero_inputs_are_finite_and_right(name):
    dual = CASES[name][0]
    with jax.enable_x64(True):
        gradients = [jax.jit(jax.grad(lambda args, i=index: dual.pair(*args)[i])) for index in range(2)]
        for gradient in gradients:
            for point in [(0.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0, 0.0)]:
                assert np.isfinite(np.array(gradient(tuple(map(jnp.asarray, point))))).all()
        # d E[(φ(u)-φ(v))²] / dd = E[φ'(u) φ'(v)] at fixed variances, also at d = 0.
        pair = jax.jit(dual.pair)
        for d in (0.0, 0.4):
            point = tuple(map(jnp.asarray, (d, 1.1, 1.1)))
            assert float(gradients[0](point)[0]) == pytest.approx(float(pair(*point)[1]), rel=2e-6)


def test_moments_by_quadrature_are_more_accurate_than_the_tolerance():
    layer = nn.Elementwise(jax.nn.sigmoid)
    q = np.array([0.01, 0.5, 4.0])
    z, w = np.polynomial.hermite_e.hermegauss(170)
    exact = (1 + np.exp(-np.sqrt(q)[:, None] * z)) ** -2.0 @ w / w.sum()
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(layer.dual.moments)(q)[0])
    assert np.max(np.abs(found / exact - 1)) <= layer.tolerance


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", FIRST)
def test_uncorrelated_variables_have_the_product_of_their_means(name):
    """Near k = 0 the sign of k is rounding, and compiled code may see it differently in different places."""
    dual = CASES[name][0]
    with jax.enable_x64(True):
        q1 = jnp.asarray(np.concatenate([np.zeros(20), np.random.default_rng(0).uniform(0, 3, 200)]))
        q2 = jnp.asarray(np.random.default_rng(1).uniform(0, 3, 220))
        d = (q1 + q2) * (1 + jnp.asarray(np.random.default_rng(2).normal(size=220)) * 2e-16)
        distance, _ = jax.jit(dual.pair)(d, q1, q2)
        moments = jax.jit(dual.moments)
        (s1, m1), (s2, m2) = moments(q1), moments(q2)
        np.testing.assert_allclose(s1 + s2 - distance, 2 * m1 * m2, atol=1e-13)


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
