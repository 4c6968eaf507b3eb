"""Law: kernels of `stax` nonlinearities are Gaussian integrals of the functions that they name, at every variance."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy.special import erf

from equitangents import stax
from oracles import literal_duals

X = np.array([[0.9, -0.4, 1.3], [1.0, 0.8, -0.2], [0.1, 1.5, 0.6]])
K = X @ X.T / 3  # of the field after Dense, with variances from 0.56 to 0.89
LIKE = 2.4020563531719796

SHIFTED = {
    "Sigmoid_like": (
        stax.Sigmoid_like(),
        lambda x: 0.5 * erf(x / LIKE) + 0.5,
        lambda x: np.exp(-((x / LIKE) ** 2)) / (LIKE * math.sqrt(math.pi)),
    ),
    "Cos": (stax.Cos(2.0, 0.5, 0.3), lambda x: 2 * np.cos(x / 2 + 0.3), lambda x: -np.sin(x / 2 + 0.3)),
    "Hermite": (stax.Hermite(3), lambda x: (x**3 - 3 * x) / math.sqrt(6), lambda x: (x**2 - 1) * math.sqrt(1.5)),
}


def kernels(layer, *before):
    kernel_fn = stax.serial(stax.Dense(8), *before, layer, stax.Dense(1)).kernel_fn
    return kernel_fn(X, None, ("nngp", "ntk"))


@pytest.mark.parametrize("name", SHIFTED)
def test_kernels_are_integrals_of_the_functions_that_the_names_say(name):
    layer, phi, slope = SHIFTED[name]
    q = np.diag(K)
    product, derivative = literal_duals.trapezoid_dual(phi, slope, *np.broadcast_arrays(q[:, None], q[None, :], K))
    found = kernels(layer)
    assert np.max(np.abs(found.nngp - product)) <= 1e-9
    assert np.max(np.abs(found.ntk - (product + K * derivative))) <= 1e-9


def test_a_constant_function_has_a_constant_kernel():
    assert np.array_equal(kernels(stax.Erf(0.0, 1.0, 0.5)).nngp, np.full((3, 3), 0.25))


@pytest.mark.parametrize(("gamma", "shift"), [(1.0, -1.0), (0.5, 0.2)])
def test_normalised_exponentials_are_those_of_the_shifted_cosine(gamma, shift):
    sizes = np.sqrt(np.outer(np.diag(K), np.diag(K)))
    expected = sizes * np.exp(gamma * (K / sizes + shift))
    assert np.max(np.abs(kernels(stax.ExpNormalized(gamma, shift)).nngp - expected)) <= 1e-12


def test_normalised_hermite_polynomials_make_powers_of_the_correlation():
    found = kernels(stax.Hermite(3), stax.LayerNorm())
    correlation = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    assert np.max(np.abs(found.nngp - correlation**3)) <= 1e-9
    assert np.max(np.abs(found.ntk - 4 * correlation**3)) <= 1e-9


def test_rectified_monomials_have_the_arc_cosine_kernel_of_their_order_also_on_the_diagonal():
    length = np.sqrt(np.diag(K))
    sizes = np.outer(length, length)
    angle = np.arccos(np.clip(K / sizes, -1, 1))
    np.fill_diagonal(angle, 0)
    sine, cosine, rest = np.sin(angle), np.cos(angle), np.pi - angle
    first, second = sine + rest * cosine, 3 * sine * cosine + rest * (1 + 2 * cosine**2)
    for degree, value, slope in ((1, sizes * first, rest), (2, sizes**2 * second, 4 * sizes * first)):
        found, expected = kernels(stax.RectifiedMonomial(degree)), value / (2 * np.pi)
        assert np.max(np.abs(found.nngp - expected)) <= 1e-13
        assert np.max(np.abs(found.ntk - expected - K * slope / (2 * np.pi))) <= 1e-13


@pytest.mark.slow
def test_numerical_duals_of_few_nodes_are_as_near_to_the_integral_as_sums_in_the_order_of_neural_tangents():
    q = np.broadcast_to(np.diag(K), (3, 3))
    exact, slope = literal_duals.trapezoid_dual(np.tanh, lambda x: 1 / np.cosh(x) ** 2, q.T, q, K)
    z, w = np.polynomial.hermite_e.hermegauss(15)
    w = w / w.sum()
    start, along = np.sqrt(q.T)[..., None, None], (K / np.sqrt(q.T))[..., None, None]
    rest = np.sqrt(np.maximum(q - K**2 / q.T, 0))[..., None, None]
    values = np.tanh(start * z[:, None]) * np.tanh(along * z[:, None] + rest * z)  # u first: not symmetric
    theirs = np.max(np.abs(np.einsum("abij,i,j", values, w, w) - exact))
    found = kernels(stax.ElementwiseNumerical(jax.numpy.tanh, 15))
    assert 1e-5 <= theirs <= 1e-3
    assert np.max(np.abs(found.nngp - exact)) <= theirs
    assert np.max(np.abs(found.ntk - exact - K * slope)) <= 3e-3
    assert np.array_equal(found.nngp, found.nngp.T)
