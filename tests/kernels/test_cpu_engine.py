"""The CPU engine gives the same numbers in every variant, and those of the reference engine for batches of any size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from equitangents import groups, nn
from equitangents.kernels import cost
from equitangents.kernels.engines import engine_of
from equitangents.kernels.engines.cpu import run
from equitangents.nn import Conv, Dense, Flatten, GlobalAvgPool, Relu, Sequential
from kernels.comparison import TOLERANCES, check_cpu, check_instruction_sets
from laws.networks import network
from laws.random_networks import grid_networks

CPU = engine_of("cpu")
LARGEST = 3e6  # positions times offsets times pairs in a random case
NONLINEARITIES = (nn.Relu(), nn.LeakyRelu(0.2), nn.Abs(), nn.Erf(), nn.Gelu(), nn.Sin(), nn.Cos(), nn.Identity())
MORE = (*NONLINEARITIES, nn.Rbf(0.5), nn.Gaussian(), nn.RectifiedMonomial(2))  # that the CPU engine runs
SHAPE = (8, 8, 2)


def conv(padding="zero", window=3):
    return nn.Conv(1, window, padding=padding, W_std=1.4, b_std=0.1)


FIRST, SECOND = (conv(), nn.Relu()), (conv("circular"), nn.Gelu())
BLOCK = nn.Residual(conv(), nn.Relu(), nn.Residual(conv(window=2), nn.Cos()))
P4 = groups.wallpaper(4, False, SHAPE[:2])
NETWORKS = {
    "pooled": (*FIRST, conv(window=2), nn.Sin(), nn.GlobalAvgPool(), nn.Dense(1), nn.Relu(), nn.Dense(1)),
    "flattened": (*SECOND, *FIRST, nn.Flatten(), nn.Dense(1), nn.Residual(nn.Dense(1), nn.Relu()), nn.Dense(1)),
    "residual": (*FIRST, BLOCK, nn.GlobalAvgPool(), nn.Dense(1), nn.Residual(nn.Dense(1), nn.Relu()), nn.Dense(1)),
    "branches": (*FIRST, nn.Parallel(list(FIRST), [conv()]), nn.Concatenate(), nn.GlobalAvgPool(), nn.Dense(1)),
    "pools": (*FIRST, nn.AvgPool(2), *FIRST, conv(), nn.AvgPool(2), nn.Flatten(), nn.Dense(1), nn.Erf(), nn.Dense(1)),
    "group": (nn.Lift(P4, 1, (3, 3)), nn.Relu(), nn.GroupConv(1, (3, 3)), nn.Erf(), nn.GroupPool(), nn.Dense(1)),
}


def each_of(*names):
    return pytest.mark.parametrize("net", [nn.Sequential(*NETWORKS[name]) for name in names], ids=names)


EVERY = each_of(*NETWORKS)
PRECISION = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def pairs(found, expected):
    """NNGP and NTK, each of both."""
    return (found.nngp, expected.nngp), (found.ntk, expected.ntk)


@pytest.mark.slow
@given(grid_networks([(40,), (17,), (12, 11), (5, 4, 5)]), st.integers(1, 67), st.integers(0, 67), st.integers(0, 1000))
@settings(max_examples=60)
def test_many_random_networks_on_larger_grids(case, n1, n2, seed):
    layers, x = case
    net, shape = network(layers), x.shape[1:]
    program = net.lower(shape)[1]
    assume(CPU.obstacle(program, x.dtype) is None)
    steps = CPU.plan(program)
    work = sum(len(stage.offsets.array) for stage in steps.stages) * steps.positions
    most, rng = max(1, int((LARGEST / work) ** 0.5)), np.random.default_rng(seed)
    x1, x2 = (rng.standard_normal((min(n, most), *shape)) for n in (n1, n2))
    check_cpu(net, x1, x2 if n2 else None)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "phi",
    [pytest.param(p, marks=() if i in (0, 3, 4, 7) else pytest.mark.slow) for i, p in enumerate(NONLINEARITIES)],
    ids=lambda layer: type(layer).__name__,
)  # the reference engine compiles each
@pytest.mark.parametrize(("scale", "tolerance"), [(1e-3, None), (1.0, None), (30.0, 1e-5)])
def test_every_nonlinearity_at_every_scale(phi, scale, tolerance, rng):
    net = nn.Sequential(nn.Dense(1), phi, nn.Dense(1, b_std=0.1), phi, nn.Dense(1))
    check_cpu(net, scale * rng.standard_normal((9, 5)), None, tolerance)  # K is what is left of variances around 900


@EVERY
def test_every_instruction_set_and_any_number_of_threads_agree(net, rng, monkeypatch):
    x1, x2 = rng.standard_normal((7, *SHAPE)), rng.standard_normal((21, *SHAPE))
    best = check_instruction_sets(CPU.plan(net.lower(SHAPE)[1]), x1, x2)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = net.kernel(np.float32(x1), np.float32(x2), engine="cpu")
    np.testing.assert_array_equal(found.nngp, best[0])
    np.testing.assert_array_equal(found.ntk, best[1])


@PRECISION
@EVERY
def test_matrices_are_exactly_symmetric_and_equal_inputs_exactly_equal(net, dtype, rng):
    x = rng.standard_normal((19, *SHAPE)).astype(dtype)
    x[17] = x[3]
    k = net.kernel(x, engine="cpu")
    for values, own in pairs(k, net.kernel_diagonal(x, engine="cpu")):
        np.testing.assert_array_equal(values, values.T)
        np.testing.assert_allclose(values[3], values[17], rtol=1e-6)
        assert values[3, 17] == values[3, 3]
        np.testing.assert_allclose(own, np.diag(values), rtol=TOLERANCES[np.dtype(dtype)])


@PRECISION
@each_of("pooled", "residual", "pools", "group")
def test_few_pairs_have_the_kernels_that_they_have_among_many(net, dtype, rng, monkeypatch):
    x, y = (rng.standard_normal((n, *SHAPE)).astype(dtype) for n in (3, 2))
    y[1] = x[0]
    asked, inner = [], run._by_pairs
    monkeypatch.setattr(run, "_by_pairs", lambda *given: asked.append(len(given[1])) or inner(*given))
    few = [net.kernel(x), net.kernel(x, y)]
    assert asked == [3, 3]
    monkeypatch.setattr(run, "_MOST_LISTED", 0)
    for found, many in zip(few, [net.kernel(x), net.kernel(x, y)], strict=True):
        for one, other in pairs(found, many):
            np.testing.assert_allclose(one, other, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(few[0].ntk, few[0].ntk.T)
    np.testing.assert_array_equal(few[1].ntk[0, 1], few[0].ntk[0, 0])


@pytest.mark.slow
def test_jax_programs_may_batch_it(rng):
    net = nn.Sequential(*NETWORKS["pooled"])
    x1, x2 = (jnp.asarray(rng.standard_normal((n, *SHAPE)), jnp.float32) for n in (5, 3))
    eager = net.kernel(x1, x2, engine="cpu")
    batched = jax.jit(jax.vmap(lambda a: net.kernel(a, x2, engine="cpu").ntk))(x1[:, None])
    np.testing.assert_allclose(batched[:, 0], eager.ntk, rtol=1e-6)


HEAD = (Flatten(), Dense(1))


@pytest.mark.parametrize("shape", [pytest.param((2,), marks=pytest.mark.slow), (3, 3, 1)])
def test_single_precision_is_double_precision_rounded(shape: tuple[int, ...]) -> None:
    layers = (Dense(1),) if len(shape) == 1 else (Conv(1, (1, 2), W_std=1.3),)
    net = Sequential(*layers, Relu(), Dense(1), Relu(), *HEAD[len(shape) == 1 :])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(70, *shape)).astype(np.float32)
    y = np.concatenate([-1.7 * x[:40] + 1e-4 * rng.normal(size=(40, *shape)), 0.3 * x[40:]]).astype(np.float32)
    exact = net.kernel(x.astype(float), y.astype(float))
    found = net.kernel(x, y)
    traced = jax.jit(lambda a, b: (net.kernel(a, b).nngp, net.kernel(a, b).ntk))(x, y)
    assert found.engine == "cpu"
    for single in ((found.nngp, found.ntk), traced):
        for value, expected in zip(single, (exact.nngp, exact.ntk), strict=True):
            assert value.dtype == np.float32
            np.testing.assert_array_equal(np.asarray(value), expected.astype(np.float32))
    own = net.kernel(x)
    np.testing.assert_array_equal(own.ntk, net.kernel(x.astype(float)).ntk.astype(np.float32))
    np.testing.assert_array_equal(net.kernel_diagonal(x).ntk, np.diag(own.ntk))


def test_memory_is_that_of_double_precision(monkeypatch) -> None:
    """And seconds are measured, with inputs in single precision as the kernels get them."""
    timed = []
    monkeypatch.setattr(cost, "pair_seconds", lambda run, shape, dtype, work: (timed.append(dtype), (1e-9, 1.0))[1])
    for window, in_double in ((1, True), (3, False)):
        net = Sequential(Conv(1, (window, window)), Relu(), GlobalAvgPool(), Dense(1))
        single, double = (net.kernel_cost((16, 16, 1), 100, dtype=dtype) for dtype in ("float32", "float64"))
        assert (single.working_bytes >= double.working_bytes) == in_double
        assert single.output_bytes == double.output_bytes / 2
    assert timed == ["float32", "float64"] * 2
