"""Behaviours of triples that scripts for neural-tangents rely on: parameters, kernels, axes, positions."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents import nn, stax
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, ShapeError

RNG = np.random.default_rng(8)
V, W = RNG.normal(size=(4, 3)), RNG.normal(size=(2, 3))
G, H = RNG.normal(size=(3, 4, 3, 2)), RNG.normal(size=(2, 4, 3, 2))
KEY = jax.random.key(1)

ENTRIES = {
    "ABRelu": (lambda: stax.ABRelu(-0.5, 2.0), ()),
    "Erf": (lambda: stax.Erf(2.0, 0.5, 0.3), ()),
    "Cos": (lambda: stax.Cos(2.0, 0.5, 0.3), ()),
    "ExpNormalized": (lambda: stax.ExpNormalized(0.5, 0.2), ()),
    "Dense": (lambda: stax.Dense(2, b_std=0.1), {"w", "b"}),
    "serial": (lambda: stax.serial(stax.Dense(2), stax.Relu()), tuple),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_each_layer_is_one_entry_of_the_parameters(name):
    layer, held = ENTRIES[name]
    init_fn, apply_fn, _ = stax.serial(stax.Dense(3), layer(), stax.Dense(2))
    _, params = init_fn(KEY, (-1, 3))
    assert len(params) == 3
    assert len(params[1]) == 2 if held is tuple else held in (params[1], set(params[1]))
    assert held is not tuple or isinstance(params[1], tuple)
    assert apply_fn(params, V).shape == (4, 2)
    for wrong in (params[:2], (*params, ())):
        with pytest.raises(ShapeError, match="expected 3; one entry for each layer"):
            apply_fn(wrong, V)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [partial(stax.Dense, 8), partial(stax.Conv, 8, (1,))])
def test_a_bias_of_deviation_0_is_trained_in_standard_parametrisation(layer):
    x = V[:, None]
    kernels = {}
    for b in (None, 0.0):
        last = stax.Flatten(), stax.Dense(1, b_std=b, parameterization="standard")
        triple = stax.serial(layer(b_std=b, parameterization="standard"), stax.Relu(), *last)
        kernels[b] = triple.kernel_fn(x, None, ("nngp", "ntk"))
        params = triple.init_fn(KEY, (-1, 1, 3))[1]
        assert ("b" in params[0]) == (b is not None)
    nonlinear = stax.serial(stax.Dense(8), stax.Relu()).kernel_fn(V, None, "nngp")
    assert np.array_equal(kernels[0.0].nngp, kernels[None].nngp)
    slope = stax.serial(stax.Dense(8), stax.Relu(), stax.Dense(1)).kernel_fn(V, None, "ntk") - nonlinear
    k = V @ V.T / 3
    assert np.max(np.abs(kernels[0.0].ntk - kernels[None].ntk - 1 - slope / k)) <= 1e-12


@pytest.mark.slow
def test_width_scales_count_the_inputs_that_the_tangent_kernel_sees():
    first, last = (stax.Dense(n, s=s, parameterization="standard") for n, s in ((8, (1, 4)), (1, (4, 1))))
    assert first.init_fn(KEY, (-1, 3))[1]["w"].shape == (3, 32)
    wide = stax.serial(first, stax.Relu(), last)
    plain = nn.Sequential(nn.Dense(8, parametrisation="standard"), nn.Relu(), nn.Dense(1, parametrisation="standard"))
    assert np.max(np.abs(wide.kernel_fn(V, None, "ntk") / plain.kernel(V).ntk - 1)) <= 1e-12


NORMS = {(1, -1): (0,), (2, 3): (1,), (1, 2, 3): (0, 1), (3,): (), -1: ()}


@pytest.mark.slow
@pytest.mark.parametrize("axis", [(2, 3), *(a for a in NORMS if a != (2, 3))])
def test_normalisation_takes_the_axes_that_it_is_given(axis):
    layers = stax.Conv(8, (2, 2), padding="SAME", b_std=0.3), stax.LayerNorm(axis)
    found = stax.serial(*layers, stax.Flatten()).kernel_fn(G, None, "nngp")
    k = stax.serial(layers[0]).kernel_fn(G, None, "nngp")
    q = np.einsum("nnhhww->nhw", k)
    mean = q.mean(axis=tuple(d + 1 for d in NORMS[axis]), keepdims=True) if NORMS[axis] else q
    scale = np.broadcast_to(1 / np.sqrt(mean), q.shape)
    expected = np.einsum("nmhhww,nhw,mhw->nm", k, scale, scale) / 12
    assert np.max(np.abs(found - expected)) <= 1e-11


def test_normalisation_without_channels_is_refused():
    with pytest.raises(NetworkError, match="channels"):
        stax.serial(stax.Conv(3, (2, 2)), stax.LayerNorm(1), stax.Flatten()).kernel_fn(G)


@pytest.mark.slow
def test_kernels_of_positions_are_those_of_nn():
    layers = stax.Conv(4, (2, 2), b_std=0.2), stax.Relu(), stax.Conv(4, (2, 1))
    _, _, kernel_fn = stax.serial(*layers)
    field = kernel_fn.network.kernel_field(G, H)
    k = kernel_fn(G, H)
    expected = np.reshape(field.ntk, (3, 2, 2, 2, 2, 2)).transpose(0, 3, 1, 4, 2, 5)  # of (N1, h, w, N2, h', w')
    assert np.max(np.abs(k.ntk - expected)) <= 1e-11
    for keyword in ({"diagonal_spatial": True}, {"diagonal_batch": False}):
        with pytest.raises(NotImplementedError, match=next(iter(keyword))):
            kernel_fn(G, H, **keyword)
    assert (k.shape1, k.shape2) == ((3, 2, 2, 4), (2, 2, 2, 4))
    assert (k.is_gaussian, k.is_reversed, k.is_input) == (True, False, False)


@pytest.mark.slow
def test_a_kernel_of_a_kernel_is_that_of_the_joined_network():
    first = stax.serial(stax.Conv(8, (2, 2), b_std=0.1), stax.Relu())
    for last in (
        stax.serial(stax.Conv(8, (2, 2)), stax.GlobalAvgPool(), stax.Dense(1)),
        stax.serial(stax.Flatten(), stax.Dense(1)),
    ):
        whole = stax.serial(first, last).kernel_fn(G, H)
        parts = last.kernel_fn(first.kernel_fn(G, H))
        for name in ("nngp", "ntk", "cov1", "cov2"):
            assert np.max(np.abs(getattr(whole, name) - getattr(parts, name))) <= 1e-11
        assert (parts.shape1, parts.x1_is_x2) == (whole.shape1, whole.x1_is_x2) == ((3, 1), False)


def test_a_kernel_has_no_means_and_not_always_a_tangent_kernel():
    dense, relu = stax.Dense(8).kernel_fn(V), stax.serial(stax.Dense(8), stax.Relu()).kernel_fn(V)
    for layer, known in ((stax.FanInSum(), (relu, relu)), (stax.LayerNorm(), relu)):
        with pytest.raises(NetworkError):
            layer.kernel_fn(known)
    assert np.max(np.abs(stax.FanInSum().kernel_fn((relu, dense)).nngp - relu.nngp - dense.nngp)) <= 1e-12
    jump = stax.serial(stax.Dense(8), stax.Sign()).kernel_fn(V)
    assert jump.ntk is stax.Dense(1).kernel_fn(jump).ntk is None


def test_kernels_are_replaced_traced_and_asked_for_by_name():
    _, _, kernel_fn = stax.serial(stax.Dense(8), stax.Relu(), stax.Dense(2))
    k = kernel_fn(V, W)
    assert np.array_equal(k.replace(ntk=k.nngp).ntk, k.nngp)
    assert set(kernel_fn(V, W, ("nngp", "shape1", "x1_is_x2"))._asdict()) == {"nngp", "shape1", "x1_is_x2"}
    assert kernel_fn(V, V.copy(), "x1_is_x2")
    traced = jax.jit(kernel_fn)(V.astype(np.float32), W.astype(np.float32))
    assert isinstance(traced, et.Kernel)
    assert traced.shape2 == (2, 2)
    assert np.max(np.abs(traced.ntk - k.ntk)) <= 1e-5
    with pytest.raises(InvalidArgumentError, match="get is 'cov3'"):
        kernel_fn(V, W, "cov3")


@pytest.mark.slow
def test_axes_may_be_in_any_order():
    spec = ("CWNH", "IOWH", "CWNH")
    conv, last = stax.Conv(3, (2, 1), dimension_numbers=spec, b_std=0.2), stax.Dense(2, batch_axis=1, channel_axis=0)
    turned = stax.serial(conv, stax.Relu(), stax.Flatten(2, 1), last)
    usual = stax.serial(stax.Conv(3, (1, 2), b_std=0.2), stax.Relu(), stax.Flatten(), stax.Dense(2))
    x = G.transpose(3, 2, 0, 1)
    # Their grid is (W, H): the same as ours with both dimensions of x and of windows exchanged.
    other = stax.serial(stax.Conv(3, (2, 1), b_std=0.2), *(stax.Relu(), stax.Flatten(), stax.Dense(2)))
    expected = other.kernel_fn(G.transpose(0, 2, 1, 3), None, "ntk")
    assert np.max(np.abs(turned.kernel_fn(x, None, "ntk") - expected)) <= 1e-12
    shape, params = turned.init_fn(KEY, x.shape)
    assert shape == (2, 3)
    assert turned.apply_fn(params, x).shape == (2, 3)
    assert usual.init_fn(KEY, G.shape)[0] == (3, 2)
    with pytest.raises(InvalidArgumentError, match="channel_axis"):
        stax.serial(stax.Dense(3, channel_axis=1), stax.Relu(), last).kernel_fn(V)


def test_edges_divide_by_what_lies_on_the_grid():
    layer = stax.AvgPool((2,), None, "SAME", normalize_edges=True)
    x = np.ones((1, 4, 1))
    assert np.array_equal(layer.apply_fn((), x), x)
    assert np.max(np.abs(layer.kernel_fn(x, None, "nngp") - 1)) <= 1e-12
    assert stax.AvgPool((2,), None, "SAME").apply_fn((), x).tolist()[0][-1] == [0.5]


@pytest.mark.slow
def test_several_inputs_have_a_kernel_each_until_they_are_summed():
    read = stax.parallel(stax.Dense(8, b_std=0.1), stax.Dense(8))
    init_fn, apply_fn, kernel_fn = stax.serial(read, stax.FanInSum(), stax.Relu(), stax.Dense(1))
    one, other = (V, V[:, :2]), (W, W[:, :2])
    k = kernel_fn(one, other)
    sum_of = stax.Dense(8, b_std=0.1).kernel_fn(V, W, "nngp") + stax.Dense(8).kernel_fn(V[:, :2], W[:, :2], "nngp")
    parts = read.kernel_fn(one, other)
    assert isinstance(parts, tuple)
    assert np.max(np.abs(parts[0].nngp + parts[1].nngp - sum_of)) <= 1e-12
    after = stax.serial(stax.FanInSum(), stax.Relu(), stax.Dense(1)).kernel_fn(parts)
    assert np.max(np.abs(after.ntk - k.ntk)) <= 1e-12
    shape, params = init_fn(KEY, ((4, 3), (4, 2)))
    assert shape == (4, 1)
    assert apply_fn(params, one).shape == (4, 1)


@pytest.mark.slow
def test_finite_networks_run_where_ranks_must_agree():
    first, second = stax.Conv(3, (2, 2), b_std=0.1), stax.ConvLocal(3, (2, 1), b_std=0.1)
    layers = first, stax.LayerNorm((1, 3)), stax.ABRelu(0.1, 2.0), second
    init_fn, apply_fn, _ = stax.serial(*layers, stax.AvgPool((1, 2)), stax.Flatten(), stax.Dense(2, b_std=0.1))
    with jax.numpy_rank_promotion("raise"):
        shape, params = init_fn(KEY, G.shape)
        assert apply_fn(params, jnp.asarray(G, jnp.float32)).shape == shape


@pytest.mark.slow
def test_masks_are_those_of_neural_tangents():
    x = G.copy()
    missing = RNG.random((3, 4, 3)) < 0.3
    x[missing] = 9.0
    conv, pool = stax.Conv(4, (2, 2), (1, 2), "CIRCULAR", b_std=0.3), stax.AvgPool((2, 1), None, "SAME")
    layers, end = stax.serial(conv, stax.Relu(), pool, stax.Dense(2)), stax.serial(stax.GlobalAvgPool(), stax.Dense(1))
    found = stax.serial(layers, end).kernel_fn(x, None, mask_constant=9.0)
    given = et.Masked(np.where(missing[..., None], 0, x), ~missing, "neural-tangents")
    expected = stax.serial(layers, end).kernel_fn.network.kernel(given)
    assert np.max(np.abs(found.ntk - expected.ntk)) <= 1e-12
    by_layer = end.kernel_fn(layers.kernel_fn(x, None, mask_constant=9.0))
    assert np.max(np.abs(by_layer.ntk - expected.ntk)) <= 1e-12


def test_blocks_are_of_kernels_between_inputs():
    block = stax.serial(stax.Dense(8), stax.Relu())
    between = ("nngp", "ntk")
    whole, parts = block.kernel_fn(V, W, between), et.batch(block.kernel_fn, 2)(V, W, between)
    assert max(np.max(np.abs(a - b)) for a, b in zip(whole, parts, strict=True)) <= 1e-12
    with pytest.raises(et.errors.InvalidArgumentError, match=r"get is .*; expected \('nngp', 'ntk'\)"):
        et.batch(block.kernel_fn, 2)(V)


NUMBERS = np.random.default_rng(9)
VECTORS = NUMBERS.normal(size=(4, 3))
GRIDS = NUMBERS.normal(size=(2, 4, 3, 2))


def _branches(**keywords):
    return stax.FanOut(2), stax.parallel(stax.Dense(8, b_std=0.2, **keywords), stax.Dense(4, **keywords))


def test_channels_are_joined_along_the_axis_that_they_have():
    named, last = (stax.serial(*_branches(), stax.FanInConcat(axis), stax.Dense(2)) for axis in (1, -1))
    assert np.array_equal(named.kernel_fn(VECTORS, None, "ntk"), last.kernel_fn(VECTORS, None, "ntk"))
    shape, params = named.init_fn(jax.random.key(0), VECTORS.shape)
    assert named.apply_fn(params, VECTORS).shape == shape == (4, 2)


@pytest.mark.slow
def test_channels_are_last_where_the_grid_is_gone():
    gone = stax.Conv(8, (2, 2), dimension_numbers=("NCHW", "HWIO", "NCHW")), stax.GlobalAvgPool(channel_axis=1)
    turned = stax.serial(*gone, *_branches(), stax.FanInConcat(-1), stax.Dense(2))
    usual = stax.serial(stax.Conv(8, (2, 2)), stax.GlobalAvgPool(), *_branches(), stax.FanInConcat(-1), stax.Dense(2))
    found = turned.kernel_fn(np.moveaxis(GRIDS, -1, 1), None, "ntk")
    assert np.max(np.abs(found - usual.kernel_fn(GRIDS, None, "ntk"))) <= 1e-12


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_positions_and_inputs_are_not_joined(axis):
    with pytest.raises(NotImplementedError, match="channels"):
        stax.serial(*_branches(), stax.FanInConcat(axis), stax.Dense(2)).kernel_fn(GRIDS)


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
    k = before.kernel_fn(VECTORS)
    found = stax.serial(before, stax.ABRelu(a, b)).kernel_fn(VECTORS)
    for name in ("nngp", "ntk"):
        ratio = np.diag(getattr(found, name)) / np.diag(getattr(k, name))
        assert np.max(np.abs(ratio / ((a**2 + b**2) / 2) - 1)) <= 1e-14


@pytest.mark.slow
@pytest.mark.parametrize(("window", "strides", "padding"), [((1, 1), (1, 2), "CIRCULAR"), ((2, 3), (2, 1), "SAME")])
def test_windows_turn_with_the_grid(window, strides, padding):
    def kernel(turn, x):
        first = stax.Conv(4, turn((2, 1)), padding="SAME", b_std=0.2)
        last = stax.Conv(4, turn((2, 1)), padding="CIRCULAR")
        local = stax.ConvLocal(4, turn(window), turn(strides), padding, b_std=0.1)
        return stax.serial(first, stax.Relu(), local, stax.Relu(), last).kernel_fn(x)

    straight, turned = kernel(lambda v: v, GRIDS), kernel(lambda v: v[::-1], GRIDS.swapaxes(1, 2))
    assert straight.nngp.shape == (2, 2, *(n for n in straight.shape1[1:-1] for _ in range(2)))
    for name in ("nngp", "ntk"):
        back = np.transpose(getattr(turned, name), (0, 1, 4, 5, 2, 3))
        assert np.max(np.abs(getattr(straight, name) - back)) <= 1e-12


def test_inputs_within_several_inputs_are_refused():
    read = stax.parallel(stax.serial(stax.parallel(stax.Dense(4), stax.Dense(4)), stax.FanInConcat()), stax.Dense(8))
    x = (VECTORS, VECTORS[:, :2]), VECTORS
    with pytest.raises(NotImplementedError, match="one tuple"):
        read.init_fn(jax.random.key(0), (((4, 3), (4, 2)), (4, 3)))
    with pytest.raises(InvalidTypeError, match="x is of type"):
        read.kernel_fn(x)
