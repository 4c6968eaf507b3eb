"""Finite layers against literal sums."""

import itertools

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.nn import (
    AvgPool,
    Conv,
    Dense,
    Flatten,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    Lift,
    LocallyConnected,
    Relu,
    Residual,
    Sequential,
)

KEY = jax.random.key(3)


def outputs(layer, x, dtype="float64"):
    net = Sequential(layer)
    params = net.init(KEY, x.shape[1:], dtype=dtype)
    return applied(net, params, x), {k: np.asarray(v) for k, v in params[0].items()} if params[0] else {}


def applied(net, params, x):
    """As one program, which is compiled faster than its parts."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(net.apply)(params, x))


@pytest.mark.parametrize(
    ("shape", "window", "stride", "padding"),
    [
        ((5,), (2,), (1,), "zero"),
        ((6, 5), (3, 2), (2, 1), "circular"),
        ((6, 5), (4, 3), (1, 3), "zero"),
        ((5, 6), (2, 3), (2, 2), "valid"),
        pytest.param((3, 4, 2), (2, 3, 1), (1, 2, 1), "circular", marks=pytest.mark.slow),
    ],
)
def test_convolution_is_the_sum_over_its_window(shape, window, stride, padding, rng):
    x = rng.standard_normal((2, *shape, 3))
    y, params = outputs(Conv(4, window, stride, padding, W_std=1.3, b_std=0.7), x)
    w = params["w"].reshape((*window, 3, 4)) * 1.3 / np.sqrt(3 * np.prod(window))
    if padding == "valid":
        out, low = [(n - w) // s + 1 for n, w, s in zip(shape, window, stride, strict=True)], [0] * len(shape)
    else:
        out = [-(-n // s) for n, s in zip(shape, stride, strict=True)]
        low = [max((o - 1) * s + w - n, 0) // 2 for o, s, w, n in zip(out, stride, window, shape, strict=True)]
    assert y.shape == (2, *out, 4)
    for p in itertools.product(*map(range, out)):
        total = np.zeros((2, 4))
        for u in itertools.product(*map(range, window)):
            q = [s * i - a + j for s, i, a, j in zip(stride, p, low, u, strict=True)]
            if padding == "circular":
                q = [i % n for i, n in zip(q, shape, strict=True)]
            if all(0 <= i < n for i, n in zip(q, shape, strict=True)):
                total += x[(slice(None), *q)] @ w[u]
        np.testing.assert_allclose(y[(slice(None), *p)], total + 0.7 * params["b"], rtol=1e-12, atol=1e-12)


def test_local_connection_has_its_own_weights_at_every_position(rng):
    x = rng.standard_normal((3, 4, 2))
    y, params = outputs(LocallyConnected(5, (2,), padding="zero", W_std=0.9, b_std=0.4), x)
    for p in range(4):
        seen = np.concatenate([x[:, p + u] if p + u < 4 else np.zeros((3, 2)) for u in range(2)], axis=1)
        expected = seen @ params["w"][p] * 0.9 / 2.0 + 0.4 * params["b"][p]
        np.testing.assert_allclose(y[:, p], expected, rtol=1e-12)


def test_pooling_means_and_flattening(rng):
    x = rng.standard_normal((2, 5, 4, 3))
    blocks, _ = outputs(AvgPool((2, 3)), x)
    assert blocks.shape == (2, 2, 1, 3)
    np.testing.assert_allclose(blocks[:, 1, 0], x[:, 2:4, :3].mean(axis=(1, 2)), rtol=1e-6)
    np.testing.assert_allclose(outputs(GlobalAvgPool(), x)[0], x.mean(axis=(1, 2)), rtol=1e-6)
    np.testing.assert_allclose(outputs(Flatten(), x)[0], x.reshape(2, -1), rtol=1e-6)


def test_lift_and_group_convolution_are_sums_over_the_group(rng):
    S3 = et.groups.symmetric(3)
    table = np.asarray(S3.table)
    x = rng.standard_normal((2, 6, 3))
    action = et.actions.permutations(S3, table)
    profile = np.array([1.0, 2.0, 3.0])
    y, params = outputs(Lift(action, 4, window=[0, 2, 5], weights=profile, W_std=1.2), x)
    for g in range(6):
        total = sum(
            np.sqrt(v) * x[:, table[g, p]] @ w
            for p, v, w in zip([0, 2, 5], profile / profile.sum(), params["w"], strict=True)
        )
        np.testing.assert_allclose(y[:, g], total * 1.2 / np.sqrt(3), rtol=1e-12)

    net = Sequential(Lift(action, 4), GroupConv(5, window=[1, 4], W_std=0.8, b_std=0.3))
    params = net.init(KEY, (6, 3), dtype="float64")
    lifted = applied(Sequential(Lift(action, 4)), params[:1], x)
    w, b = np.asarray(params[1]["w"]), np.asarray(params[1]["b"])
    z = applied(net, params, x)
    for g in range(6):
        total = sum(lifted[:, S3.compose(g, h)] @ w[s] for s, h in enumerate([1, 4]))
        np.testing.assert_allclose(z[:, g], total * 0.8 / np.sqrt(4 * 2) + 0.3 * b, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("reflections", [pytest.param(False, marks=pytest.mark.slow), True])
def test_finite_group_convolutional_networks_are_invariant(reflections, rng):
    group = et.groups.wallpaper(rotations=4, reflections=reflections, shape=(5, 5))
    net = Sequential(Lift(group, 6, (3, 3)), Relu(), GroupConv(6, (2, 3)), Relu(), GroupPool(), Dense(2))
    params = net.init(KEY, (5, 5, 2), dtype="float64")
    x = rng.standard_normal((2, 5, 5, 2))
    reference = np.asarray(net.apply(params, x))
    for g in (1, 30, group.order - 1):
        moved = et.actions.grid(group)(g, x)
        assert np.abs(moved - x).max() > 0.1
        np.testing.assert_allclose(np.asarray(net.apply(params, moved)), reference, rtol=1e-10)


def test_pooling_over_cosets_keeps_the_network_equivariant(rng):
    D4 = et.groups.dihedral(4)
    action = et.actions.permutations(D4, D4.table)
    subgroup = D4.subgroup([D4.identity, next(g for g in range(8) if g and D4.compose(g, g) == D4.identity)])
    net = Sequential(Lift(action, 5), Relu(), GroupPool(subgroup))
    params = net.init(KEY, (8, 2), dtype="float64")
    x = rng.standard_normal((2, 8, 2))
    y = np.asarray(net.apply(params, x))
    cosets = subgroup.left_cosets
    for g in range(8):
        moved = np.asarray(net.apply(params, action(g, x)))
        inverse = D4.inverse(g)
        for element in range(8):
            expected = y[:, cosets[D4.compose(inverse, element)]]
            np.testing.assert_allclose(moved[:, cosets[element]], expected, rtol=1e-10)


def test_residual_adds_its_input(rng):
    x = rng.standard_normal((3, 4))
    net = Sequential(Residual(Dense(4), Relu()))
    params = net.init(KEY, (4,), dtype="float64")
    inner = np.asarray(Sequential(Dense(4), Relu()).apply(params[0], x))
    np.testing.assert_allclose(np.asarray(net.apply(params, x)), x + inner, rtol=1e-12)


@pytest.mark.slow
def test_parameters_depend_on_the_key_alone_and_come_in_the_asked_precision():
    net = Sequential(Conv(3, (3, 3)), Relu(), Flatten(), Dense(2, b_std=0.1))
    first, again = (net.init(jax.random.key(7), (4, 4, 1)) for _ in range(2))
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_array_equal(a, b)
    double = net.init(jax.random.key(7), (4, 4, 1), dtype="float64")
    assert {leaf.dtype for leaf in jax.tree.leaves(double)} == {np.dtype("float64")}
    assert net.output_shape((4, 4, 1)) == (2,)


@pytest.mark.slow
def test_members_of_an_ensemble_run_side_by_side(rng):
    net = Sequential(Conv(3, (3, 3)), Relu(), GlobalAvgPool(), Dense(2))
    keys = jax.random.split(KEY, 3)
    members = jax.jit(jax.vmap(lambda key: net.init(key, (4, 4, 1))))(keys)
    x = rng.standard_normal((5, 4, 4, 1)).astype(np.float32)
    together = jax.jit(jax.vmap(net.apply, in_axes=(0, None)))(members, x)
    one = jax.jit(lambda key: net.apply(net.init(key, (4, 4, 1)), x))
    for i in range(3):
        alone = one(keys[i])
        np.testing.assert_allclose(together[i], alone, rtol=2e-5, atol=1e-6)
