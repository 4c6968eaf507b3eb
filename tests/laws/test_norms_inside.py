"""Functions that grow faster than their input make norms differ inside a network more than those of inputs do.

The oracle computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents import Masked, nn
from oracles import precise_kernels

GROWING = {
    "cube": nn.Monomial(3),
    "hermite": nn.Polynomial((0.0, -3.0, 0.0, 1.0)),
    "square": nn.RectifiedMonomial(2),
    "exp": nn.Exp(1.0, 0.5),
}
BOUNDED = {"erf": nn.Erf(), "gelu": nn.Gelu(), "sin": nn.Sin(), "cos": nn.Cos(), "gaussian": nn.Gaussian()}
PHI = GROWING | BOUNDED | {0.0: nn.Relu(), "normalised": nn.LayerNorm()}
LIMITS = {"float32": 2e-6, "float64": 1e-13}


@st.composite
def stacks(draw, most):
    """Names of functions, one of which grows; the exponential alone comes first, behind which it would overflow."""
    powers = st.sampled_from(["cube", "hermite", "square"])
    rest = st.lists(st.one_of(powers, st.sampled_from([*BOUNDED, "normalised"])), max_size=most - 1)
    names = [draw(st.one_of(powers, st.just("exp"))), *draw(rest)]
    return [draw(st.sampled_from(list(BOUNDED))), *names[: most - 1]] if draw(st.booleans()) else names


def assert_within(found, exact, limit):
    """Kernels of inputs with each other, (N, N), whose exact ones are (N, N, 2)."""
    for i, values in enumerate((found.nngp, found.ntk)):
        own = np.sqrt(np.diagonal(exact[..., i]))
        error = np.abs(np.asarray(values, float) - exact[..., i]) / (own[:, None] * own)
        assert np.max(error) <= limit, f"off by {np.max(error):.1e}"


def of_every_pair(kernel, x):
    exact = np.empty((len(x), len(x), 2))
    for i in range(len(x)):
        for j in range(i + 1):
            exact[i, j] = exact[j, i] = kernel(x[i], x[j])
    return exact


def directions(shape, ratios, rng):
    """Inputs in two directions, and between them, at each of these norms."""
    x, y = (v / np.sqrt(np.mean(v**2)) for v in rng.standard_normal((2, *shape)))
    return np.array([r * v for r in ratios for v in (x, y, x + 0.01 * y)])


def dense(phis, bias):
    layers = [la for phi in phis for la in (("dense", 1.0, bias), ("phi", phi))] + [("dense", 1.0, bias)]
    made = (nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else PHI[la[1]] for la in layers)
    return nn.Sequential(*made), layers


def check_dense(phis, bias, ratios, dtype, engine, rng, limit=None):
    net, layers = dense(phis, bias)
    x = directions((6,), ratios, rng).astype(dtype)
    exact = of_every_pair(lambda f, g: precise_kernels.kernels(layers, f, g), x)
    assert_within(net.kernel(x, engine=engine), exact, limit or LIMITS[dtype])


@given(stacks(3), st.sampled_from([0.0, 0.3]), st.floats(1, 12), st.integers(0, 99))
@settings(max_examples=25)
def test_dense_layers_of_every_growing_function_keep_their_digits(phis, bias, ratio, seed):
    check_dense(phis, bias, (0.3, 0.3 * ratio), "float64", "cpu", np.random.default_rng(seed))


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(
    "phis", [("cube", "cube"), ("square", "square", "square"), ("exp", "erf"), ("hermite", "gelu")]
)
def test_in_single_precision_too(phis, dtype, rng):
    check_dense(phis, 0.3, (0.5, 2.0, 3.5), dtype, "cpu", rng)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("last", ["erf", "sin"])
def test_bounded_functions_of_fields_that_are_nearly_zero(last, dtype, rng):
    check_dense(("cube", "cube", last), 0.0, (0.1, 0.4, 1.2), dtype, "cpu", rng)  # norms 1e9 apart


@pytest.mark.parametrize("dtype", LIMITS)
def test_small_weights_behind_a_bias(dtype, rng):
    layers = [("dense", 1.0, 1.0), ("phi", "cube"), ("dense", 1e-6, 0.0), ("phi", "cube"), ("dense", 1.0, 0.0)]
    made = (nn.Dense(1, W_std=la[1], b_std=la[2]) if la[0] == "dense" else PHI[la[1]] for la in layers)
    x = directions((6,), (0.3, 1.0, 6.0), rng).astype(dtype)
    exact = of_every_pair(lambda f, g: precise_kernels.kernels(layers, f, g), x)
    assert_within(nn.Sequential(*made).kernel(x, engine="cpu"), exact, LIMITS[dtype])


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(
    "phis", [("cube", "cube"), ("hermite",), pytest.param(("hermite", "square"), marks=pytest.mark.slow)]
)
def test_the_reference_engine_keeps_them(phis, dtype, rng):
    check_dense(phis, 0.0, (0.5, 2.0, 3.5), dtype, "reference", rng)


def test_the_reference_engine_keeps_them_behind_exponentials(rng):
    check_dense(("exp", "exp"), 0.3, (0.5, 2.0, 2.5), "float64", "reference", rng)  # up to 1e27


@pytest.mark.slow
@pytest.mark.parametrize("bias", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
def test_derivatives_through_polynomials_and_exponentials(bias, rng):
    net, layers = dense(("hermite", "exp"), bias)
    x, y, step = 0.5 * rng.standard_normal((3, 6))

    @jax.jit
    @jax.jacrev
    def slopes(t, other):
        found = net.kernel((x + t * step)[None], other[None], engine="reference")
        return jnp.stack([found.nngp[0, 0], found.ntk[0, 0]])

    with jax.enable_x64(True):
        for other in (y, 1.7 * x, x):  # parallel and equal inputs too
            found = np.asarray(slopes(0.0, other))
            h, at = 1e-3, lambda t, other=other: np.array(precise_kernels.kernels(layers, x + t * step, other))
            exact = (8 * (at(h) - at(-h)) - at(2 * h) + at(-2 * h)) / (12 * h)
            assert np.max(np.abs(found / exact - 1)) <= 1e-9


@pytest.mark.parametrize("bias", [0.0, pytest.param(0.3, marks=pytest.mark.slow)])
def test_a_kink_behind_powers_knows_parallel_inputs(bias, rng):
    check_dense(("cube", "cube", 0.0), bias, (0.5, 3.5), "float64", "cpu", rng)


@given(stacks(2), st.sampled_from([0.0, 0.3]), st.booleans(), st.floats(1, 8), st.integers(0, 99))
@settings(max_examples=12)
def test_convolutions_of_every_growing_function_keep_their_digits(phis, bias, pooled, ratio, seed):
    rng = np.random.default_rng(seed)
    convolutions = (la for phi in phis for la in (nn.Conv(1, 2, W_std=1.1, b_std=bias, padding="valid"), PHI[phi]))
    net = nn.Sequential(*convolutions, nn.GlobalAvgPool() if pooled else nn.Flatten())
    x = directions((4, 5), (0.3, 0.3 * ratio), rng)
    exact = of_every_pair(lambda f, g: precise_kernels.of_signals(phis, f, g, 1.1, bias, 2, pooled), x)
    assert_within(net.kernel(x, engine="cpu"), exact, LIMITS["float64"])


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_sines_of_a_huge_variance_know_an_input_from_others(size, rng):
    net = nn.Sequential(nn.Dense(1), nn.Monomial(3), nn.Dense(1), nn.Sin(), nn.Dense(1))
    x = size * rng.standard_normal((5, 6))
    found, q = net.kernel(x, engine="cpu"), 15 * np.mean(x**2, axis=1) ** 3
    np.testing.assert_allclose(found.nngp, np.eye(5) / 2, atol=1e-13)
    np.testing.assert_allclose(found.ntk, np.diag(0.5 + 1.4 * q), rtol=1e-12, atol=1e-12)


def test_sines_of_a_huge_variance_under_masks_know_an_input_from_others(rng):
    net = nn.Sequential(nn.Dense(1), nn.Monomial(3), nn.Dense(1), nn.Sin(), nn.GlobalAvgPool())
    there = np.arange(6) < np.array([[4], [6], [6]])
    found = net.kernel(Masked(1e6 * rng.standard_normal((3, 6, 4)), there), engine="cpu")
    np.testing.assert_allclose(found.nngp, np.diag(0.5 / there.sum(axis=1)), atol=1e-13)
