import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import norm

from equitangents.errors import InvalidArgumentError, NotFiniteError, ShapeError
from equitangents.inference import argmax_probabilities

means = arrays(float, st.tuples(st.integers(1, 4), st.integers(2, 5)), elements=st.floats(-5, 5))


def by_adaptive_quadrature(mean, std):
    """∫ f_k(u) Π F_j(u) du on the line of the outputs' values."""

    def density(u, k):
        others = [norm.cdf((u - mean[j]) / std[j]) for j in range(len(mean)) if j != k]
        return norm.pdf((u - mean[k]) / std[k]) / std[k] * np.prod(others)

    kinks = sorted({*mean})
    low, high = min(mean - 12 * std), max(mean + 12 * std)
    return [quad(density, low, high, args=(k,), points=kinks, limit=500, epsabs=1e-12)[0] for k in range(len(mean))]


@given(means, st.floats(0.05, 10))
def test_against_adaptive_quadrature(mean, std):
    expected = [by_adaptive_quadrature(m, np.full(len(m), std)) for m in mean]
    np.testing.assert_allclose(argmax_probabilities(mean, np.full(len(mean), std)), expected, atol=1e-8)


@given(st.floats(-4, 4), st.floats(0.5, 2), st.floats(0.5, 2))
def test_of_two_outputs_it_is_the_normal_distribution_of_their_difference(gap, s1, s2):
    got = argmax_probabilities(np.array([[gap, 0.0]]), np.array([[s1, s2]]))
    np.testing.assert_allclose(got[0, 0], norm.cdf(gap / np.hypot(s1, s2)), atol=1e-8)


@pytest.mark.parametrize(("ratio", "tolerance"), [(5, 1e-4), (100, 1e-2), (1e6, 2e-2)])
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


def test_certainty():
    mean = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    np.testing.assert_allclose(argmax_probabilities(mean, np.zeros(2)), [[1, 0, 0], [0.5, 0.5, 0]], atol=1e-12)
    np.testing.assert_allclose(argmax_probabilities(mean, np.zeros((2, 3))), [[1, 0, 0], [0.5, 0.5, 0]], atol=1e-12)


def test_no_inputs_no_probabilities():
    assert argmax_probabilities(np.zeros((0, 3)), np.zeros(0)).shape == (0, 3)


def test_bad_input():
    with pytest.raises(ShapeError, match="mean has rank 1"):
        argmax_probabilities(np.zeros(3), np.zeros(3))
    with pytest.raises(ShapeError, match=r"std has shape \(3, 1\)"):
        argmax_probabilities(np.zeros((2, 3)), np.zeros(3))
    with pytest.raises(InvalidArgumentError, match=r"negative values, the smallest -0\.5"):
        argmax_probabilities(np.zeros((2, 3)), np.array([1.0, -0.5]))
    with pytest.raises(NotFiniteError, match="mean holds NaN"):
        argmax_probabilities(np.full((2, 3), np.nan), np.zeros(2))
