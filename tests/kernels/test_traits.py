"""Properties that activation kernels declare, and the angles that they are made of."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import precision
from equitangents.kernels import duals
from equitangents.kernels.duals.geometry import Traits, acute_angle, alpha_cos_minus_sin, arcsine, traits_of
from equitangents.kernels.duals.quadrature import line

ALL = (
    duals.CosDual(), duals.ErfDual(), duals.ExpDual(0.7, 0.5), duals.GaborDual(), duals.GaussianDual(),
    duals.GeluDual(), duals.HeavisideDual(), duals.Normalised(1e-3), duals.NormalisedExponentialDual(0.5),
    duals.PiecewiseLinearDual(0.0), duals.PiecewiseLinearDual(-0.3), duals.PolynomialDual((0.0, 1.0, 0.5, 0.2)),
    duals.Quadrature(jnp.tanh), duals.Quadrature(jnp.cos), duals.RbfDual(0.5), duals.RectifiedMonomialDual(3),
    duals.Shifted(duals.RectifiedMonomialDual(2), 0.5), duals.SignDual(),
    duals.SinDual(), duals.WaveDual(0.3),
)  # fmt: skip
EACH = pytest.mark.parametrize("dual", ALL, ids=lambda dual: type(dual).__name__)


def square(dual, q):
    """E[φ(u)²] of u ~ N(0, q)."""
    with jax.enable_x64(True):
        return float(dual.moments(jnp.asarray(q, jnp.float64))[0])


def test_every_dual_is_tried_here():
    assert {type(a).__name__ for a in ALL} == set(duals.__all__)


def test_a_dual_of_users_that_says_nothing_has_the_defaults():
    assert type(traits_of(object())) is Traits


@pytest.mark.quick(2)
@EACH
def test_gain_is_of_homogeneous_functions_that_keep_the_ratio_of_variances(dual):
    gain = traits_of(dual).gain
    ratios = np.array([square(dual, q) / q for q in (0.25, 1.0, 16.0)])
    constant = np.max(np.abs(ratios / ratios[0] - 1)) <= 1e-5
    assert constant == (gain is not None)
    if gain is not None:
        assert np.max(np.abs(ratios - gain)) <= 1e-5


@EACH
def test_only_what_is_zero_at_zero_says_that_it_vanishes_or_is_linear_there(dual):
    traits = traits_of(dual)
    if traits.vanishes:
        assert square(dual, 1e-6) <= 1e-5
    if traits.linear_at_zero:
        assert traits.vanishes
        q = np.array([1e-4, 1e-6])
        ratios = np.array([square(dual, each) / each for each in q])
        assert np.abs(ratios[0] / ratios[1] - 1) <= 1e-3


@EACH
def test_squares_grow_as_the_power_that_the_dual_names(dual):
    steepness = traits_of(dual).steepness
    if isinstance(dual, duals.ExpDual):  # which outgrows every power, and has always been taken as ordinary
        return
    grown = np.log2(square(dual, 4e8) / square(dual, 1e8)) / 2
    assert grown <= steepness + 1e-2
    if steepness > 1:
        assert grown >= steepness - 1e-2


@EACH
def test_a_jump_has_no_tangent_kernel_and_is_bent(dual):
    traits = traits_of(dual)
    assert not (traits.bent and traits.curved)
    assert (traits.no_ntk is not None) == isinstance(dual, duals.SignDual | duals.HeavisideDual)
    assert traits.bent or traits.no_ntk is None


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
        whole = np.asarray(line(lambda x: jnp.tanh(x) + 0.1 * jnp.sin(x), variances, 1).error)
        part = np.asarray(line(lambda x: jnp.tanh(x) + 0.1 * jax.lax.stop_gradient(jnp.sin(x)), variances, 1).error)
    assert np.max(whole) < 1e-5
    assert np.max(part) > 0.05
