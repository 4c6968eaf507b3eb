"""Kernels of inputs of any norm, and of any two norms: as precise as those of inputs alike."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents import nn
from equitangents.errors import NotFiniteError
from kernels.comparison import TOLERANCES, assert_within, largest
from kernels.test_cpu_engine import MORE
from oracles import precise_kernels

ENGINES = ["reference", "cpu"]
FASTEST = [pytest.param("reference", marks=pytest.mark.slow), "cpu"]  # the reference engine compiles each
FLOATS = [np.float32, np.float64]
PHI = {"erf": nn.Erf(), 0.0: nn.Relu(), 0.2: nn.LeakyRelu(0.2), -1.0: nn.Abs()}
RATIOS = [1.0, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12, 1e-16]


def every(names, *values, usual):
    """Parametrize `names` by all combinations of `values`; those that are not `usual` are slow."""
    cases = itertools.product(*values)
    marked = [pytest.param(*case, marks=() if usual(*case) else pytest.mark.slow) for case in cases]
    return pytest.mark.parametrize(names, marked)


@pytest.fixture(autouse=True)
def digits(monkeypatch):
    monkeypatch.setattr(precise_kernels, "DIGITS", 170)
    precise_kernels.pi.cache_clear()
    yield
    precise_kernels.pi.cache_clear()


def dense(*layers, last=(1.0, 0.0)):
    """(network, the oracle's layers) of (W_std, b_std, nonlinearity), and a last layer."""
    made = [layer for W, b, phi in layers for layer in (nn.Dense(1, W_std=W, b_std=b), PHI[phi])]
    listed = [layer for W, b, phi in layers for layer in (("dense", W, b), ("phi", phi))]
    return nn.Sequential(*made, nn.Dense(1, W_std=last[0], b_std=last[1])), [*listed, ("dense", *last)]


def assert_precise(net, layers, x1, x2, engine):
    """Every entry is that of the oracle, in units of the oracle's own kernels of the two inputs."""
    found = net.kernel(x1, x2, engine=engine)
    assert (found.engine, found.ntk.dtype) == (engine, x1.dtype)
    exact = np.array([[precise_kernels.kernels(layers, a, b) for b in x2] for a in x1])
    own = [np.array([precise_kernels.kernels(layers, a, a) for a in x]) for x in (x1, x2)]
    assert_within(TOLERANCES[x1.dtype], found, exact, *own)


@st.composite
def cases(draw):
    """(network, layers, inputs, others): random layers, biases, scales and ratios of norms; one parallel, one zero."""
    count = draw(st.integers(1, 3))
    phis = draw(st.lists(st.sampled_from(list(PHI)), min_size=count, max_size=count))
    *biases, last = draw(st.lists(st.sampled_from([0.0, 0.1]), min_size=count + 1, max_size=count + 1))
    sizes = (draw(st.sampled_from([0.7, 1.4])) for _ in phis)
    net, layers = dense(*zip(sizes, biases, phis, strict=True), last=(1.2, last))
    dtype = draw(st.sampled_from(FLOATS))
    x = np.random.default_rng(draw(st.integers(0, 1000))).standard_normal((5, 8))
    x[3], x[4] = draw(st.sampled_from([1.0, -1.0])) * x[0], 0
    ratio = 10.0 ** draw(st.integers(-16, 16))
    scale = 10.0 ** draw(st.integers(-3, 3))
    return net, layers, (scale * x[:2]).astype(dtype), (scale * ratio * x[1:]).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@given(case=cases())
@settings(max_examples=100)
def test_kernels_are_precise_at_every_ratio_of_norms_at_length(engine, case):
    assert_precise(*case, engine)


@pytest.mark.parametrize(
    ("phi", "biases", "dtype", "engine"),
    [
        (0.0, (0.0, 0.0, 0.0), np.float32, "cpu"),
        ("erf", (0.1, 0.1, 0.1), np.float64, "cpu"),
        # Behind the first bias inputs of very different norm are alike.
        (0.0, (0.1, 0.0, 0.0), np.float64, "cpu"),
        ("erf", (0.0, 0.1, 0.0), np.float32, "cpu"),
        (0.0, (0.0, 0.0, 0.1), np.float64, "cpu"),
        (0.0, (0.1, 0.0, 0.0), np.float32, "reference"),
    ],
)
def test_kernels_of_many_norms_at_once_are_precise(phi, biases, dtype, engine, rng):
    """Also of equal, opposite and similar directions, and of zero."""
    net, layers = dense((1.4, biases[0], phi), (1.4, biases[1], phi), last=(1.0, biases[2]))
    x = rng.standard_normal((2, 8))
    directions = [x[0], x[1], -x[0], x[0] + 1e-3 * x[1]]
    y = np.array([ratio * v for ratio, v in zip(RATIOS, 2 * directions, strict=True)] + [0 * x[0]]).astype(dtype)
    assert_precise(net, layers, y[:3], y, engine)


@pytest.mark.slow
@pytest.mark.parametrize("phi", [nn.LayerNorm(), *MORE], ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_every_nonlinearity_between_inputs_of_any_norms(phi, bias, rng):
    """Against the reference engine, in units of its kernels of the two inputs."""
    net = nn.Sequential(nn.Dense(1, b_std=bias), phi, nn.Dense(1, b_std=bias), phi, nn.Dense(1))
    x = rng.standard_normal((2, 6))
    y = np.array([1, 1e-3, 1e-7, 1e-2, 1])[:, None] * rng.standard_normal((5, 6))
    y[3], y[4] = -0.01 * x[0], x[1] * (1 + 1e-9)
    found, exact = (net.kernel(x, y, engine=engine) for engine in ("cpu", "reference"))
    own = [net.kernel_diagonal(v, engine="reference") for v in (x, y)]
    for name in ("nngp", "ntk"):
        assert (
            largest(getattr(found, name), getattr(exact, name), *(getattr(k, name) for k in own)) <= TOLERANCES[x.dtype]
        )


@every(
    "padding, readout, dtype, engine",
    ["zero", "circular"],
    [nn.Flatten, nn.GlobalAvgPool],
    FLOATS,
    ENGINES,
    usual=lambda padding, readout, dtype, engine: (padding == "zero") == (readout is nn.Flatten) and engine == "cpu",
)
def test_without_biases_kernels_follow_the_scale_exactly(readout, padding, dtype, engine, rng):
    """K(2^a x, 2^b x') = 2^(a + b) K(x, x')."""
    net = nn.Sequential(nn.Conv(1, 3, padding=padding), nn.Relu(), nn.Conv(1, 2, padding=padding), nn.Abs(), readout())
    net = nn.Sequential(*net.layers, nn.Dense(1), nn.Relu(), nn.Dense(1))
    x, y = (rng.standard_normal((3, 5, 4, 2)).astype(dtype) for _ in range(2))
    powers = (
        [(-40, -40), (50, 50), (0, -50), (-60, 40)] if dtype == np.float32 else [(-400, -400), (450, 450), (0, -53)]
    )
    for both in (True, False):
        plain = net.kernel(x, None if both else y, engine=engine)
        for a, b in powers:
            if both and a != b:
                continue
            moved = net.kernel(np.ldexp(x, a), None if both else np.ldexp(y, b), engine=engine)
            for found, expected in ((moved.nngp, plain.nngp), (moved.ntk, plain.ntk)):
                assert np.isfinite(found).all()
                np.testing.assert_allclose(
                    np.ldexp(found.astype(float), -a - b), expected, rtol=1e-5 if dtype == np.float32 else 1e-12
                )


@pytest.mark.slow
@pytest.mark.parametrize("engine", FASTEST)
def test_pixels_of_very_different_brightness_in_one_image(engine, rng):
    """Windows join them: single precision against double, both of the same rounded numbers."""
    net = nn.Sequential(nn.Conv(1, 3, W_std=1.4), nn.Relu(), nn.Conv(1, 3), nn.Relu(), nn.Flatten(), nn.Dense(1))
    x = (10.0 ** rng.uniform(-8, 0, (6, 9, 9, 3)) * rng.standard_normal((6, 9, 9, 3))).astype(np.float32)
    x *= np.float32(10.0) ** np.arange(0, -6, -1, dtype=np.float32)[:, None, None, None]
    found, exact = net.kernel(x, engine=engine), net.kernel(x.astype(float), engine="reference")
    for name in ("nngp", "ntk"):
        own = np.diag(getattr(exact, name))
        assert largest(getattr(found, name), getattr(exact, name), own, own) <= 2e-6


@pytest.mark.quick(1)
@every(
    "make, traced, dtype, engine",
    [nn.Relu, nn.Erf, nn.Gelu, nn.Sin],
    [False, True],
    FLOATS,
    ENGINES,
    # the reference engine compiles each, and takes pairs with zeros from the other
    usual=lambda make, traced, dtype, engine: make is nn.Relu and engine == "cpu" and not traced,
)
def test_an_input_of_zeros_without_biases_gives_exactly_zero(make, traced, dtype, engine, rng):
    x = rng.standard_normal((5, 4, 2)).astype(dtype)
    x[2] = 0
    x[4] *= dtype(1e-9)
    net = nn.Sequential(nn.Conv(1, 3), make(), nn.Flatten(), nn.Dense(1), make(), nn.Dense(1))
    if traced:
        with et.precision.scope(dtype):
            assert_zeros(jax.jit(lambda a: net.kernel(a, engine=engine))(jnp.asarray(x)))
    else:
        assert_zeros(net.kernel(x, engine=engine))
        assert_zeros(net.kernel(x, x[::-1].copy(), engine=engine))


def assert_zeros(kernels):
    """Zero at input 2 and there alone."""
    for values in map(np.asarray, (kernels.nngp, kernels.ntk)):
        assert (values[2] == 0).all()
        assert (values[:, 2] == 0).all()
        assert (np.diag(values)[[0, 1, 3]] != 0).all()


@pytest.mark.quick(1)
@every("dtype, engine", FLOATS, ENGINES, usual=lambda dtype, engine: (dtype, engine) != (np.float32, "reference"))
def test_erf_saturates_at_large_inputs(dtype, engine, rng):
    net, layers = dense((1.0, 0.1, "erf"), (1.0, 0.1, "erf"))
    x = (1e30 * rng.standard_normal((3, 8))).astype(dtype)
    assert_precise(net, layers, x, x, engine)
    assert np.all(np.abs(net.kernel(x, engine=engine).nngp) <= 1)


@pytest.mark.parametrize("engine", FASTEST)
def test_what_no_number_can_hold_is_an_error_and_lost_digits_are_told(engine, caplog, rng):
    net, _ = dense((1.4, 0.0, 0.0))
    x = rng.standard_normal((3, 8)).astype(np.float32)
    with pytest.raises(NotFiniteError, match="largest number of float32"):
        net.kernel(np.float32(1e25) * x, engine=engine)
    assert np.isfinite(net.kernel(1e25 * x.astype(float), engine=engine).ntk).all()
    with pytest.raises(NotFiniteError, match="largest number of float64"):
        net.kernel(1e160 * x.astype(float), engine=engine)
    k = net.kernel(np.float32(1e-21) * x, engine=engine)
    assert any("lost digits" in note for note in k.notes)
    assert any("lost digits" in record.message for record in caplog.records)
    erf, _ = dense((1.4, 0.0, "erf"))
    with pytest.raises(NotFiniteError, match="range"):
        erf.kernel(1e100 * x.astype(float), engine=engine)


@every("dtype, engine", FLOATS, ENGINES, usual=lambda dtype, engine: engine == "cpu")
@pytest.mark.filterwarnings("error")
def test_inputs_of_zeros_are_standardised_by_eps_alone(dtype, engine):
    net = lambda **eps: nn.Sequential(nn.Dense(3), nn.LayerNorm(**eps), nn.Dense(1))
    zeros = np.zeros((3, 4), dtype)
    assert not net().kernel(zeros, engine=engine).ntk.any()
    with pytest.raises(NotFiniteError, match=r"none larger than 0.0e\+00, are not numbers .*eps=0") as error:
        net(eps=0).kernel(zeros, engine=engine)
    assert "exceed" not in str(error.value)


@pytest.mark.quick(1)
@every(
    "phi, bias, engine",
    [0.0, "erf"],
    [0.0, 0.1],
    ENGINES,
    usual=lambda phi, bias, engine: (phi, bias, engine) in {("erf", 0.0, "reference"), (0.0, 0.1, "cpu")},
)
def test_traced_kernels_are_precise_at_every_ratio_of_norms(phi, bias, engine, rng):
    net, layers = dense((1.4, bias, phi), (1.4, bias, phi), last=(1.0, bias))
    x = rng.standard_normal((3, 8)).astype(np.float32)
    run = jax.jit(lambda a, b: net.kernel(a, b, engine=engine))
    for ratio in (1.0, 1e-4, 1e-12):
        y = np.float32(ratio) * rng.standard_normal((2, 8)).astype(np.float32)
        found = run(x, y)
        exact = np.array([[precise_kernels.kernels(layers, a, b) for b in y] for a in x])
        own = [np.array([precise_kernels.kernels(layers, a, a) for a in v])[:, 1] for v in (x, y)]
        assert largest(found.ntk, exact[..., 1], *own) <= 2e-6


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_derivatives_of_traced_kernels_do_not_feel_the_powers_of_two(depth, rng):
    net, _ = dense(*[(1.4, 0.0, 0.0)] * depth)
    with jax.enable_x64(True):
        x, y = (jnp.asarray(rng.standard_normal((3, 8))) for _ in range(2))
        slope = jax.jit(jax.grad(lambda a, b: net.kernel(a, b, engine="reference").ntk.sum()))
        for ratio in (2.0**-10, 2.0**-100):
            np.testing.assert_allclose(slope(x, ratio * y) / ratio, slope(x, y), rtol=1e-11, atol=1e-11)


@pytest.mark.quick(1)
@every(
    "make, bias, dtype, engine",
    [nn.Relu, nn.Erf],
    [0.0, 0.1],
    FLOATS,
    ENGINES,
    usual=lambda make, bias, dtype, engine: (make is nn.Relu) == (bias == 0.0) and engine == "cpu",
)
def test_rotations_are_precise_at_every_ratio_of_norms(make, bias, dtype, engine, rng):
    """Where a flattening readout makes the network one on plain vectors, and for means over a finite group."""
    phi = make()
    flat, pooled = (
        nn.Sequential(nn.SphereLift(et.groups.octahedral(), 4, W_std=1.4, b_std=bias), phi, readout, nn.Dense(1))
        for readout in (nn.Flatten(), nn.GroupPool())
    )
    mlp = nn.Sequential(nn.Dense(1, W_std=1.4, b_std=bias), phi, nn.Dense(1))
    c = (rng.standard_normal((4, 9, 1)) * np.sqrt(4 * np.pi) / 3).astype(dtype)
    turns = et.groups.octahedral().matrices
    for ratio in (1e-3, 1e-7, 1e-15):
        x, y = c[:2], dtype(ratio) * c[2:]
        a, b = (v.astype(float) for v in (x, y))
        plain = lambda v: v.reshape(len(v), -1) * np.sqrt(9 / (4 * np.pi))
        found, mean = flat.kernel(x, y, engine=engine), pooled.kernel(x, y, engine=engine)
        own = [np.diag(mlp.kernel(plain(v)).ntk) for v in (a, b)]
        assert largest(found.ntk, mlp.kernel(plain(a), plain(b)).ntk, *own) <= 4 * TOLERANCES[np.dtype(dtype)]
        terms = [mlp.kernel(plain(a), plain(et.sphere.rotate(b, R))).ntk for R in turns]
        assert largest(mean.ntk, np.mean(terms, axis=0), *own) <= 4 * TOLERANCES[np.dtype(dtype)]


@pytest.mark.parametrize("bias", [0.0, 0.1])
def test_single_precision_fits_predict_at_inputs_scaled_down(bias, rng):
    """Without biases the mean of ReLU networks follows the scale."""
    net, _ = dense((1.4, bias, 0.0), (1.4, bias, 0.0))
    x, y = rng.standard_normal((20, 8)).astype(np.float32), rng.standard_normal((20, 1)).astype(np.float32)
    test = rng.standard_normal((5, 8)).astype(np.float32)
    single = et.InfiniteEnsemble(net, ridge=1e-2).fit(x, y)
    double = et.InfiniteEnsemble(net, ridge=1e-2).fit(x.astype(float), y.astype(float))
    for scale in (1.0, 1e-4, 1e-8):
        small = np.float32(scale) * test
        found, exact = single.predict(small), double.predict(small.astype(float))
        assert np.max(np.abs(found - exact)) <= 3e-5 * np.max(np.abs(exact))
