"""Behaviours of triples, continued: axes that are joined, and layers with weights of their own at every position."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equitangents import stax

RNG = np.random.default_rng(9)
V = RNG.normal(size=(4, 3))
G = RNG.normal(size=(2, 4, 3, 2))


def _branches(**keywords):
    return stax.FanOut(2), stax.parallel(stax.Dense(8, b_std=0.2, **keywords), stax.Dense(4, **keywords))


def test_channels_are_joined_along_the_axis_that_they_have():
    named, last = (stax.serial(*_branches(), stax.FanInConcat(axis), stax.Dense(2)) for axis in (1, -1))
    assert np.array_equal(named.kernel_fn(V, None, "ntk"), last.kernel_fn(V, None, "ntk"))
    shape, params = named.init_fn(jax.random.key(0), V.shape)
    assert named.apply_fn(params, V).shape == shape == (4, 2)


@pytest.mark.slow
def test_channels_are_last_where_the_grid_is_gone():
    gone = stax.Conv(8, (2, 2), dimension_numbers=("NCHW", "HWIO", "NCHW")), stax.GlobalAvgPool(channel_axis=1)
    turned = stax.serial(*gone, *_branches(), stax.FanInConcat(-1), stax.Dense(2))
    usual = stax.serial(stax.Conv(8, (2, 2)), stax.GlobalAvgPool(), *_branches(), stax.FanInConcat(-1), stax.Dense(2))
    found = turned.kernel_fn(np.moveaxis(G, -1, 1), None, "ntk")
    assert np.max(np.abs(found - usual.kernel_fn(G, None, "ntk"))) <= 1e-12


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_positions_and_inputs_are_not_joined(axis):
    with pytest.raises(NotImplementedError, match="channels"):
        stax.serial(*_branches(), stax.FanInConcat(axis), stax.Dense(2)).kernel_fn(G)


@pytest.mark.parametrize("axis", [1, -1])
def test_channels_that_are_not_last_are_not_joined(axis):
    with pytest.raises(NotImplementedError, match="axis 1"):
        stax.serial(*_branches(channel_axis=1), stax.FanInConcat(axis))


@settings(max_examples=10)
@given(a=st.floats(-2, 2), b=st.floats(-2, 2))
@example(a=0.5, b=-4e-161)  # a/b is beyond the square root of the largest number
@example(a=-4e-161, b=0.5)
@example(a=0.5, b=0.0)
@example(a=0.5, b=3e-7)  # of another size than a, and not 0
def test_half_linear_functions_of_an_input_with_itself_have_half_the_squares_of_slopes(a, b):
    if a**2 + b**2 < 1e-3:
        return
    before = stax.Dense(8, W_std=1.3, b_std=0.3)
    k = before.kernel_fn(V)
    found = stax.serial(before, stax.ABRelu(a, b)).kernel_fn(V)
    for name in ("nngp", "ntk"):
        ratio = np.diag(getattr(found, name)) / np.diag(getattr(k, name))
        assert np.max(np.abs(ratio / ((a**2 + b**2) / 2) - 1)) <= 1e-14


@pytest.mark.slow
@pytest.mark.parametrize(("window", "strides", "padding"), [((1, 1), (1, 2), "CIRCULAR"), ((2, 3), (2, 1), "SAME")])
def test_windows_turn_with_the_grid(window, strides, padding):
    def kernel(turn, x):
        layers = (
            stax.Conv(4, turn((2, 1)), padding="SAME", b_std=0.2),
            stax.Relu(),
            stax.ConvLocal(4, turn(window), turn(strides), padding, b_std=0.1),
            stax.Relu(),
            stax.Conv(4, turn((2, 1)), padding="CIRCULAR"),
        )
        return stax.serial(*layers).kernel_fn(x)

    straight, turned = kernel(lambda v: v, G), kernel(lambda v: v[::-1], G.swapaxes(1, 2))
    assert straight.nngp.shape == (2, 2, *(n for n in straight.shape1[1:-1] for _ in range(2)))
    for name in ("nngp", "ntk"):
        back = np.transpose(getattr(turned, name), (0, 1, 4, 5, 2, 3))
        assert np.max(np.abs(getattr(straight, name) - back)) <= 1e-12


@pytest.mark.slow
def test_inputs_may_be_nested():
    inner = stax.parallel(stax.Dense(4), stax.serial(stax.Dense(4), stax.Relu()))
    read = stax.parallel(stax.serial(inner, stax.FanInConcat()), stax.Dense(8, b_std=0.1))
    init_fn, apply_fn, kernel_fn = read
    x = (V, V[:, :2]), V
    shape, params = init_fn(jax.random.key(0), (((4, 3), (4, 2)), (4, 3)))
    found = apply_fn(params, x)
    assert [v.shape for v in found] == shape == [(4, 8), (4, 8)]
    parts = kernel_fn(x)
    assert np.max(np.abs(parts[1].nngp - stax.Dense(8, b_std=0.1).kernel_fn(V, None, "nngp"))) <= 1e-12
