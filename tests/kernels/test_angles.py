"""Angles of duals keep all digits of their precision, and quadratures see derivatives that are lost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import precision
from equitangents.kernels.duals import Quadrature
from equitangents.kernels.duals.geometry import acute_angle, alpha_cos_minus_sin, arcsine


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 4e-7), (np.float64, 2e-15)])
def test_angles_have_their_relative_accuracy_down_to_zero(dtype, tolerance):
    m = np.concatenate([np.linspace(1e-6, 0.5, 400), np.logspace(-20, -6, 50)]).astype(dtype)
    exact = m.astype(np.longdouble)
    angle = 2 * np.arcsin(np.sqrt(exact))
    # near zero α cos α − sin α cancels, and is −α³/3 + α⁵/30 − … there
    series = -(angle**3) / 3 + angle**5 / 30 - angle**7 / 840 + angle**9 / 45360
    area = np.where(angle < 0.05, series, angle * np.cos(angle) - np.sin(angle))
    with precision.scope(dtype):
        found, bent = np.asarray(acute_angle(jnp.asarray(m))), np.asarray(alpha_cos_minus_sin(jnp.asarray(m)))
    assert np.max(np.abs(found / angle - 1)) < tolerance
    assert np.max(np.abs(bent / area - 1)) < 10 * tolerance


def test_the_arcsine_and_its_derivative_are_those_of_numpy():
    x = np.linspace(-0.999, 0.999, 201)
    with jax.enable_x64(True):
        of = lambda x: arcsine(x, jnp.sqrt(1 - x * x))
        values, slopes = jax.jit(jax.vmap(jax.value_and_grad(of)))(jnp.asarray(x))
    np.testing.assert_allclose(values, np.arcsin(x), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(slopes, 1 / np.sqrt(1 - x**2), rtol=1e-9)


def test_the_error_of_a_quadrature_sees_derivatives_that_differentiation_does_not():
    variances = np.array([0.1, 1.0])
    with jax.enable_x64(True):
        whole = Quadrature(lambda x: jnp.tanh(x) + 0.1 * jnp.sin(x), 64).error(variances)
        part = Quadrature(lambda x: jnp.tanh(x) + 0.1 * jax.lax.stop_gradient(jnp.sin(x)), 64).error(variances)
    assert whole < 1e-5
    assert part > 0.05
