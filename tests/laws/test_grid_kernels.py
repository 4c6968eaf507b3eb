"""Law: kernels of convolutional networks on grids are the literal sums over pairs of pixels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings

import equitangents as et
from equitangents.kernels.engines import engine_of
from examples import examples
from laws.networks import by_engines, check, check_cpu, got_pair, network
from laws.random_networks import DENSE, grid_networks
from oracles import literal_duals, literal_kernels

SLOW = pytest.mark.slow
RELU, ERF, GELU, COS, ABS = (("phi", name) for name in ("relu", "erf", "gelu", "cos", "abs"))


def conv(window, stride=None, padding="circular", W=1.4, b=0.1):
    return ("conv", window, stride or (1,) * len(window), padding, W, b)


def local(*args, **kwargs):
    return ("local", *conv(*args, **kwargs)[1:])


zconv, vconv, zlocal, vlocal = (
    partial(make, padding=padding) for make in (conv, local) for padding in ("zero", "valid")
)
FLAT, GAP = [("flatten",), DENSE], [("global_pool",), DENSE]
pool = lambda *window: ("avg_pool", window)
res = lambda *layers: ("residual", list(layers))

TABLE = {
    "one dimension, even window": ((7,), [conv((4,)), RELU, zconv((2,)), RELU, *FLAT]),
    "one dimension, strides": ((7,), [conv((3,), (2,)), RELU, zconv((3,), (2,)), ERF, *FLAT]),
    "a single pixel": ((1, 1), [conv((3, 3)), RELU, zconv((2, 2)), RELU, *FLAT]),
    "window as wide as the grid": ((3, 5), [conv((3, 5)), RELU, zconv((5, 5)), RELU, *GAP]),
    "strides 2 and 3, zero": ((6, 7), [zconv((3, 2), (2, 3)), RELU, conv((2, 2)), RELU, *FLAT]),
    "strides 2, circular": ((5, 6), [conv((3, 3), (2, 2)), RELU, conv((3, 3)), ERF, *GAP]),
    "strides then pooling, even grid": ((6, 6), [conv((3, 3), (2, 2)), RELU, conv((2, 3)), RELU, *GAP]),
    "valid": ((5, 6), [vconv((3, 2)), RELU, vconv((2, 3), (1, 2)), RELU, *FLAT]),
    "valid and pooled": ((5, 5), [vconv((2, 2)), RELU, vconv((3, 3)), RELU, *GAP]),
    "zero and pooled": ((4, 5), [zconv((3, 3)), RELU, zconv((2, 3)), RELU, *GAP]),
    "three dimensions": ((3, 2, 4), [conv((2, 1, 3)), RELU, zconv((3, 2, 2), (1, 1, 2)), RELU, *FLAT]),
    "three dimensions, pooled": ((2, 3, 2), [conv((2, 2, 2)), RELU, zconv((1, 3, 2)), ERF, *GAP]),
    "locally connected": ((4, 4), [local((3, 3)), RELU, zlocal((2, 2)), RELU, *FLAT]),
    "locally connected, pooled": ((4, 4), [local((3, 3)), RELU, zlocal((2, 2)), RELU, *GAP]),
    "locally connected, strides, valid": ((5, 4), [vlocal((3, 2), (2, 1)), ERF, conv((2, 2)), RELU, *FLAT]),
    "conv then locally connected": ((4, 4), [conv((3, 3)), RELU, zlocal((3, 3)), GELU, *GAP]),
    "locally connected then conv": ((4, 4), [local((3, 3)), RELU, zconv((3, 3)), RELU, *GAP]),
    "pooling inside": ((5, 4), [conv((3, 3)), RELU, pool(2, 2), conv((2, 2)), RELU, *FLAT]),
    "pooling inside, pooled": ((4, 5), [zconv((3, 3)), ERF, pool(2, 2), conv((2, 2)), RELU, *GAP]),
    "pooling at the readout": ((5, 6), [conv((3, 3)), RELU, conv((2, 2)), RELU, pool(2, 3), *FLAT]),
    "pooling at the readout, zero": ((4, 4), [zconv((3, 3)), RELU, pool(2, 2), *FLAT]),
    "pooling before a nonlinearity": ((4, 4), [conv((3, 3)), pool(2, 2), RELU, *FLAT]),
    "pooling the input": ((4, 4), [pool(2, 2), conv((2, 2)), RELU, *FLAT]),
    "pool, dense head": ((3, 4), [conv((2, 2)), RELU, ("global_pool",), DENSE, RELU, DENSE]),
    "one pixel left by pooling": ((2,), [conv((1,)), RELU, pool(2), zconv((2,)), RELU, *FLAT]),
    "pool twice": ((4, 4), [conv((3, 3)), RELU, pool(2, 2), pool(2, 1), *FLAT]),
    "dense at every pixel": ((3, 3), [("dense", 1.4, 0.1), RELU, conv((2, 2)), RELU, DENSE, ERF, *GAP]),
    "flatten first": ((3, 3), [("flatten",), DENSE, ABS, DENSE, COS, DENSE]),
    "two linear layers": ((3, 3), [conv((2, 2)), zconv((2, 2)), RELU, DENSE, *FLAT]),
    "residual": ((4, 4), [conv((3, 3)), res(RELU, conv((3, 3))), RELU, *FLAT]),
    "residual, pooled": ((4, 3), [conv((3, 3)), res(RELU, zconv((3, 3))), res(ERF, conv((2, 2))), RELU, *GAP]),
    "residual of means": ((4, 4), [conv((3, 3)), RELU, res(conv((3, 3)), RELU), *FLAT]),
    "residual of means, pooled": ((3, 4), [conv((2, 2)), COS, res(conv((2, 3)), GELU), conv((2, 2)), RELU, *GAP]),
    "residual of means of means": (
        (3, 3),
        [conv((2, 2)), RELU, res(conv((3, 3)), ABS), res(conv((2, 2)), RELU), *FLAT],
    ),
    "residual in residual": ((3, 4), [conv((2, 2)), res(ERF, conv((2, 2)), res(RELU, conv((2, 2)))), RELU, *FLAT]),
    "residual after pooling": ((4, 4), [conv((3, 3)), RELU, pool(2, 2), res(conv((2, 2)), RELU), *FLAT]),
    "residual, locally connected": ((3, 3), [conv((2, 2)), RELU, res(local((2, 2)), RELU), *GAP]),
    "residual of a vector": ((5,), [("flatten",), DENSE, RELU, res(DENSE, RELU), DENSE, RELU, res(DENSE), DENSE]),
}


# Those that mix pair offsets go to the reference engine, which compiles each.
MIXED = {"strides 2 and 3, zero", "strides 2, circular", "locally connected, strides, valid", "residual, pooled"}


@by_engines("name", TABLE, TABLE.keys() - MIXED, {"window as wide as the grid"})
def test_networks_by_name(engine, name):
    grid, layers = TABLE[name]
    x = np.random.default_rng(len(name)).standard_normal((3, *grid, 2))
    check(layers, x[:2], x[2:])


NONLINEARITIES = ["relu", "leaky_relu", "abs", "erf", "gelu", "sin", "cos", "identity"]


@by_engines("nonlinearity", NONLINEARITIES, NONLINEARITIES, ["leaky_relu"])
def test_every_nonlinearity(engine, nonlinearity):
    """Also of opposite inputs, and in a residual block."""
    phi = ("phi", nonlinearity, 0.15) if nonlinearity == "leaky_relu" else ("phi", nonlinearity)
    x = np.random.default_rng(5).standard_normal((3, 5, 2))
    check([zconv((3,)), phi, res(zconv((2,)), phi), *GAP], np.concatenate([x, -x[:1]]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "square", "softplus"])
def test_elementwise_is_the_double_integral(name):
    import jax

    phi, derivative, fn = {
        "tanh": (np.tanh, lambda u: 1 / np.cosh(u) ** 2, jax.numpy.tanh),
        "softplus": (lambda u: np.logaddexp(u, 0), lambda u: 0.5 * (1 + np.tanh(u / 2)), jax.nn.softplus),
        "square": (lambda u: u**2, lambda u: 2 * u, jax.numpy.square),
    }[name]
    x = 0.7 * np.random.default_rng(6).standard_normal((3, 4))
    K = 1.3**2 * x @ x.T / 4 + 0.2**2
    assert np.diag(K).max() < 4
    q = np.broadcast_to(np.diag(K), (3, 3))
    value, slope = literal_duals.trapezoid_dual(phi, derivative, q.T, q, K)
    for tolerance in (1e-6, 1e-10):
        phi = et.nn.Elementwise(fn, tolerance=tolerance)
        net = et.nn.Sequential(et.nn.Dense(4, W_std=1.3, b_std=0.2), phi, et.nn.Dense(1, b_std=0.5))
        got = net.kernel(x)
        np.testing.assert_allclose(got.nngp, value + 0.25, rtol=tolerance)
        np.testing.assert_allclose(got.ntk, value + 0.25 + K * slope, rtol=tolerance)


def test_a_nonlinearity_of_the_input_is_applied_to_it():
    x = np.random.default_rng(9).standard_normal((3, 4, 2))
    layers = [conv((2,)), ERF, *FLAT]
    first = network([RELU, *layers]).kernel(x)
    for got, expected in zip(got_pair(first), literal_kernels.kernels(layers, np.maximum(x, 0)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "layers",
    [
        [conv((2,)), RELU, RELU, *FLAT],
        [conv((2,)), RELU, res(conv((2,)), RELU), RELU, *FLAT],
        [conv((2,)), RELU, pool(2), RELU, *FLAT],
        [conv((2,)), res(RELU), *FLAT],
        [conv((2,)), res(("phi", "identity")), *FLAT],
    ],
    ids=["twice", "of a sum", "of a mean", "branch without weights", "twice the same"],
)
def test_what_is_not_gaussian_is_refused(layers):
    with pytest.raises(et.EquitangentsError):
        network(layers).kernel(np.ones((2, 4, 2)))


@pytest.mark.parametrize("readout", [GAP, pytest.param(FLAT, marks=SLOW)], ids=["pooled", "flattened"])
def test_more_inputs_than_one_tile_holds(readout):
    x = np.random.default_rng(8).standard_normal((103, 3, 2))
    layers = [conv((2,)), RELU, zconv((2,)), ERF, *readout]
    check(layers, x[:70], x[70:])
    check(layers, x[:67])


@given(grid_networks())
@settings(max_examples=14)
def test_random_networks_by_the_compiled_engine(case):
    layers, x = case
    assume(engine_of("cpu").obstacle(network(layers).lower(x.shape[1:])[1], x.dtype) is None)
    check_cpu(layers, x)


@given(grid_networks())
@examples(2, random=15)
def test_random_networks_by_whatever_engine_runs_them(case):
    layers, x = case
    check(layers, x[:1], x[1:])


@pytest.mark.parametrize("windows", [((1, 2), (3, 2)), ((3, 3), (1, 1), (2, 3))], ids=["wider", "narrower"])
def test_neighbouring_blocks_whose_windows_have_other_margins(windows, rng):
    blocks = [res(zconv(w)) for w in windows]
    check([*blocks, *GAP], rng.standard_normal((3, 4, 3, 3)))


@pytest.mark.slow
def test_too_many_branches_inside_each_other_go_to_the_reference(rng):
    layer = et.nn.Dense(1)
    for _ in range(9):
        layer = et.nn.Residual(et.nn.Dense(1), layer)
    result = et.nn.Sequential(layer).kernel(rng.standard_normal((2, 1)))
    assert result.engine == "reference"
    assert "at most 8 residual branches" in result.notes[0]
