"""Kernels of finite networks, and their means over random networks."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import EquitangentsError
from equitangents.kernels.tangent import plan, tangent_kernel
from equitangents.nn import Conv, Dense, Flatten, GroupConv, GroupPool, Lift, Relu, Sequential


def test_a_linear_network_has_the_kernel_of_its_inputs(rng):
    x1, x2 = rng.standard_normal((4, 3)), rng.standard_normal((2, 3))
    net = Sequential(Dense(5, W_std=1.5, b_std=0.5))
    params = net.init(jax.random.key(0), (3,), dtype="float64")
    expected = 1.5**2 * x1 @ x2.T / 3 + 0.25
    np.testing.assert_allclose(et.kernels.empirical(net, params, x1, x2), expected, rtol=1e-12)
    with jax.enable_x64(True):
        full = tangent_kernel(net.apply, params, x1, x2, "full")
    np.testing.assert_allclose(full, expected[..., None, None] * np.eye(5), atol=1e-12)


def test_tiles_of_inputs_do_not_change_the_empirical_kernel(rng, monkeypatch):
    import importlib

    net = Sequential(Dense(4), Relu(), Dense(1))
    params = net.init(jax.random.key(2), (3,), dtype="float64")
    x = rng.standard_normal((5, 3))
    whole = et.kernels.empirical(net, params, x)
    monkeypatch.setattr(importlib.import_module("equitangents.kernels.tangent"), "_MEMORY", 600)
    np.testing.assert_allclose(et.kernels.empirical(net, params, x), whole, rtol=1e-12)


def convolutional():
    return Sequential(Conv(3, 2), Relu(), Flatten(), Dense(2)), (4, 1)


def group_convolutional():
    p4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(2, 2))
    return Sequential(Lift(p4, 2, window=(2, 2)), Relu(), GroupConv(2, window=(2, 2)), GroupPool(), Dense(2)), (2, 2, 1)


@pytest.mark.parametrize("made", [convolutional, pytest.param(group_convolutional, marks=pytest.mark.slow)])
def test_the_empirical_kernel_is_that_of_every_way_and_of_pairs_a_row_at_a_time(made, rng, monkeypatch):
    net, shape = made()
    params, x = net.init(jax.random.key(2), shape, dtype="float64"), rng.standard_normal((3, *shape))
    found = {"empirical": et.kernels.empirical(net, params, x)}
    with jax.enable_x64(True):
        for way in ("jacobians", "structured", "vectors"):
            found[way] = jax.jit(lambda p, x, way=way: tangent_kernel(net.apply, p, x, None, "mean", way))(params, x)
        monkeypatch.setattr("equitangents.kernels.tangent._PAIRED", 1)
        rows = jax.jit(lambda p, x: tangent_kernel(net.apply, p, x, x, "mean", "structured"))
        assert "while" in str(jax.make_jaxpr(rows)(params, x)) or "scan" in str(jax.make_jaxpr(rows)(params, x))
        found["a row at a time"] = rows(params, x)
    for way, kernel in found.items():
        np.testing.assert_allclose(kernel, found["jacobians"], rtol=1e-12, err_msg=way)


def test_what_does_not_fit_is_refused_and_a_wide_network_takes_a_way_that_fits(monkeypatch):
    wide = Sequential(Dense(512), Relu(), Dense(512), Relu(), Dense(10))
    shapes = jax.eval_shape(lambda key: wide.init(key, (64,), dtype="float32"), jax.random.key(0))
    assert plan(wide, shapes, (64,), "mean").method == "structured"
    monkeypatch.setattr("equitangents.kernels.tangent.HELD", 1000)
    assert plan(wide, shapes, (64,), "full").method == "vectors"
    monkeypatch.setattr("equitangents.memory.process_memory", lambda: 10**6)
    with pytest.raises(EquitangentsError, match="compute fewer inputs at a time, or a narrower network"):
        et.kernels.empirical(wide, wide.init(jax.random.key(0), (64,)), np.ones((2000, 64)))


def test_outputs_on_positions_have_no_matrix_of_kernels(rng):
    net = Sequential(Conv(3, 2), Relu())
    params = net.init(jax.random.key(0), (4, 1))
    with pytest.raises(EquitangentsError, match=r"net gives shape .*4, 3\); expected \(N, outputs\)"):
        et.kernels.empirical(net, params, rng.standard_normal((2, 4, 1)))


def test_monte_carlo_is_the_mean_over_networks_with_its_standard_error(rng):
    net = Sequential(Dense(64, W_std=1.3), Relu(), Dense(2))
    x = rng.standard_normal((3, 4))
    estimate = et.kernels.monte_carlo(net, x, key=jax.random.key(0), samples=40)
    singles = []
    for i in range(40):
        params = net.init(jax.random.fold_in(jax.random.key(0), i), (4,))
        y = np.asarray(net.apply(params, x), np.float64)
        singles.append(y @ y.T / 2)
    np.testing.assert_allclose(estimate.nngp, np.mean(singles, axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        estimate.nngp_std_error, np.std(singles, axis=0, ddof=1) / np.sqrt(40), rtol=1e-3, atol=1e-6
    )
    assert estimate.samples == 40
    assert (np.abs(estimate.ntk - net.kernel(x).ntk) < 5 * estimate.ntk_std_error).all()


def test_one_network_gives_no_standard_error():
    with pytest.raises(EquitangentsError, match="samples is 1"):
        et.kernels.monte_carlo(Sequential(Dense(1)), np.ones((2, 3)), key=jax.random.key(0), samples=1)


def test_networks_without_parameters_have_no_tangent_kernel():
    net = Sequential(Flatten())
    with pytest.raises(EquitangentsError, match=r"params is .*; expected"):
        et.kernels.empirical(net, net.init(jax.random.key(0), (2, 2, 1)), np.ones((2, 2, 2, 1)))


NET = et.nn.Sequential(et.nn.Dense(3), et.nn.Erf(), et.nn.Dense(3), et.nn.Erf(), et.nn.Dense(2))


def test_the_first_output_is_that_of_the_first_input(rng):
    x1, x2 = rng.normal(size=(2, 4)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    params, jacobian = NET.init(jax.random.key(0), (4,)), jax.jit(jax.jacrev(NET.apply))
    a, b = (
        np.concatenate([np.asarray(p).reshape(len(x), 2, -1) for p in jax.tree.leaves(jacobian(params, x))], 2)
        for x in (x1, x2)
    )
    expected = np.einsum("iou,jpu->ijop", a, b)
    assert np.abs(expected - expected.swapaxes(2, 3)).max() > 0.01
    np.testing.assert_allclose(tangent_kernel(NET.apply, params, x1, x2, "full"), expected, rtol=1e-4, atol=1e-5)
