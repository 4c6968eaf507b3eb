"""Moments of any φ hold their tolerance at every variance and angle, or are no numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import nn, precision
from equitangents.errors import InvalidArgumentError, NotFiniteError
from equitangents.kernels import angular, duals
from equitangents.kernels.duals.quadrature import MANY, line, lost

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
        (found, long), exact = jax.jit(pair_and_lost)(*arrays), duals.Erf().pair(*arrays)
        assert (long > 1e-6).tolist() == [False, False, False, True, True, True, True]
    assert np.isnan(found)[:, -1].all()
    np.testing.assert_allclose(np.array(found)[:, :-1], np.array(exact)[:, :-1], rtol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("at", [(0.1, 1.3, 1.2), (200.0, 400.0, 500.0)])
def test_derivatives_are_those_of_the_closed_form(at):
    with jax.enable_x64(True):
        both = [
            jax.jit(jax.jacfwd(lambda at, dual=dual: jnp.stack(dual.pair(*at))))(tuple(map(jnp.asarray, at)))
            for dual in (duals.Quadrature(jax.lax.erf, tolerance=1e-9), duals.Erf())
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
