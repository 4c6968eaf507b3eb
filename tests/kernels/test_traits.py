"""What a dual says of its φ is true of φ: compared with its own moments and covariances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents.kernels import duals
from equitangents.kernels.duals.geometry import Traits, traits_of

ALL = (
    duals.Cos(), duals.Erf(), duals.Exp(0.7, 0.5), duals.Gabor(), duals.Gaussian(), duals.Gelu(), duals.Heaviside(),
    duals.Normalised(1e-3), duals.NormalisedExponential(0.5), duals.PiecewiseLinear(0.0), duals.PiecewiseLinear(-0.3),
    duals.Polynomial((0.0, 1.0, 0.5, 0.2)), duals.Quadrature(jnp.tanh, 16), duals.Quadrature(jnp.cos, 16),
    duals.Rbf(0.5), duals.RectifiedMonomial(3), duals.Shifted(duals.RectifiedMonomial(2), 0.5), duals.Sign(),
    duals.Sin(), duals.Wave(0.3),
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
    said = traits_of(dual)
    if said.vanishes:
        assert square(dual, 1e-6) <= 1e-5
    if said.linear_at_zero:
        assert said.vanishes
        q = np.array([1e-4, 1e-6])
        ratios = np.array([square(dual, each) / each for each in q])
        assert np.abs(ratios[0] / ratios[1] - 1) <= 1e-3


@EACH
def test_squares_grow_as_the_power_that_the_dual_names(dual):
    steepness = traits_of(dual).steepness
    if isinstance(dual, duals.Exp):  # which outgrows every power, and has always been taken as ordinary
        return
    grown = np.log2(square(dual, 4e8) / square(dual, 1e8)) / 2
    assert grown <= steepness + 1e-2
    if steepness > 1:
        assert grown >= steepness - 1e-2


@EACH
def test_a_jump_has_no_tangent_kernel_and_is_bent(dual):
    said = traits_of(dual)
    assert not (said.bent and said.curved)
    assert (said.no_ntk is not None) == isinstance(dual, duals.Sign | duals.Heaviside)
    assert said.bent or said.no_ntk is None
