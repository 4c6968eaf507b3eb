"""Dual activations against two-dimensional integrals, near-equal inputs against exact differences."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf, ndtr

from equitangents import nn
from equitangents.kernels import duals

CASES = {
    "relu": (duals.PiecewiseLinear(0.0), lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "leaky": (duals.PiecewiseLinear(0.2), lambda x: np.where(x > 0, x, 0.2 * x), lambda x: np.where(x > 0, 1, 0.2)),
    "abs": (duals.PiecewiseLinear(-1.0), np.abs, np.sign),
    "erf": (duals.Erf(), erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-(x**2))),
    "sin": (duals.Sin(), np.sin, np.cos),
    "cos": (duals.Cos(), np.cos, lambda x: -np.sin(x)),
    "gelu": (duals.Gelu(), lambda x: x * ndtr(x), lambda x: ndtr(x) + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)),
    "tanh": (duals.Quadrature(jnp.tanh, 128), np.tanh, lambda x: 1 / np.cosh(x) ** 2),
}
SMOOTH = ("erf", "sin", "cos", "tanh")


def expectation(f, q1, q2, rho):
    """E[f(u, v)] in polar coordinates, where kinks along rays through the origin do no harm to the radial integral."""
    r, wr = np.polynomial.legendre.leggauss(80)
    r, wr = 6 * (r + 1), 6 * wr
    breaks = {0.0, 2 * math.pi}
    a = math.acos(rho)
    for zero in (
        math.pi / 2,
        math.pi / 2 + a,
        3 * math.pi / 2,
        3 * math.pi / 2 + a,
        a - math.pi / 2,
        a + 2.5 * math.pi,
    ):
        breaks.add(zero % (2 * math.pi))
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


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", CASES)
def test_duals_are_gaussian_expectations(name):
    dual, phi, slope = CASES[name]
    pairs, moments = jax.jit(dual.pair), jax.jit(dual.moments)
    for q1, q2, rho in [(1.0, 1.0, 0.3), (0.5, 2.0, -0.7), (1.5, 1.4, 0.97), (0.2, 0.1, 0.0)]:
        d = q1 + q2 - 2 * rho * math.sqrt(q1 * q2)
        with jax.enable_x64(True):
            distance, derivative = (float(x) for x in pairs(*map(jnp.asarray, (d, q1, q2))))
            square, mean = (float(x) for x in moments(jnp.asarray(q1)))
        tolerance = 1e-6 if name == "tanh" else 1e-9
        assert distance == pytest.approx(expectation(lambda u, v: (phi(u) - phi(v)) ** 2, q1, q2, rho), abs=tolerance)
        assert derivative == pytest.approx(expectation(lambda u, v: slope(u) * slope(v), q1, q2, rho), abs=tolerance)
        assert square == pytest.approx(expectation(lambda u, v: phi(u) ** 2, q1, q2, rho), abs=tolerance)
        assert mean == pytest.approx(expectation(lambda u, v: phi(u), q1, q2, rho), abs=tolerance)


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", ["relu", "leaky", "abs", *SMOOTH])
@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_small_distances_keep_their_digits(name, gap):
    """E[(φ(u)-φ(v))²] → E[φ'²] d as d → 0, to relative order √d; in float32 the covariance alone would drown."""
    dual, _, slope = CASES[name]
    q = 1.3
    exact = gap**2 * expectation(lambda u, v: slope(u) ** 2, q, q, 0.5)
    values = jax.jit(dual.pair)(*map(jnp.float32, (gap**2, q, q)))
    assert float(values[0]) == pytest.approx(exact, rel=3 * gap + 2e-3, abs=0)


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", CASES)
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
    "name", [pytest.param(name, marks=pytest.mark.slow if name in ("leaky", "abs") else ()) for name in CASES]
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


def test_moments_by_quadrature_are_more_accurate_than_the_error_that_the_layer_states():
    layer = nn.Elementwise(jax.nn.sigmoid)
    q = np.array([0.01, 0.5, 4.0])
    z, w = np.polynomial.hermite_e.hermegauss(170)
    exact = (1 + np.exp(-np.sqrt(q)[:, None] * z)) ** -2.0 @ w / w.sum()
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(layer.dual.moments)(q)[0])
    assert np.max(np.abs(found / exact - 1)) <= layer.quadrature_error


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", CASES)
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
        np.testing.assert_allclose(s1 + s2 - distance, 2 * m1 * m2, atol=1e-6 if name == "tanh" else 1e-13)
