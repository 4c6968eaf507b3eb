"""Orbit averages over translations by FFT are the literal means, also of near-equal and equal inputs."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.kernels import orbit_average, translations
from equitangents.kernels.engines.cpu import library
from equitangents.nn import AvgPool, Conv, Dense, Elementwise, Erf, Flatten, Gelu, Relu, Residual, Sequential

WEIGHTS = {"W_std": 1.4, "b_std": 0.2}


FLAT = (Flatten(),)


def mlp(*hidden, first=FLAT):
    return Sequential(*first, *(l for phi in hidden for l in (Dense(1, **WEIGHTS), phi)), Dense(1, **WEIGHTS))


def literal(net, action, x):
    """(NNGP, NTK) of all inputs by a kernel for every element, in float64."""
    x = np.asarray(x, np.float64)
    found = [net.kernel(x, action(g, x)) for g in range(action.group.order)]
    return np.mean([k.nngp for k in found], axis=0), np.mean([k.ntk for k in found], axis=0)


def assert_literal(net, action, x1, x2=None, whole=None, tolerance=1e-12):
    """Against `literal` of all inputs, `whole` if it is known; tolerance: of float64."""
    got = orbit_average(net, action).kernel(x1, x2)
    assert any("by FFT" in note for note in got.notes)
    n, start = len(x1), 0 if x2 is None else len(x1)
    tolerance = 2e-6 if x1.dtype == np.float32 else tolerance
    whole = whole or literal(net, action, x1 if x2 is None else np.concatenate([x1, x2]))
    for values, expected in zip((got.nngp, got.ntk), whole, strict=True):
        assert values.dtype == x1.dtype
        own = np.diag(expected)
        error = np.abs(values - expected[:n, start:]) / np.sqrt(np.outer(own[:n], own[start:]))
        assert error.max() <= tolerance, f"off by {error.max():.1e}"
    return got


def difficult(rng, shape, dtype):
    """Images, their translations, scaled, shifted and nearly equal copies, and constant ones."""
    x = rng.standard_normal((3, *shape))
    axes = tuple(range(1, len(shape)))
    # In float32 D is good to rounding of the larger variance: very unequal ones would show the engine's rounding.
    far = 50 if dtype == "float64" else 0.5
    close = [x[:1] * (1 + 1e-9), x[:1] + 1e-6, np.roll(x[1:2], 1, axes), np.roll(x[1:2], 1, axes) + 1e-4 * x[2:]]
    return np.concatenate(
        [x, *close, -x[1:2], 3 * x[:1], 0 * x[:1] + 3, 0 * x[:1] + 3 + 1e-5 * x[:1], x[2:] + far]
    ).astype(dtype)


@st.composite
def problems(draw):
    d = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, {1: 9, 2: 5, 3: 3}[d])) for _ in range(d))
    channels = draw(st.integers(1, 3))
    action = et.actions.translations(shape)
    if d == 2 and draw(st.booleans()):
        rotations = draw(st.sampled_from([1, 2, 4] if shape[0] == shape[1] else [1, 2]))
        action = et.actions.grid(et.groups.wallpaper(rotations, draw(st.booleans()), shape))
    phis = draw(st.lists(st.sampled_from([Relu(), Erf(), Gelu()]), max_size=2))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    x = difficult(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), (*shape, channels), dtype)
    return mlp(*phis), action, x, draw(st.booleans())


@pytest.mark.slow
@given(problems())
@settings(max_examples=50)
def test_many_random_problems_are_literal_means(problem):
    check_random_problem(*problem)


def check_random_problem(net, action, x, symmetric):
    """Against the literal mean, of inputs with themselves or with others."""
    assert_literal(net, action, x if symmetric else x[:4], None if symmetric else x)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_reference_engine_gives_the_same(dtype, rng, monkeypatch):
    action, x = et.actions.translations((4, 3)), difficult(rng, (4, 3, 2), dtype)
    net = mlp(Relu(), Erf())
    assert assert_literal(net, action, x).engine == "cpu"
    whole = literal(net, action, np.concatenate([x[:2], x]))  # by the CPU engine, which compiles nothing
    monkeypatch.setattr(library, "why_unavailable", lambda: "it was not built")
    assert assert_literal(net, action, x[:2], x, whole).engine == "reference"


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("net", "tolerance"),
    [
        (mlp(Relu(), first=(Relu(), Flatten())), 1e-12),
        (Sequential(Flatten(), Dense(1, **WEIGHTS), Residual(Relu(), Dense(1)), Relu(), Dense(1)), 1e-12),
        (Sequential(Flatten(), Residual(Dense(12, **WEIGHTS)), Dense(1), Relu(), Dense(1)), 1e-12),
        pytest.param(mlp(Elementwise(jax.numpy.tanh)), 1e-6, marks=pytest.mark.slow),  # its own
    ],
    ids=["of a function", "residual", "residual of the input", "quadrature"],
)
def test_networks_of_several_kinds(net, tolerance, rng):
    x1, x2 = rng.standard_normal((3, 3, 2, 2)), rng.standard_normal((2, 3, 2, 2))
    assert_literal(net, et.actions.translations((3, 2)), x1, x2, tolerance=tolerance)


@pytest.mark.slow
def test_tiles_of_any_raggedness(rng, monkeypatch):
    monkeypatch.setattr(translations, "_TILE_ELEMENTS", 12 * 4)
    action, x = et.actions.translations((4, 3)), rng.standard_normal((5, 4, 3, 1))
    assert_literal(mlp(Relu()), action, x)
    assert_literal(mlp(Relu()), action, x[:3], x)
    monkeypatch.setattr(translations, "_DIRECT_NUMBERS", 1)
    assert_literal(mlp(Relu()), action, difficult(rng, (4, 3, 1), "float64"))


def test_symmetric_results_are_symmetric_and_arrays_are_the_callers(rng):
    average = orbit_average(mlp(Relu()), et.actions.grid(et.groups.wallpaper(4, True, (4, 4))))
    x = rng.standard_normal((5, 4, 4, 2)).astype(np.float32)
    k = average.kernel(x)
    np.testing.assert_array_equal(k.ntk, k.ntk.T)
    other = average.kernel(jax.numpy.asarray(x))
    assert isinstance(other.ntk, jax.Array)
    np.testing.assert_array_equal(np.asarray(other.ntk), k.ntk)


@pytest.mark.parametrize(
    ("net", "action"),
    [
        (Sequential(Conv(1, 3), Relu(), Flatten(), Dense(1)), et.actions.translations((4, 4))),
        (Sequential(AvgPool(2), Flatten(), Dense(1), Relu(), Dense(1)), et.actions.translations((4, 4))),
        (mlp(Relu()), et.actions.image_rotations(4)),
    ],
    ids=["convolution", "pooling first", "no translations"],
)
def test_other_averages_are_made_term_by_term(net, action, rng):
    average = orbit_average(net, action)
    x = rng.standard_normal((3, 4, 4, 1))
    found = average.kernel(x)
    assert not any("FFT" in note for note in found.notes)
    if found.notes == ("mean over one orbit",):
        np.testing.assert_allclose(found.ntk, literal(net, action, x)[1], rtol=1e-12)


def test_it_costs_what_it_counts():
    shape, action = (8, 8, 3), et.actions.translations((8, 8))
    cost = orbit_average(mlp(Relu(), Relu()), action).kernel_cost(shape, 10)
    assert (cost.pairs, cost.fibres, cost.element_layers) == (55, 64, 55 * 64 * 2)
    assert any("64 translations by FFT" in note for note in cost.notes)
    wallpaper = et.actions.grid(et.groups.wallpaper(4, False, (8, 8)))
    cost = orbit_average(mlp(Relu(), Relu()), wallpaper).kernel_cost(shape, 10)
    assert (cost.pairs, cost.element_layers) == (55 + 200, (55 + 200) * 64 * 2)  # identity, both quarters, half turn
    turns = orbit_average(mlp(Relu()), et.actions.image_rotations(4)).kernel_cost(shape, 10, 6)
    assert (turns.pairs, turns.multiply_adds) == (240, 240 * 192)
    upright = Sequential(Conv(1, (1, 2)), Relu(), Flatten(), Dense(1))
    both = orbit_average(upright, et.actions.image_rotations(4)).kernel_cost(shape, 10)
    assert both.element_layers == (4 * 55 + 6 * 100) * 64  # of each pair of elements one order
