"""Dual activations against two-dimensional integrals, near-equal inputs against differences; moments of any φ."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy.special import erf, ndtr
from scipy.stats import norm

from equitangents import nn, precision
from equitangents.errors import InvalidArgumentError, NotFiniteError
from equitangents.kernels import angular, duals
from equitangents.kernels.duals.quadrature import MANY, line, lost
from equitangents.stax import own_layers

A = np.array([0.3, 1.0, 1.7, 0.5])
B = np.array([0.9, 1.0, 0.2, 0.5])
C = np.array([0.1, -0.6, 0.3, 0.45])


def poly(*c):
    return Polynomial(c), Polynomial(c).deriv()


CASES = {
    "relu": (duals.PiecewiseLinearDual(0.0), lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "leaky": (duals.PiecewiseLinearDual(0.2), lambda x: np.where(x > 0, x, 0.2 * x), lambda x: np.where(x > 0, 1, 0.2)),
    "abs": (duals.PiecewiseLinearDual(-1.0), np.abs, np.sign),
    "erf": (duals.ErfDual(), erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-(x**2))),
    "sin": (duals.SinDual(), np.sin, np.cos),
    "cos": (duals.CosDual(), np.cos, lambda x: -np.sin(x)),
    "gelu": (duals.GeluDual(), lambda x: x * ndtr(x), lambda x: ndtr(x) + x * norm.pdf(x)),
    "exp": (nn.Exp(0.5, 0.7).dual, lambda x: 0.5 * np.exp(0.7 * x), lambda x: 0.35 * np.exp(0.7 * x)),
    "gaussian": (
        nn.Gaussian(1.2, -0.6).dual, lambda x: 1.2 * np.exp(-0.6 * x**2), lambda x: -1.44 * x * np.exp(-0.6 * x**2)
    ),
    "rbf": (
        nn.Rbf(0.4).dual, lambda x: math.sqrt(2) * np.sin(math.sqrt(0.8) * x + math.pi / 4),
        lambda x: math.sqrt(1.6) * np.cos(math.sqrt(0.8) * x + math.pi / 4),
    ),
    "hermite": (nn.Hermite(3).dual, *poly(0, -3 / math.sqrt(6), 0, 1 / math.sqrt(6))),
    "monomial": (nn.Monomial(4).dual, *poly(0, 0, 0, 0, 1)),
    "polynomial": (nn.Polynomial((0.3, -1.0, 0.2, 0.1)).dual, *poly(0.3, -1.0, 0.2, 0.1)),
    "gabor": (
        own_layers.Gabor().dual, lambda x: np.exp(-(x**2)) * np.sin(x),
        lambda x: np.exp(-(x**2)) * (np.cos(x) - 2 * x * np.sin(x)),
    ),
    "raised gaussian": (
        own_layers.Raised(nn.Gaussian(1.2, -0.6), -0.8).dual, lambda x: 1.2 * np.exp(-0.6 * x**2) - 0.8,
        lambda x: -1.44 * x * np.exp(-0.6 * x**2),
    ),
    "wave": (own_layers.Wave(0.7).dual, lambda x: np.sin(x + 0.7), lambda x: np.cos(x + 0.7)),
}  # fmt: skip
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


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", sorted(CASES, key=["polynomial", *CASES].index))
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


VARIANCES = [(1e-12, 2e-12), (0.3, 0.5), (16.0, 16.0), (400.0, 90.0), (1e12, 1e8)]
SMOOTH = {
    "tanh": (jnp.tanh, np.tanh, lambda x: 1 / np.cosh(np.clip(x, -300, 300)) ** 2),
    "kinked at zero": (
        lambda x: jnp.where(x > 0, x, 0.2 * jnp.tanh(x)),
        lambda x: np.where(x > 0, x, 0.2 * np.tanh(x)),
        lambda x: np.where(x > 0, 1, 0.2 / np.cosh(np.clip(x, -300, 300)) ** 2),
    ),
    "of two scales": (
        lambda x: jnp.tanh(30 * x) + jax.nn.sigmoid(x) - 0.3,
        lambda x: np.tanh(30 * x) + (1 + np.tanh(x / 2)) / 2 - 0.3,
        lambda x: 30 / np.cosh(np.clip(30 * x, -300, 300)) ** 2 + 0.25 / np.cosh(np.clip(x / 2, -300, 300)) ** 2,
    ),
}


def panels(edges):
    """Nodes and weights, of 16 between neighbouring edges."""
    x, w = np.polynomial.legendre.leggauss(16)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def normal(centre, scale):
    """Nodes and weights of N(0, 1) that are dense, in steps of four down to `scale`, about `centre`."""
    around = scale * 4.0 ** np.arange(0, 26)
    edges = np.concatenate([np.linspace(-9, 9, 13), [centre], centre - around, centre + around])
    z, w = panels(np.unique(np.clip(edges, -9, 9)))
    return z, w * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def nested(phi, slope, q1, q2, theta):
    """(E[φφ'], E[φ'φ']) of v given u, integrated about v = 0, and then of u: the literal double integral."""
    smallest = 1 / 300
    z, w = normal(0.0, smallest / np.sqrt(q1))
    deviation, total = np.sqrt(q2) * np.sin(theta), np.zeros(2)
    for x, weight in zip(z, w, strict=True):
        middle = np.sqrt(q2) * np.cos(theta) * x
        y, v = normal(-middle / deviation, smallest / deviation)
        at, u = middle + deviation * y, np.sqrt(q1) * x
        total += weight * np.array([phi(u) * (v @ phi(at)), slope(u) * (v @ slope(at))])
    return total


def moments(fn, dtype, angles, variances=VARIANCES, tolerance=1e-6):
    """(E[φφ'], E[φ'φ']) by the dual, from angles and variances."""
    with precision.scope(dtype):
        q1, q2 = (jnp.asarray(q, dtype) for q in np.array(variances).T)
        k = jnp.asarray(np.sqrt(np.prod(variances, axis=1)) * np.cos(angles), dtype)
        dual = duals.Quadrature(fn, tolerance=tolerance)
        return np.asarray(jax.jit(dual.covariance)(k, q1, q2), np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_moments_are_the_double_integral_at_every_variance(name):
    fn, phi, slope = SMOOTH[name]
    rng = np.random.default_rng(3)
    angles = rng.uniform(0.05, 3.1, len(VARIANCES))
    exact = np.array([nested(phi, slope, *q, theta) for q, theta in zip(VARIANCES, angles, strict=True)]).T
    found = moments(fn, np.float64, angles)
    scale = np.sqrt([[np.prod([nested(phi, slope, q, q, 1e-9)[0] for q in pair]) for pair in VARIANCES]])
    assert np.max(np.abs(found[0] - exact[0]) / scale) < 2e-6
    assert np.max(np.abs(found[1] / exact[1] - 1)) < 2e-6
    single = moments(fn, np.float32, angles)
    assert np.max(np.abs(single[0] - exact[0]) / scale) < 1e-4
    assert np.max(np.abs(single[1] / exact[1] - 1)) < 1e-3


def pair_and_lost(d, q1, q2):
    """Distances and slopes of erf, and what is lost of its series."""
    return jnp.stack(duals.Quadrature(jax.lax.erf).pair(d, q1, q2)), lost(line(jax.lax.erf, q1), q1, MANY)


@pytest.mark.slow
def test_distances_and_slopes_are_those_of_the_closed_form_down_to_the_smallest_angle():
    """erf has both: through series, where these are too long through sectors, and where both miss it there is none."""
    q1, q2 = np.array([[1e-10, 0.5, 4.0, 40.0, 1e6, 1e12, 1e30], [2e-10, 0.5, 4.1, 40.0, 2e6, 1e12, 1e30]])
    theta = np.array([1e-5, 1e-6, 3.0, 1e-6, 1.0, 1e-7, 1.0])
    with jax.enable_x64(True):
        d = (np.sqrt(q1) - np.sqrt(q2)) ** 2 + 4 * np.sqrt(q1 * q2) * np.sin(theta / 2) ** 2
        arrays = tuple(map(jnp.asarray, (d, q1, q2)))
        (found, long), exact = jax.jit(pair_and_lost)(*arrays), duals.ErfDual().pair(*arrays)
        assert (long > 1e-6).tolist() == [False, False, False, True, True, True, True]
    assert np.isnan(found)[:, -1].all()
    np.testing.assert_allclose(np.array(found)[:, :-1], np.array(exact)[:, :-1], rtol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("at", [(0.1, 1.3, 1.2), (200.0, 400.0, 500.0)])
def test_derivatives_are_those_of_the_closed_form(at):
    with jax.enable_x64(True):
        both = [
            jax.jit(jax.jacfwd(lambda at, dual=dual: jnp.stack(dual.pair(*at))))(tuple(map(jnp.asarray, at)))
            for dual in (duals.Quadrature(jax.lax.erf, tolerance=1e-9), duals.ErfDual())
        ]
    np.testing.assert_allclose(*both, rtol=1e-6)


@pytest.mark.slow
def test_what_misses_its_tolerance_where_it_is_used_is_an_error():
    """Waves that no panel resolves, at variances that come up in the second layer only."""
    net = nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1, W_std=1e6), nn.Elementwise(jnp.sin), nn.Dense(1))
    with pytest.raises(NotFiniteError, match="raise the tolerance of an Elementwise"):
        net.kernel(np.eye(3))


@pytest.mark.quick(1)
@pytest.mark.parametrize("fn", [lambda x: jax.nn.relu(x - 1), lambda x: (jnp.abs(x) > 1) * 1.0, jnp.sign])
def test_kinks_and_jumps_that_the_sums_do_not_see_are_refused(fn):
    with pytest.raises(InvalidArgumentError, match="tolerance"):
        nn.Elementwise(fn)


def test_angles_that_are_no_numbers_stay_none():
    at = angular.both(jnp.ones(2), jnp.ones(2))
    assert np.isnan(angular.vanishing(jnp.array([jnp.nan, 0.5]), at)).tolist() == [True, False]
