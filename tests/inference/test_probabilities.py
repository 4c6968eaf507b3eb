import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_ndtr
from scipy.stats import norm

from equitangents.errors import InvalidArgumentError, NotFiniteError, ShapeError
from equitangents.inference.probabilities import argmax_probabilities

means = arrays(float, st.tuples(st.integers(1, 4), st.integers(2, 5)), elements=st.floats(-5, 5))


@given(st.floats(-4, 4), st.floats(0.5, 2), st.floats(0.5, 2))
def test_of_two_outputs_it_is_the_normal_distribution_of_their_difference(gap, s1, s2):
    got = argmax_probabilities(np.array([[gap, 0.0]]), np.array([[s1, s2]]))
    np.testing.assert_allclose(got[0, 0], norm.cdf(gap / np.hypot(s1, s2)), atol=1e-8)


@pytest.mark.parametrize(("ratio", "tolerance"), [(5, 1e-4), (100, 1e-3), (1e6, 1e-3)])
def test_unequal_uncertainties(ratio, tolerance):
    mean, std = np.array([[0.3, 0.0, -0.2]]), np.array([[1.0, 1 / ratio, 0.5]])
    expected = argmax_by_simulation(mean[0], std[0])
    np.testing.assert_allclose(argmax_probabilities(mean, std)[0], expected, atol=tolerance + 3e-3)


def argmax_by_simulation(mean, std, n=200_000):
    draws = mean + std * np.random.default_rng(0).normal(size=(n, len(mean)))
    return np.bincount(draws.argmax(axis=1), minlength=len(mean)) / n


@given(means, st.floats(1e-6, 1e3))
def test_laws(mean, std):
    p = argmax_probabilities(mean, np.full(len(mean), std))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-14)
    assert (p >= 0).all()
    order = np.argsort(mean, axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(p, order, 1), axis=1) >= -1e-13).all()  # more probable where the mean is larger
    np.testing.assert_allclose(argmax_probabilities(mean[:, ::-1], np.full(len(mean), std)), p[:, ::-1], atol=1e-14)
    np.testing.assert_allclose(argmax_probabilities(3 * mean + 1, np.full(len(mean), 3 * std)), p, atol=1e-9)


def on_a_dense_grid(mean, std, nodes):
    """The trapezoidal rule, which converges exponentially for integrands like these."""
    u = np.linspace(np.max(mean - 10 * std), np.max(mean + 10 * std), nodes)
    x = (u - mean[:, None]) / std[:, None]
    logs = log_ndtr(x)
    return np.trapezoid(np.exp(logs.sum(axis=0) - logs - x**2 / 2) / math.sqrt(2 * math.pi) / std[:, None], u)


CLASSES = itertools.product(
    ["ties", "near", "far"], ["shared", "different", "a hundredfold apart"], [2, 3, 10, 100, 300, 1000]
)
LONG = {("ties", "different", 1000), ("near", "a hundredfold apart", 1000)}  # the oracle's grids


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("means", "stds", "classes"),
    [pytest.param(*case, marks=pytest.mark.slow if case in LONG else ()) for case in CLASSES],
)
def test_it_holds_to_1e_9_from_two_to_a_thousand_classes(classes, stds, means):
    rng = np.random.default_rng(classes)
    mean = rng.normal(size=classes) * {"ties": 0.0, "near": 1.0, "far": 10.0}[means]
    low, high = {"shared": (0.7, 0.7), "different": (0.3, 2.0), "a hundredfold apart": (0.01, 1.0)}[stds]
    std = np.exp(rng.uniform(np.log(low), np.log(high), classes))
    nodes = {"shared": 1001, "different": 4001, "a hundredfold apart": 8001}[stds]
    found = argmax_probabilities(mean[None], std[None])[0]
    np.testing.assert_allclose(found, on_a_dense_grid(mean, std, nodes), rtol=0, atol=1e-11)
    if stds == "shared":
        np.testing.assert_array_equal(found, argmax_probabilities(mean[None], std[:1])[0])
    if means == "ties" and stds == "shared":
        np.testing.assert_allclose(found, 1 / classes, atol=1e-13)


@pytest.mark.parametrize("unit", [1e-320, 1e-300, 1e-30, 1e30, 1e300])
def test_units_do_not_matter_however_tiny_or_huge(unit):
    mean, std = np.array([[3.0, 0.0, -1.0, 3.0]]), np.array([[1.0, 2.0, 0.5, 1.0]])
    tolerance = 1e-2 if unit < 1e-310 else 1e-12  # a subnormal number has few digits
    np.testing.assert_allclose(
        argmax_probabilities(unit * mean, unit * std), argmax_probabilities(mean, std), atol=tolerance
    )


def test_outputs_of_any_certainty_meet():
    """One output is sure to be 1, one is 1 ± 1e3, one lies beneath: each of the first two wins half of the time."""
    found = argmax_probabilities(np.array([[1.0, 1.0, 0.0]]), np.array([[1e3, 0.0, 1e-300]]))
    np.testing.assert_allclose(found, [[0.5, 0.5, 0]], atol=1e-12)
    mean, std = np.array([[1.0, 1.0 + 2**-52]]), np.array([1e-16])
    np.testing.assert_allclose(
        argmax_probabilities(mean, std)[0, 1], norm.cdf(2**-52 / (1e-16 * np.sqrt(2))), atol=1e-9
    )


def test_certainty():
    mean = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    np.testing.assert_allclose(argmax_probabilities(mean, np.zeros(2)), [[1, 0, 0], [0.5, 0.5, 0]], atol=1e-12)
    np.testing.assert_allclose(argmax_probabilities(mean, np.zeros((2, 3))), [[1, 0, 0], [0.5, 0.5, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("mean", "std", "error", "message"),
    [
        (np.zeros(3), np.zeros(3), ShapeError, "mean has rank 1"),
        (np.zeros((2, 3)), np.zeros(3), ShapeError, r"std has shape \(3, 1\)"),
        (np.zeros((2, 3)), np.array([1.0, -0.5]), InvalidArgumentError, r"negative values, the smallest -0\.5"),
        (np.full((2, 3), np.nan), np.zeros(2), NotFiniteError, "mean holds NaN"),
        (np.zeros((2, 3)), np.array([1.0, np.nan]), NotFiniteError, "std holds NaN"),
    ],
)
def test_bad_input(mean, std, error, message):
    with pytest.raises(error, match=message):
        argmax_probabilities(mean, std)
