"""The GPU engine computes what the other engines compute; emulated, since tests cannot count on a GPU.

The emulation compiles the kernel that a GPU would run with a C++ compiler, its threads as iterations of loops. With
EQUITANGENTS_TEST_GPU=1 a GPU runs it (`scripts/gpu_day.sh`). The CPU
engine, which compiles nothing, is the judge in `make test`, where it is held to the reference engine and to literal
sums itself (`test_cpu_engine.py`, `test_compiled_sums.py`); `make test-all` asks the reference engine, too.
"""

import os

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents import kernels
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.cost import calibration
from equitangents.kernels.cost import forecast as cost
from equitangents.kernels.engines import choose, gpu, select, trial
from equitangents.kernels.engines.gpu import availability
from equitangents.kernels.engines.gpu.engine import GpuEngine
from equitangents.kernels.plans.plan import index_tables, plan
from equitangents.kernels.runs.programs import compute_diagonal
from equitangents.nn import (
    Abs,
    AvgPool,
    Conv,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    Lift,
    LocallyConnected,
    Relu,
    Residual,
    Sequential,
)
from kernels.comparison import assert_as_exact
from kernels.random_networks import NONLINEARITIES, grid_networks


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    if os.environ.get("EQUITANGENTS_TEST_GPU", "0") == "0":
        monkeypatch.setenv(gpu.EMULATE, "1")


@pytest.fixture(params=["cpu", pytest.param("reference", marks=pytest.mark.slow)])
def judge(request):
    """The engine that the GPU engine is compared with."""
    return request.param


def check(net, x1, x2=None, dtypes=(np.float64, np.float32), single=None, judge="reference"):
    """The engine against the one that judges; `single`: the tolerance of float32."""
    for dtype in dtypes:
        tolerance = single if dtype == np.float32 else None
        assert_as_exact(net, x1, x2, engine="gpu", dtype=dtype, tolerance=tolerance, judge=judge)


@st.composite
def grid_cases(draw):
    """(network, inputs, more inputs or None)."""
    net, shape = draw(grid_networks({1: 20, 2: 8, 3: 4}))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    n1, n2 = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    return net, rng.standard_normal((n1, *shape)), rng.standard_normal((n2, *shape)) if n2 else None


def random_tolerance(x):
    """What float32 may be off by on random networks and inputs x, among which some pairs are always difficult.

    D and the variances hold the angle of pixels that are nearly opposite, or parallel and of unequal length, to the
    root of their rounding at worst, and with it the NTK. Pixels of one or two channels often are; the CPU engine goes
    over to double precision there (`features.py`).
    """
    return 1e-5 if x.shape[-1] > 2 else 3e-4


@given(grid_cases(), st.sampled_from([np.float64, np.float32]))
@settings(max_examples=2)
def test_random_networks_on_grids(case, dtype):
    check(*case, dtypes=(dtype,), single=random_tolerance(case[1]), judge="cpu")


@pytest.mark.slow
@given(grid_cases())
@settings(max_examples=60)
def test_many_random_networks_on_grids(case):
    check(*case, single=random_tolerance(case[1]))


def test_every_nonlinearity(judge, rng):
    layers = [layer for dual in NONLINEARITIES for layer in (Conv(1, 3, W_std=1.3, b_std=0.2), dual)]
    check(Sequential(*layers, GlobalAvgPool(), Dense(1)), rng.standard_normal((3, 5, 4, 3)), judge=judge)


def test_valid_windows_and_a_torus_that_is_broken_later(judge, rng):
    broken = (Conv(1, 3, padding="valid", b_std=0.1), Gelu(), Conv(1, (2, 3), stride=2, padding="zero", b_std=0.1))
    net = Sequential(Conv(1, 3, b_std=0.1), Relu(), *broken, Erf(), GlobalAvgPool(), Dense(1))
    x1, x2 = rng.standard_normal((2, 7, 6, 2)), rng.standard_normal((3, 7, 6, 2))
    check(net, x1, x2, dtypes=(np.float64,), judge=judge)


def test_locally_connected_layers(judge, rng):
    layers = (LocallyConnected(1, 3, padding="zero", b_std=0.1), Relu(), Conv(1, 2, padding="zero"), Abs())
    net = Sequential(*layers, GlobalAvgPool(), Dense(1))
    check(net, rng.standard_normal((3, 5, 4, 2)), dtypes=(np.float64,), judge=judge)


@pytest.mark.parametrize(
    ("readout", "dtype", "window"),
    [
        (Flatten(), np.float64, "full"),
        (GroupPool(), np.float32, (2, 3)),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (Flatten(), np.float64, (2, 3)),
                (Flatten(), np.float64, (1, 1)),
                (GroupPool(), np.float32, (1, 1)),
                (GroupPool(), np.float32, "full"),
            )
        ),
    ],
)
def test_groups(readout, dtype, window, judge, rng):
    group = et.groups.wallpaper(rotations=4, reflections=True, shape=(3, 3))
    hidden = (Lift(group, 1, window=window, b_std=0.1), Relu(), GroupConv(1, window=window), Erf())
    net = Sequential(*hidden, readout, Dense(1))
    check(net, rng.standard_normal((3, 3, 3, 2)), rng.standard_normal((2, 3, 3, 2)), dtypes=(dtype,), judge=judge)


def test_folded_groups(judge, rng):
    group = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
    hidden = (Lift(group, 1, window=(3, 3), b_std=0.1), Relu(), GroupConv(1, window=(3, 3)), Relu())
    net = Sequential(*hidden, GroupPool(), Dense(1))
    assert net.lower((4, 4, 2))[1].lift.folded > 1
    check(net, rng.standard_normal((3, 4, 4, 2)), judge=judge)


@pytest.mark.parametrize("padding", [pytest.param("circular", marks=pytest.mark.slow), "zero"])
def test_residual_branches(padding, judge, rng):
    def conv(window):
        return Conv(1, window, padding=padding, b_std=0.2)

    inner = Residual(conv(3), Relu(), Residual(conv(2), Gelu()), conv((2, 3)), Relu())
    net = Sequential(conv(3), Relu(), inner, Residual(conv(3), Erf()), conv(2), Relu(), GlobalAvgPool(), Dense(1))
    check(net, rng.standard_normal((2, 5, 4, 2)), dtypes=(np.float64,), judge=judge)


def test_neighbouring_blocks_whose_windows_have_other_margins(judge, rng):
    blocks = [Residual(Conv(1, window, padding="zero"), Relu()) for window in ((1, 2), (3, 2), (1, 1))]
    net = Sequential(*blocks, Conv(1, 1, padding="zero"), Relu(), GlobalAvgPool(), Dense(1))
    check(net, rng.standard_normal((2, 4, 3, 1)), dtypes=(np.float64,), judge=judge)


def test_residual_branches_on_groups_and_vectors(judge, rng):
    group = et.groups.wallpaper(rotations=4, reflections=False, shape=(3, 3))
    hidden = (Lift(group, 1, window=(2, 3)), Relu(), Residual(GroupConv(1, window=(2, 2)), Relu()))
    net = Sequential(*hidden, GroupPool(), Dense(1), Residual(Dense(1), Relu()), Dense(1))
    check(net, rng.standard_normal((2, 3, 3, 2)), dtypes=(np.float32,), judge=judge)


def test_long_sums_in_single_precision(judge, rng):
    layers = [layer for _ in range(6) for layer in (Conv(1, 3, W_std=1.4), Relu())]
    net = Sequential(*layers, GlobalAvgPool(), Dense(1))
    check(net, 3 + rng.standard_normal((2, 16, 16, 3)), dtypes=(np.float32,), judge=judge)


def test_equal_inputs_are_equal_and_near_ones_keep_their_digits(judge, rng):
    layers = [layer for _ in range(8) for layer in (Conv(1, 3, W_std=2**0.5), Relu())]
    net = Sequential(*layers, Flatten(), Dense(1))
    x = rng.standard_normal((3, 5, 5, 2)).astype(np.float32)
    y = x + np.float32(1e-3) * rng.standard_normal(x.shape).astype(np.float32)
    y[2] = x[2]
    check(net, x.astype(float), y.astype(float), dtypes=(np.float32,), judge=judge)
    found = net.kernel(x, y, engine="gpu")
    np.testing.assert_allclose(found.ntk[2, 2], compute_diagonal(net.lower(x.shape[1:])[1], x, "gpu").ntk[2], rtol=1e-6)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param((Dense(1),), id="linear", marks=pytest.mark.slow),
        pytest.param((Dense(1), Relu(), Dense(1)), id="deep"),
    ],
)
def test_kernels_of_inputs_with_themselves(end, rng):
    net = Sequential(Conv(1, 3, padding="zero", b_std=0.1), Relu(), GlobalAvgPool(), *end)
    x = rng.standard_normal((5, 5, 4, 2))
    whole, own = net.kernel(x, engine="gpu"), compute_diagonal(net.lower(x.shape[1:])[1], x, "gpu")
    assert own.engine == "gpu"
    np.testing.assert_allclose(own.nngp, np.diag(whole.nngp), rtol=1e-13)
    np.testing.assert_allclose(own.ntk, np.diag(whole.ntk), rtol=1e-13)


@pytest.mark.parametrize("n", [(7, None), (7, 5)], ids=["symmetric", "two"])
def test_tiles_fit_together(n, rng, monkeypatch):
    net = Sequential(Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1))
    x1, x2 = (None if k is None else rng.standard_normal((k, 4, 2)) for k in n)
    whole = net.kernel(x1, x2, engine="gpu")
    monkeypatch.setattr("equitangents.kernels.engines.gpu.run._EMULATED_WORK", 16 * 9)
    parts = net.kernel(x1, x2, engine="gpu")
    np.testing.assert_allclose(parts.ntk, whole.ntk, rtol=1e-14)
    np.testing.assert_allclose(parts.nngp, whole.nngp, rtol=1e-14)


@pytest.mark.slow  # every compiled engine does so in one way: see `test_cpu_engine.py`
def test_it_runs_inside_jax_programs(rng):
    net = Sequential(Conv(1, 3, b_std=0.1), Relu(), GlobalAvgPool(), Dense(1), Relu(), Dense(1))
    x1 = jnp.asarray(rng.standard_normal((5, 6, 2)), jnp.float32)
    x2 = jnp.asarray(rng.standard_normal((3, 6, 2)), jnp.float32)
    eager, jitted = net.kernel(x1, x2, engine="gpu"), jax.jit(lambda a, b: net.kernel(a, b, engine="gpu"))(x1, x2)
    assert jitted.engine == "gpu"
    np.testing.assert_allclose(jitted.ntk, eager.ntk, rtol=1e-6)


@pytest.mark.slow
def test_jax_programs_may_batch_it_and_give_one_set_of_inputs(rng):
    net = Sequential(Conv(1, 3, b_std=0.1), Relu(), GlobalAvgPool(), Dense(1), Relu(), Dense(1))
    x1 = jnp.asarray(rng.standard_normal((5, 6, 2)), jnp.float32)
    x2 = jnp.asarray(rng.standard_normal((3, 6, 2)), jnp.float32)
    eager = net.kernel(x1, x2, engine="gpu")
    batched = jax.jit(jax.vmap(lambda a: net.kernel(a, x2, engine="gpu").ntk))(x1[:, None])
    np.testing.assert_allclose(batched[:, 0], eager.ntk, rtol=1e-6)
    symmetric = jax.jit(lambda a: net.kernel(a, engine="gpu").ntk)(x1)
    np.testing.assert_allclose(symmetric, net.kernel(x1, engine="gpu").ntk, rtol=1e-6)


@pytest.mark.slow  # they are made for all engines alike: see `test_compute.py` and `test_add_an_engine.py`
@pytest.mark.parametrize("symmetric", [False, True], ids=["two", "one"])
def test_derivatives_are_those_of_the_reference(symmetric, rng):
    net = Sequential(Conv(1, 3, b_std=0.1), Erf(), Flatten(), Dense(1))
    x1, x2 = rng.standard_normal((2, 4, 2)), None if symmetric else rng.standard_normal((3, 4, 2))

    def total(a, engine):
        k = net.kernel(a, x2, engine=engine)
        return jnp.sum(jnp.sin(k.ntk) + k.nngp)

    with jax.enable_x64(True):
        fast, slow = (jax.jit(jax.grad(total), static_argnums=1)(x1, engine) for engine in ("gpu", "reference"))
    np.testing.assert_allclose(fast, slow, rtol=1e-12)


NETS = {
    "vectors": (Sequential(Dense(1), Relu(), Dense(1)), (3,), "no fibres to carry"),
    "quadrature": (Sequential(Conv(1, 1), Elementwise(lambda x: x + x**2), Flatten(), Dense(1)), (3, 1), "Quadrature"),
    "pairs": (Sequential(Conv(1, 3), AvgPool(2), Conv(1, 2), Flatten(), Dense(1)), (4, 4, 2), "along fibres only"),
    "large": (Sequential(Conv(1, 3), Relu(), Flatten(), Dense(1)), (200, 200, 1), "KiB of shared memory"),
}


@pytest.mark.parametrize("name", NETS)
def test_what_it_cannot_run_is_refused_with_the_reason(name):
    net, shape, reason = NETS[name]
    assert reason in gpu.obstacle(plan(net.lower(shape)[1]))
    with pytest.raises(InvalidArgumentError, match=f"'gpu', which cannot run this network: .*{reason}"):
        net.kernel(np.ones((2, *shape)), engine="gpu")


def test_where_jax_runs_on_a_gpu_it_is_the_default_and_says_what_it_leaves_to_the_reference(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(select, "_logged", set())
    assert kernels.engines.engine_name() == "gpu"
    assert select.engine_description() == "gpu (emulated on the CPU)"
    net, shape, reason = NETS["vectors"]
    chosen, note = choose(net.lower(shape)[1])
    assert chosen.name == "reference"
    assert note.startswith("reference engine in place of gpu: ")
    assert reason in note
    chosen, note = choose(Sequential(Conv(1, 3), Relu(), Flatten(), Dense(1)).lower((4, 1))[1])
    assert (chosen.name, note) == ("gpu", None)


@pytest.mark.parametrize("timed", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["counted", "timed"])
def test_its_cost_is_known_before_it_runs(timed, monkeypatch):
    if not timed:
        monkeypatch.setattr(cost, "layer_rate", lambda *args: calibration.Rate(1e-9, 1.0))
        monkeypatch.setattr(cost, "product_rate", lambda *args: calibration.Rate(1e-9, 1.0))
    net = Sequential(Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1), Relu(), Dense(1))
    found = net.kernel_cost((6, 5, 2), 4, engine="gpu")
    assert found.engine == "gpu"
    assert found.seconds > 0
    assert 0 < found.working_bytes < 1 << 20
    assert found.element_layers >= 10 * 30 * 30


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.delenv(gpu.EMULATE, raising=False)
    monkeypatch.setattr(availability, "_device", lambda: None)
    net = Sequential(Conv(1, 3), Relu(), Flatten(), Dense(1))
    with pytest.raises(InvalidArgumentError, match="engine is 'gpu', which is not available: JAX sees no CUDA device"):
        net.kernel(np.ones((2, 3, 1)), engine="gpu")


def test_index_tables_count_as_large_as_they_are(monkeypatch):
    program = trial.cases()["windows on a group, ReLU and Cos"]
    made = plan(program)
    tables = index_tables(*availability.unrolled(made.field, made.levels))
    assert len(tables) > 1
    size = sum(t.size for t in ({t.key: t.array for t in (made.labels, made.fibres)} | tables).values())
    for largest, refused in ((size, False), (size - 1, True)):
        monkeypatch.setattr(availability, "_LARGEST", largest)
        assert (GpuEngine().obstacle(program, "float32") is not None) == refused
