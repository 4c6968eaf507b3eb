"""Laws that every kernel obeys: invariance, symmetry, positivity, and what floating point may not spoil."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from kernels.comparison import largest
from laws.networks import by_engines, check, got_pair, network, plane_group
from oracles import finite_groups, literal_kernels

n = et.nn


def gcnn(window=(3, 3), readout=None, phi=None, shape=(4, 4), reflections=False):
    group = et.groups.wallpaper(rotations=4, reflections=reflections, shape=shape)
    phi = phi or n.Relu()
    lift, conv = n.Lift(group, 3, window=window, W_std=1.4, b_std=0.1), n.GroupConv(3, window=window, W_std=1.3)
    return n.Sequential(lift, phi, conv, phi, readout or n.GroupPool(), n.Dense(1))


def cnn(*readout):
    first, second = n.Conv(3, (3, 3), W_std=1.4, b_std=0.1), n.Conv(3, (2, 2), padding="zero")
    return n.Sequential(first, n.Relu(), second, n.Relu(), *(readout or (n.Flatten(),)), n.Dense(1))


def mlp(depth=2, W=1.4, b=0.1):
    layers = [layer for _ in range(depth) for layer in (n.Dense(4, W_std=W, b_std=b), n.Relu())]
    return n.Sequential(*layers, n.Dense(1, W_std=W, b_std=b))


SLOW = pytest.mark.slow


def images(count, shape=(4, 4), channels=2, seed=0):
    return np.random.default_rng(seed).standard_normal((count, *shape, channels))


# Invariance --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reflections", [True, pytest.param(False, marks=SLOW)])
def test_group_networks_are_invariant(reflections):
    shape = (4, 4)
    _, table, grid = plane_group(4, int(reflections), shape)
    inverse = finite_groups.inverses(table)
    x1, x2 = images(2), images(2, seed=1)

    def move(g, f):
        return f.reshape(len(f), -1, 2)[:, grid[inverse[g]]].reshape(f.shape)

    pooled, flat = gcnn(reflections=reflections), gcnn(readout=n.Flatten(), reflections=reflections)
    for net, both in ((pooled, False), (flat, True)):
        for name in ("nngp", "ntk"):
            plain = np.asarray(getattr(net.kernel(x1, x2), name))
            for g in (1, 5, len(table) // 2 + 3, len(table) - 1):
                moved = np.asarray(getattr(net.kernel(move(g, x1), move(g, x2)), name))
                np.testing.assert_allclose(moved, plain, rtol=1e-12)
                alone = np.asarray(getattr(net.kernel(move(g, x1), x2), name))
                if not both:  # a pooled network sees no difference even if one argument alone is moved
                    np.testing.assert_allclose(alone, plain, rtol=1e-12)
                else:
                    assert np.abs(alone - plain).max() > 1e-3 * np.abs(plain).max()


# Precision -----------------------------------------------------------------------------------------------------

DIGITS = [(phi, readout) for phi in ("relu", "erf", "gelu", "abs", "cos") for readout in ("global_pool", "flatten")]


@by_engines("phi, readout", DIGITS, DIGITS, [])
def test_float32_keeps_its_digits(engine, phi, readout):
    first, second = ("conv", (3, 3), (1, 1), "circular", 1.4, 0.1), ("conv", (3, 2), (1, 1), "zero", 1.3, 0.1)
    layers = [first, ("phi", phi), second, ("phi", phi), (readout,), ("dense", 1.0, 0.1)]
    x = images(3).astype(np.float32)
    x = np.concatenate([x, x[:1] + np.float32(1e-3), x[:1] + np.float32(1e-6)])
    got = network(layers).kernel(x)
    for value, expected in zip(got_pair(got), literal_kernels.kernels(layers, x.astype(np.float64)), strict=True):
        assert value.dtype == np.float32
        assert largest(value, expected, np.diag(expected), np.diag(expected)) < 2e-6


# Zeros, gradients, compilation -----------------------------------------------------------------------------------


def _with_zeros():
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    x[0] = 0
    x[1, :2] = 0
    return x


ALL = ["relu", "leaky_relu", "abs", "erf", "gelu", "sin", "cos"]


@pytest.mark.quick(1)
@by_engines("phi", ALL, ALL, [])
def test_zero_inputs(engine, phi):
    phi = ("phi", phi, 0.1) if phi == "leaky_relu" else ("phi", phi)
    check([("conv", (3,), (1,), "zero", 1.2, 0.0), phi, ("global_pool",), ("dense", 1.0, 0.0)], _with_zeros())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "cnn", "gcnn", "pairs"])
def test_gradients_are_finite_even_at_equal_inputs(name):
    net, shape = {
        "mlp": (mlp(3), (4,)),
        "gcnn": (gcnn(shape=(2, 2), window=(1, 2)), (2, 2, 1)),
        "cnn": (cnn(), (2, 2, 1)),
        "pairs": (cnn(n.AvgPool((2, 1)), n.Conv(3, (1, 2)), n.Erf(), n.Flatten()), (2, 2, 1)),
    }[name]
    x = np.random.default_rng(1).standard_normal((2, *shape)).astype(np.float32)
    moved = x + 0.3 * np.random.default_rng(2).standard_normal(x.shape).astype(np.float32)

    def total(a, b):
        kernels = net.kernel(a, b)
        return kernels.nngp.sum() + kernels.ntk.sum()

    gradient = jax.jit(jax.grad(total, argnums=(0, 1)))
    for other in (moved, x, 0 * x):
        for part in gradient(jax.numpy.asarray(x), jax.numpy.asarray(other)):
            assert np.isfinite(part).all()
    direction = np.random.default_rng(3).standard_normal(x.shape)
    slope = float(np.vdot(gradient(jax.numpy.asarray(x), jax.numpy.asarray(moved))[0], direction))
    h = 1e-6
    up, down = (float(total(x.astype(np.float64) + s * h * direction, moved.astype(np.float64))) for s in (1, -1))
    assert slope == pytest.approx((up - down) / (2 * h), rel=1e-4)


@pytest.mark.parametrize("name", ["cnn", *(pytest.param(k, marks=SLOW) for k in ("mlp", "gcnn"))])
def test_compiled_and_uncompiled_agree(name):
    net, shape = {"mlp": (mlp(), (4,)), "gcnn": (gcnn(), (4, 4, 2)), "cnn": (cnn(), (4, 4, 2))}[name]
    x1, x2 = (np.random.default_rng(s).standard_normal((2, *shape)).astype(np.float32) for s in (0, 1))
    plain = net.kernel(x1, x2)
    compiled = jax.jit(net.kernel)(jax.numpy.asarray(x1), jax.numpy.asarray(x2))
    for a, b in zip(got_pair(plain), got_pair(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6)


def test_the_global_flag_is_untouched():
    before = jax.config.jax_enable_x64
    mlp().kernel(np.ones((2, 3)))
    assert jax.config.jax_enable_x64 == before
