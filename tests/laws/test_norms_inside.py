"""Functions that grow faster than their input make norms differ inside a network more than those of inputs do.

The oracle computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents import Masked, nn
from kernels.comparison import assert_within
from laws.networks import dense
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


def assert_exact(found, kernel, x, limit):
    """Kernels of inputs with each other are those of the oracle."""
    exact = np.empty((len(x), len(x), 2))
    for i in range(len(x)):
        for j in range(i + 1):
            exact[i, j] = exact[j, i] = kernel(x[i], x[j])
    assert_within(limit, found, exact, np.diagonal(exact).T)


def directions(shape, ratios, rng):
    """Inputs in two directions, and between them, at each of these norms."""
    x, y = (v / np.sqrt(np.mean(v**2)) for v in rng.standard_normal((2, *shape)))
    return np.array([r * v for r in ratios for v in (x, y, x + 0.01 * y)])


def listed(phis, bias):
    """Layers of the oracle."""
    return [la for phi in phis for la in (("dense", 1.0, bias), ("phi", phi))] + [("dense", 1.0, bias)]


def check(layers, ratios, dtype, engine, rng):
    x = directions((6,), ratios, rng).astype(dtype)
    found = dense(layers, PHI).kernel(x, engine=engine)
    assert_exact(found, partial(precise_kernels.kernels, layers), x, LIMITS[dtype])


@given(stacks(3), st.sampled_from([0.0, 0.3]), st.floats(1, 12), st.integers(0, 99))
@settings(max_examples=25)
def test_dense_layers_of_every_growing_function_keep_their_digits(phis, bias, ratio, seed):
    check(listed(phis, bias), (0.3, 0.3 * ratio), "float64", "cpu", np.random.default_rng(seed))


SEVERAL, BOTH = (0.5, 2.0, 3.5), ("float32", "float64")
CASES = [  # functions, bias, ratios of norms, precisions, engine
    *((phis, 0.3, SEVERAL, BOTH, "cpu") for phis in (("cube", "cube"), ("square",) * 3, ("exp", "erf"))),
    (("hermite", "gelu"), 0.3, SEVERAL, BOTH, "cpu"),
    # bounded functions of fields that are nearly zero: norms 1e9 apart
    *((("cube", "cube", last), 0.0, (0.1, 0.4, 1.2), BOTH, "cpu") for last in ("erf", "sin")),
    *((("cube", "cube", 0.0), bias, (0.5, 3.5), BOTH[1:], "cpu") for bias in (0.0, 0.3)),  # a kink knows parallel ones
    *((phis, 0.0, SEVERAL, BOTH, "reference") for phis in (("cube", "cube"), ("hermite",), ("hermite", "square"))),
    (("exp", "exp"), 0.3, (0.5, 2.0, 2.5), BOTH[1:], "reference"),  # up to 1e27
]


@pytest.mark.parametrize(
    ("phis", "bias", "ratios", "dtype", "engine"),
    [
        pytest.param(*case, dtype, engine, marks=pytest.mark.slow if engine == "reference" and i else ())
        for *case, dtypes, engine in CASES
        for i, dtype in enumerate(dtypes)
    ],
)
def test_in_both_precisions_and_by_both_engines(phis, bias, ratios, dtype, engine, rng):
    check(listed(phis, bias), ratios, dtype, engine, rng)


@pytest.mark.parametrize("dtype", LIMITS)
def test_small_weights_behind_a_bias(dtype, rng):
    layers = [("dense", 1.0, 1.0), ("phi", "cube"), ("dense", 1e-6, 0.0), ("phi", "cube"), ("dense", 1.0, 0.0)]
    check(layers, (0.3, 1.0, 6.0), dtype, "cpu", rng)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_derivatives_through_polynomials_and_exponentials(bias, rng):
    layers = listed(("hermite", "exp"), bias)
    net = dense(layers, PHI)
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


@given(stacks(2), st.sampled_from([0.0, 0.3]), st.booleans(), st.floats(1, 8), st.integers(0, 99))
@settings(max_examples=12)
def test_convolutions_of_every_growing_function_keep_their_digits(phis, bias, pooled, ratio, seed):
    rng = np.random.default_rng(seed)
    convolutions = (la for phi in phis for la in (nn.Conv(1, 2, W_std=1.1, b_std=bias, padding="valid"), PHI[phi]))
    net = nn.Sequential(*convolutions, nn.GlobalAvgPool() if pooled else nn.Flatten())
    x = directions((4, 5), (0.3, 0.3 * ratio), rng)
    kernel = lambda f, g: precise_kernels.of_signals(phis, f, g, 1.1, bias, 2, pooled)
    assert_exact(net.kernel(x, engine="cpu"), kernel, x, LIMITS["float64"])


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("size", [1e3, 1e6])
def test_sines_of_a_huge_variance_know_an_input_from_others(size, engine, rng):
    net = nn.Sequential(nn.Dense(1), nn.Monomial(3), nn.Dense(1), nn.Sin(), nn.Dense(1))
    x = size * rng.standard_normal((5, 6))
    found, q = net.kernel(x, engine=engine), 15 * np.mean(x**2, axis=1) ** 3
    np.testing.assert_allclose(found.nngp, np.eye(5) / 2, atol=1e-12)
    np.testing.assert_allclose(found.ntk, np.diag(0.5 + 1.4 * q), rtol=1e-12, atol=1e-12)


def test_sines_of_a_huge_variance_under_masks_know_an_input_from_others(rng):
    net = nn.Sequential(nn.Dense(1), nn.Monomial(3), nn.Dense(1), nn.Sin(), nn.GlobalAvgPool())
    there = np.arange(6) < np.array([[4], [6], [6]])
    found = net.kernel(Masked(1e6 * rng.standard_normal((3, 6, 4)), there), engine="cpu")
    np.testing.assert_allclose(found.nngp, np.diag(0.5 / there.sum(axis=1)), atol=1e-13)
