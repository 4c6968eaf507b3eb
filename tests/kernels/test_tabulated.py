"""Law: kernels by tables of functions are those of closed forms; what is beyond a table is the reference engine's."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import nn
from equitangents.kernels import scales
from equitangents.kernels.duals.quadrature import disagreement
from equitangents.kernels.engines.cpu import tabulated
from examples import examples
from laws.networks import network
from oracles import literal_duals, literal_kernels

TOLERANCE = 1e-5
READOUTS = {"flatten": [("flatten",)], "pool": [("global_pool",)], "pools": [("avg_pool", (2,)), ("global_pool",)]}
WEIGHTS = st.tuples(st.floats(0.3, 0.8), st.just(0.0) | st.floats(0.01, 0.3))  # variances within the tables


@cache
def functions():
    """Layers of functions by the closed form that each has."""
    gelu = lambda u: u * (1 + jax.lax.erf(u / 2**0.5)) / 2
    return {kind: nn.Elementwise(fn, tolerance=TOLERANCE) for kind, fn in ((nn.Gelu, gelu), (nn.Erf, jax.lax.erf))}


def tabulated_network(layers):
    """The network with functions in the place of closed forms."""
    return nn.Sequential(*(functions().get(type(layer), layer) for layer in network(layers).layers))


def dense(phi):
    return nn.Sequential(nn.Dense(1), phi, nn.Dense(1), phi, nn.Dense(1))


@pytest.mark.slow
@examples(12, random=300)
@given(
    names=st.lists(st.sampled_from(["erf", "gelu"]), min_size=1, max_size=2),
    readout=st.sampled_from(sorted(READOUTS)),
    padding=st.sampled_from(["circular", "zero"]),
    weights=WEIGHTS,
    seed=st.integers(0, 2**32 - 1),
)
def test_convolutions_are_the_literal_sums(names, readout, padding, weights, seed):
    layers = []
    for name in names:
        layers += [("conv", (2,), (1,), padding, *weights), ("phi", name)]
    layers += [*READOUTS[readout], ("dense", 1.1, 0.2)]
    x = 0.7 * np.random.default_rng(seed).standard_normal((4, 6, 5))
    x[1], x[2, :3] = -x[0], 0
    found, closed = tabulated_network(layers).kernel(x), network(layers).kernel(x)
    assert (found.engine, found.notes) == (closed.engine, closed.notes) == ("cpu", closed.notes)
    for exact, double, single in zip(
        literal_kernels.kernels(layers, x),
        (found.nngp, found.ntk),
        (lambda k: (k.nngp, k.ntk))(tabulated_network(layers).kernel(x.astype(np.float32))),
        strict=True,
    ):
        scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
        assert np.max(np.abs(double - exact) / scale) <= 2 * TOLERANCE
        assert np.max(np.abs(single - exact) / scale) <= 2 * TOLERANCE + 2e-6


SMOOTH = {
    "tanh": (jnp.tanh, np.tanh, lambda u: 1 / np.cosh(u) ** 2),
    "softplus": (jax.nn.softplus, lambda u: np.logaddexp(u, 0), lambda u: (1 + np.tanh(u / 2)) / 2),
    "swish": (
        jax.nn.swish,
        lambda u: u * (1 + np.tanh(u / 2)) / 2,
        lambda u: (1 + np.tanh(u / 2)) / 2 + u / np.cosh(u / 2) ** 2 / 4,
    ),
    "tanh of tanh and a bend": (
        lambda u: jnp.tanh(u) + 0.3 * jnp.exp(-(u**2) / 4),
        lambda u: np.tanh(u) + 0.3 * np.exp(-(u**2) / 4),
        lambda u: 1 / np.cosh(u) ** 2 - 0.15 * u * np.exp(-(u**2) / 4),
    ),
}


@pytest.mark.parametrize("name", ["tanh", *(pytest.param(n, marks=pytest.mark.slow) for n in SMOOTH if n != "tanh")])
def test_vectors_are_the_double_integral(name):
    fn, phi, slope = SMOOTH[name]
    x = np.random.default_rng(5).standard_normal((5, 6))
    x[1], x[2], x[3] = -x[0], x[0] * (1 + 1e-7), 0.2 * x[3]
    k = 1.1**2 * x @ x.T / 6
    q = np.broadcast_to(np.diag(k), k.shape)
    value, steepness = literal_duals.trapezoid_dual(phi, slope, q.T, q, k)
    net = nn.Sequential(nn.Dense(1, W_std=1.1), nn.Elementwise(fn), nn.Dense(1))
    found = net.kernel(x)
    assert (found.engine, found.notes) == ("cpu", ())
    np.testing.assert_allclose(found.nngp, value, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.ntk, value + k * steepness, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(net.kernel_diagonal(x).ntk, np.diag(found.ntk), rtol=1e-12)
    np.testing.assert_allclose(net.kernel(x, x[:2]).ntk, found.ntk[:, :2], rtol=1e-12)


def test_doubt_of_an_integral_at_a_variance_is_that_of_the_scaled_function_at_variance_one():
    scaled = lambda r: lambda z: (np.abs(r * z - 0.3), r * np.sign(r * z - 0.3))
    q = np.array([0.02, 0.5, 3.0, 40.0])
    expected = [disagreement(scaled(r), np.ones(1))[0] for r in np.sqrt(q)]
    assert np.min(expected) >= 1e-4
    np.testing.assert_allclose(disagreement(scaled(1.0), q), expected, rtol=1e-9)


def left_out(x1, x2, known):
    """Pretended kernels, NaN with inputs that are not `known`, and how a reference would have them."""
    reference = lambda a, b: (a[:, :1] + b[:, 0], a[:, :1] * b[:, 0])

    def engine(a, b):
        pair = reference(a, a if b is None else b)
        out = ~(known(a)[:, None] & known(a if b is None else b))
        return tuple(np.where(out, np.nan, part) for part in pair)

    of_pairs = lambda a, b: (a[:, 0] + b[:, 0], a[:, 0] * b[:, 0])
    backends = scales.Backends(engine, None, beyond=of_pairs)
    law = scales.law_of(dense(nn.Erf()).lowered(np.ones((1, 2)))[1])
    found = scales.all_pairs(law, backends, x1, x2)
    return found, reference(x1, x1 if x2 is None else x2)


@examples(30, random=1000)
@given(
    first=st.lists(st.floats(0.5, 2), min_size=1, max_size=5),
    second=st.none() | st.lists(st.floats(0.5, 2), min_size=1, max_size=5),
    end=st.floats(0.4, 2.1),
)
def test_inputs_beyond_a_table_are_those_of_the_reference_and_counted(first, second, end):
    x1, x2 = (None if v is None else np.stack([v, np.ones(len(v))], axis=1) for v in (first, second))
    known = lambda x: x[:, 0] <= end
    (nngp, ntk, notes), (exact, exact_ntk) = left_out(x1, x2, known)
    np.testing.assert_array_equal(nngp, exact)
    np.testing.assert_array_equal(ntk, exact_ntk)
    count = (~(known(x1)[:, None] & known(x1 if x2 is None else x2))).sum()
    text = f"{count} pairs by the reference engine: variances beyond the tables of an Elementwise"
    assert notes == ([text] if count else [])


@pytest.mark.slow
def test_variances_beyond_a_table_are_those_of_the_reference_engine():
    x = np.random.default_rng(7).standard_normal((6, 6))
    x[0], x[1], x[2] = 40 * x[0], 1e-8 * x[1], 0
    net = nn.Sequential(nn.Dense(1), nn.Elementwise(jnp.tanh), nn.Dense(1))
    found, exact = net.kernel(x), net.kernel(x, engine="reference")
    assert found.engine == "cpu"
    assert any("beyond the tables of an Elementwise" in note for note in found.notes)
    np.testing.assert_allclose(found.nngp, exact.nngp, rtol=5e-6)
    np.testing.assert_allclose(found.ntk, exact.ntk, rtol=5e-6)
    diagonal = net.kernel_diagonal(x)
    assert any("beyond the tables of an Elementwise" in note for note in diagonal.notes)
    np.testing.assert_allclose(diagonal.ntk, np.diag(found.ntk), rtol=1e-9)
    traced = jax.jit(lambda y: net.kernel(y).ntk)(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(traced, exact.ntk, rtol=1e-4)


@pytest.mark.parametrize(
    "phi",
    [lambda u: u + u**2, lambda u: np.where(u > 3, np.nan, np.tanh(u)), lambda u: u**3],
    ids=["square", "NaN", "cube"],
)
def test_what_grows_or_is_no_number_has_no_table(phi):
    with np.errstate(all="ignore"):
        assert tabulated._grows(lambda u: np.stack([phi(u), u]), 4)


def test_a_table_is_made_while_something_else_is_traced():
    made = []
    jax.eval_shape(lambda x: made.append(tabulated.tabulated(lambda u: jnp.tanh(u), 1e-5)) or x, 1.0)
    (table,) = made
    assert np.isfinite(table.numbers).all()


def test_a_kinked_function_and_a_tolerance_below_rounding_have_no_table():
    assert tabulated.tabulated(jax.nn.relu, 1e-6) is None
    assert tabulated.tabulated(jnp.tanh, 1e-12) is None


def test_a_first_call_inside_a_program_is_traced():
    net = nn.Sequential(nn.Dense(1), nn.Elementwise(lambda z: jnp.tanh(1.25 * z)), nn.Dense(1))  # known to no cache
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    traced = jax.jit(lambda z: net.kernel(z).ntk)(x)
    np.testing.assert_allclose(traced, net.kernel(x).ntk, rtol=1e-5)
