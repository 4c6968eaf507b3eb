"""The CPU engine computes what the reference engine computes: on random programs, of any size, in every variant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents.kernels.engines.cpu import run
from equitangents.kernels.plans.plan import plan
from equitangents.nn import (
    Conv,
    Cos,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    Identity,
    Relu,
    Residual,
    Sequential,
    Sin,
)
from kernels.comparison import assert_as_exact, check_cpu, check_instruction_sets
from kernels.random_networks import MORE, NONLINEARITIES, grid_networks

LARGEST = 3e6  # positions times fibres times pairs in a random case


@st.composite
def grid_cases(draw):
    """(network, inputs, more inputs or None), batches from 1 to 67, smaller where a pair is expensive."""
    net, shape = draw(grid_networks({1: 40, 2: 12, 3: 5}, MORE))
    steps = plan(net.lower(shape)[1])
    most = max(1, int((LARGEST / (steps.positions * len(steps.fibres.array))) ** 0.5))
    n1, n2 = min(draw(st.integers(1, 67)), most), min(draw(st.integers(0, 67)), most)
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return net, rng.standard_normal((n1, *shape)), rng.standard_normal((n2, *shape)) if n2 else None


@pytest.mark.slow
@given(grid_cases())
@settings(max_examples=60)
def test_many_random_networks_on_grids(case):
    check_cpu(*case)


def one_of_each_family(often):
    """All nonlinearities, but only those `often` where time is short: the reference engine compiles each."""
    return pytest.mark.parametrize(
        "dual",
        [pytest.param(dual, marks=() if type(dual) in often else pytest.mark.slow) for dual in NONLINEARITIES],
        ids=lambda layer: type(layer).__name__,
    )


@pytest.mark.quick(1)
@one_of_each_family({Relu, Erf, Gelu, Identity})
@pytest.mark.parametrize(("scale", "tolerance"), [(1e-3, None), (1.0, None), (30.0, 1e-5)])
def test_every_nonlinearity_at_every_scale(dual, scale, tolerance, rng):
    net = Sequential(Dense(1), dual, Dense(1, b_std=0.1), dual, Dense(1))
    check_cpu(net, scale * rng.standard_normal((9, 5)), None, tolerance)  # K is what is left of variances around 900


PLAIN = (Conv(1, 3, padding="zero", b_std=0.1), Relu(), Conv(1, 3, padding="zero"), Gelu(), GlobalAvgPool())
BLOCK = Residual(Conv(1, 3, padding="zero", b_std=0.1), Relu(), Residual(Conv(1, 2, padding="zero"), Cos()))
BRANCHED = (Conv(1, 3, padding="zero"), Relu(), BLOCK, GlobalAvgPool())


@pytest.mark.parametrize(
    "hidden", [PLAIN, (*BRANCHED, Dense(1), Residual(Dense(1), Relu()))], ids=["plain", "branched"]
)
def test_every_instruction_set_agrees(hidden, rng):
    net = Sequential(*hidden, Dense(1), Erf(), Dense(1))
    x1, x2 = rng.standard_normal((13, 6, 5, 3)), rng.standard_normal((21, 6, 5, 3))
    check_instruction_sets(plan(net.lower(x1.shape[1:])[1]), x1, x2)


def test_threads_change_nothing(rng, monkeypatch):
    net = Sequential(Conv(1, 3), Relu(), Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1), Relu(), Dense(1))
    x = rng.standard_normal((40, 8, 8, 3)).astype(np.float32)
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        results.append(net.kernel(x, engine="cpu"))
    np.testing.assert_array_equal(results[0].ntk, results[1].ntk)
    np.testing.assert_array_equal(results[0].nngp, results[1].nngp)


@pytest.mark.parametrize("hidden", [(Conv(1, 3), Relu(), Conv(1, 3), Erf(), GlobalAvgPool()), BRANCHED])
def test_symmetric_matrices_are_exactly_symmetric_and_equal_inputs_exactly_equal(hidden, rng):
    net = Sequential(*hidden, Dense(1), Relu(), Dense(1))
    x = rng.standard_normal((19, 5, 5, 2)).astype(np.float32)
    x[17] = x[3]
    k = net.kernel(x, engine="cpu")
    np.testing.assert_array_equal(k.ntk, k.ntk.T)
    np.testing.assert_array_equal(k.nngp, k.nngp.T)
    np.testing.assert_allclose(k.ntk[3], k.ntk[17], rtol=1e-6)
    assert k.ntk[3, 17] == k.ntk[3, 3]


def test_near_equal_inputs_keep_their_digits_in_single_precision(rng):
    layers = [layer for _ in range(20) for layer in (Dense(1, W_std=2**0.5), Relu())]
    net = Sequential(*layers, Dense(1))
    x = rng.standard_normal((4, 50)).astype(np.float32)
    y = x * np.float32(1) + np.float32(1e-3) * rng.standard_normal(x.shape).astype(np.float32)
    assert_as_exact(net, x, y, engine="cpu", dtype=np.float32, judge="cpu")


@pytest.mark.slow
def test_jax_programs_may_batch_it(rng):
    net = Sequential(Conv(1, 3, b_std=0.1), Relu(), Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1))
    x1 = jnp.asarray(rng.standard_normal((5, 6, 2)), jnp.float32)
    x2 = jnp.asarray(rng.standard_normal((3, 6, 2)), jnp.float32)
    eager = net.kernel(x1, x2, engine="cpu")
    batched = jax.jit(jax.vmap(lambda a: net.kernel(a, x2, engine="cpu").ntk))(x1[:, None])
    np.testing.assert_allclose(batched[:, 0], eager.ntk, rtol=1e-6)


ODD = (Conv(1, 3, padding="zero", b_std=0.1), Relu(), Conv(1, 2, padding="zero"), Sin())


@pytest.mark.parametrize(
    "hidden", [(*ODD, Flatten()), (*ODD, GlobalAvgPool()), BRANCHED], ids=["flatten", "pool", "branched"]
)
@pytest.mark.parametrize("end", [(Dense(1),), (Dense(1), Residual(Dense(1), Relu()), Dense(1))], ids=["linear", "deep"])
def test_kernels_of_inputs_with_themselves(hidden, end, rng):
    net = Sequential(*hidden, *end)
    x = rng.standard_normal((37, 5, 4, 2))
    whole = net.kernel(x, engine="cpu")
    nngp, ntk = run.listed(plan(net.lower(x.shape[1:])[1]), x)
    np.testing.assert_allclose(nngp, np.diag(whole.nngp), rtol=1e-13)
    np.testing.assert_allclose(ntk, np.diag(whole.ntk), rtol=1e-13)
