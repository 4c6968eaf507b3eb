"""Tiles, precision, types, and derivatives of kernel computations."""

import importlib

import jax
import numpy as np
import pytest

from equitangents.errors import MemoryLimitError
from equitangents.kernels.engines.reference import tile
from equitangents.nn import Conv, Dense, Erf, Flatten, GlobalAvgPool, Relu, Sequential

run_module = importlib.import_module("equitangents.kernels.engines.reference.run")
NET = Sequential(Conv(2, 3, W_std=1.4, b_std=0.1), Relu(), Conv(2, 2), Erf(), GlobalAvgPool(), Dense(1))


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(tile, "TILE_ELEMENTS", 5 * 6)


@pytest.mark.slow
@pytest.mark.parametrize(("n1", "n2"), [(7, 5), (1, 3), (4, 2)])
def test_tiles_of_any_raggedness_give_one_matrix(n1, n2, rng, small_tiles):
    x1, x2 = rng.standard_normal((n1, 5, 2)), rng.standard_normal((n2, 5, 2))
    tiled = NET.kernel(x1, x2, engine="reference")
    for i in range(n1):
        single = NET.kernel(x1[i : i + 1], x2, engine="reference")
        np.testing.assert_allclose(tiled.ntk[i], single.ntk[0], rtol=1e-13)
        np.testing.assert_allclose(tiled.nngp[i], single.nngp[0], rtol=1e-13)


def test_only_half_of_the_tiles_run(rng, small_tiles, monkeypatch):
    ran = []
    run = run_module._compiled

    def counted(rule, *args):
        ran.extend([rule] * (rule is tile.tile))
        return run(rule, *args)

    monkeypatch.setattr(run_module, "_compiled", counted)
    x, net = rng.standard_normal((8, 5, 2)), Sequential(Conv(2, 3), GlobalAvgPool())
    net.kernel(x, engine="reference")
    half = len(ran)
    net.kernel(x, x, engine="reference")
    assert half == 4 * 5 // 2
    assert len(ran) - half >= 4 * 4 // 2


def test_whole_numbers_are_read_as_double_precision():
    assert Sequential(Dense(1)).kernel(np.array([[1, 2], [3, 4]])).nngp.dtype == np.float64


@pytest.mark.slow
def test_derivatives_are_those_of_finite_differences(rng, small_tiles):
    x1, x2 = rng.standard_normal((3, 5, 2)), rng.standard_normal((2, 5, 2))
    weights, direction = rng.standard_normal((3, 2)), rng.standard_normal(x1.shape)

    net = Sequential(Conv(2, 3, W_std=1.4, b_std=0.1), Erf(), GlobalAvgPool(), Dense(1))

    def total(x):
        k = net.kernel(x, x2)
        return (weights * (k.ntk + 2 * k.nngp)).sum()

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(total))(x1)
        _, forward = jax.jit(lambda x, v: jax.jvp(total, (x,), (v,)))(x1, direction)
    step = 1e-5
    difference = (total(x1 + step * direction) - total(x1 - step * direction)) / (2 * step)
    np.testing.assert_allclose((np.asarray(gradient) * direction).sum(), difference, rtol=1e-7)
    np.testing.assert_allclose(float(forward), difference, rtol=1e-7)


def test_leading_layers_without_weights_act_on_the_input(rng):
    x = rng.standard_normal((4, 3, 3, 2))
    flat = Sequential(Flatten(), Dense(8, b_std=0.3), Relu(), Dense(1)).kernel(x)
    vector = Sequential(Dense(8, b_std=0.3), Relu(), Dense(1)).kernel(x.reshape(4, -1))
    np.testing.assert_allclose(flat.ntk, vector.ntk, rtol=1e-14)
    rectified = Sequential(Relu(), Flatten(), Dense(8), Relu(), Dense(1)).kernel(x)
    expected = Sequential(Dense(8), Relu(), Dense(1)).kernel(np.maximum(x, 0).reshape(4, -1))
    np.testing.assert_allclose(rectified.ntk, expected.ntk, rtol=1e-14)


def test_pairs_too_large_for_memory_are_refused_with_a_remedy():
    net = Sequential(Conv(1, 3, padding="zero"), Relu(), Conv(1, 3), Relu(), GlobalAvgPool(), Dense(1))
    with pytest.raises(MemoryLimitError, match="strided"):
        net.kernel(np.zeros((1, 128, 128, 1)))
