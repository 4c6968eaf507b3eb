"""Finite layers against sums written out, where symmetric windows and one draw of parameters would hide a mistake."""

import math

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.nn import Dense, Flatten, GroupConv, GroupPool, Lift, Sequential, SphereLift
from equitangents.normals import standard_normal

KEY = jax.random.key(5)
SO3 = et.groups.so3(3)


def run(net, x):
    params = net.init(KEY, x.shape[1:], dtype="float64")
    return np.asarray(net.apply(params, x)), [{k: np.asarray(v) for k, v in p.items()} for p in params if p]


@pytest.mark.parametrize("width", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_boxes_of_even_width_reach_further_to_the_high_side(width, rng):
    x = rng.standard_normal((2, 5, 5, 3))
    y, (params,) = run(Sequential(Lift(et.groups.translations((5, 5)), 4, (1, width))), x)
    low = (width - 1) // 2
    expected = sum(np.roll(x, low - u, axis=2) @ params["w"][u] for u in range(width)) / np.sqrt(3 * width)
    np.testing.assert_allclose(y, expected.reshape(2, 25, 4), rtol=1e-11, atol=1e-12)


def test_windows_of_many_elements_and_channels_are_the_same_sum(rng):
    group = et.groups.translations((6, 6))
    x = rng.standard_normal((2, 6, 6, 30))  # 36 · 30 numbers in a window: more than are multiplied at once
    y, (params,) = run(Sequential(Lift(group, 2)), x)
    first = sum(x[:, i, j] @ params["w"][6 * i + j] for i in range(6) for j in range(6)) / np.sqrt(36 * 30)
    np.testing.assert_allclose(y[:, group.identity], first, rtol=1e-10)


def test_rotations_of_a_window_are_numbered_after_reflections(rng):
    group = et.groups.wallpaper(rotations=4, reflections=True, shape=(3, 3))
    lift = Lift(group, 2)
    net = Sequential(lift, GroupConv(3, (1, 1), rotations=[(2, 1), (1, 0)]))
    x = rng.standard_normal((2, 3, 3, 2))
    params = net.init(KEY, x.shape[1:], dtype="float64")
    lifted = np.asarray(Sequential(lift).apply(params[:1], x))
    chosen, w = [group.index(2, 1, (0, 0)), group.index(1, 0, (0, 0))], np.asarray(params[1]["w"])
    for g in (0, 13, group.order - 1):
        expected = sum(lifted[:, group.compose(g, h)] @ w[s] for s, h in enumerate(chosen)) / np.sqrt(2 * 2)
        np.testing.assert_allclose(np.asarray(net.apply(params, x))[:, g], expected, rtol=1e-10)


def test_the_mean_over_rotations_keeps_degree_zero_alone(rng):
    x = rng.standard_normal((2, 9, 3))
    x[:, 0] = 0
    lifted, _ = run(Sequential(SphereLift(SO3, 4)), x)
    assert np.abs(lifted).max() > 0.1
    pooled, _ = run(Sequential(SphereLift(SO3, 4), GroupPool()), x)
    assert np.max(np.abs(pooled)) <= 1e-12


def test_flattened_rotations_have_the_mean_square_of_the_haar_measure(rng):
    """Which the coefficients have, too: Σ_mn c_m c_m' δ/(2l + 1) of each degree."""
    x = np.zeros((1, 9, 1))
    x[0, 6, 0] = 1.0  # degree 2
    flat, (params,) = run(Sequential(SphereLift(SO3, 4), Flatten()), x)
    filters = params["w"][4:, 0] / np.sqrt(4 * np.pi)
    ratio = (flat**2).sum() / SO3.order / (filters**2).sum()
    other = np.zeros((1, 9, 1))
    other[0, 4:, 0] = np.sqrt(0.2)  # as long, turned
    turned, _ = run(Sequential(SphereLift(SO3, 4), Flatten()), other)
    np.testing.assert_allclose((turned**2).sum(), (flat**2).sum(), rtol=1e-10)
    np.testing.assert_allclose(ratio, 1 / 5, rtol=1e-10)


def test_the_kernel_of_a_lift_is_the_mean_product_and_the_biases_variance(rng):
    """Of windows that hold the whole group, which all positions share: W² x·x′/n + b²."""
    x, other = rng.standard_normal((2, 4, 3, 3, 2))
    net = Sequential(Lift(et.groups.translations((3, 3)), 1, W_std=1.3, b_std=0.5), Flatten(), Dense(1))
    expected = 1.3**2 * np.einsum("nijc,mijc->nm", x, other) / 18 + 0.5**2
    np.testing.assert_allclose(net.kernel(x, other).nngp, expected, rtol=1e-12)


@pytest.mark.parametrize(("shape", "dtype"), [((3, 2, 1, 5), "float32"), ((4, 3), "float64")])
def test_numbers_drawn_as_a_vector_are_those_of_the_shape_to_the_last_bit(shape, dtype):
    with jax.enable_x64(dtype == "float64"):
        found = np.asarray(standard_normal(jax.random.key(3), shape, dtype))
        np.testing.assert_array_equal(found, np.asarray(jax.random.normal(jax.random.key(3), shape, dtype)))
    assert found.dtype == dtype


def test_weights_and_biases_of_a_layer_have_keys_of_their_own():
    key = jax.random.key(0)
    params = nn.Sequential(nn.Dense(4, b_std=0.1)).init(key, (3,))
    w_key, b_key = jax.random.split(jax.random.split(key, 1)[0])
    np.testing.assert_array_equal(params[0]["w"], jax.random.normal(w_key, (3, 4)))
    np.testing.assert_array_equal(params[0]["b"], jax.random.normal(b_key, (4,)))


X = np.linspace(-3, 3, 13)


@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (nn.Relu(), lambda u: max(u, 0.0)),
        (nn.LeakyRelu(0.2), lambda u: u if u > 0 else 0.2 * u),
        (nn.Abs(), abs),
        (nn.Erf(), math.erf),
        (nn.Gelu(), lambda u: u * (1 + math.erf(u / math.sqrt(2))) / 2),
        (nn.Sin(), math.sin),
        (nn.Cos(), math.cos),
    ],
    ids=["relu", "leaky", "abs", "erf", "gelu", "sin", "cos"],
)
def test_nonlinearities_are_their_formulas(layer, function):
    np.testing.assert_allclose(layer.function(X), [function(float(u)) for u in X], rtol=1e-5, atol=1e-6)
