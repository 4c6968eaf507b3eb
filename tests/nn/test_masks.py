"""Law: a network on a masked input is the network on the smaller input that is left; or as neural-tangents has it."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.errors import InvalidArgumentError, NetworkError

RNG = np.random.default_rng(4)
LINES, IMAGES = RNG.normal(size=(3, 9, 2)), RNG.normal(size=(2, 5, 6, 2))
END = nn.Relu(), nn.GlobalAvgPool(), nn.Dense(1, b_std=0.1)
SIZES = [(7,), (8,), (9,)]

CASES = {
    "valid, strides": (LINES, [(7,), (8,), (9,)], (nn.Conv(3, 3, 2, "valid", 1.2, 0.3), *END)),
    "one position": (LINES, [(7,), (8,), (6,)], (nn.Conv(3, 1, 2, b_std=0.3), nn.Relu(), nn.Conv(3, 1), *END)),
    "blocks": (LINES, [(7,), (8,), (9,)], (nn.Dense(3, b_std=0.3), nn.Relu(), nn.AvgPool(2), nn.Dense(3), *END)),
    "sums over blocks": (LINES, SIZES, (nn.Dense(3, b_std=0.3), nn.Relu(), nn.SumPool(3), nn.Dense(3), *END)),
    "padded pools": (LINES, [(7,), (5,), (9,)], (nn.Dense(3), nn.AvgPool(3, 1, "zero"), nn.Dense(3), *END)),
    "overlapping pools": (LINES, [(7,), (5,), (9,)], (nn.Dense(3), nn.AvgPool(3, 1), nn.Dense(3, b_std=0.2), *END)),
    "images, in branches": (
        IMAGES,
        [(4, 5), (5, 3)],
        (
            nn.Conv(3, 2, 2, "valid", 1.2, 0.3),
            nn.Residual(nn.Conv(3, 2, padding="zero", b_std=0.2)),
            nn.Parallel([nn.Relu(), nn.Conv(3, 2, padding="zero")], nn.Conv(3, 1)),
            nn.Sum(),
            nn.AvgPool(2, 1, "zero"),
            *END,
        ),
    ),
}


def masked(x, sizes, convention="smaller"):
    mask = np.zeros(x.shape[:-1], bool)
    for i, size in enumerate(sizes):
        mask[(i, *map(slice, size))] = True
    return et.Masked(np.where(mask[..., None], x, np.nan), mask, convention)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_kernels_and_outputs_are_those_of_the_smaller_inputs(name):
    x, sizes, layers = CASES[name]
    net = nn.Sequential(*layers)
    whole = net.kernel(masked(x, sizes))
    params = net.init(jax.random.key(0), x.shape[1:], np.float64)
    outputs = net.apply(params, masked(x, sizes))
    apply = jax.jit(net.apply)
    for i, size in enumerate(sizes):
        small = x[(slice(i, i + 1), *map(slice, size))]
        own = net.kernel(small)
        assert np.max(np.abs([whole.nngp[i, i] / own.nngp[0, 0] - 1, whole.ntk[i, i] / own.ntk[0, 0] - 1])) <= 1e-11
        with jax.enable_x64(True):
            assert np.max(np.abs(outputs[i] - apply(params, small)[0])) <= 1e-11


def test_masks_without_a_smaller_input_are_refused_where_windows_need_one():
    mask = np.ones((3, 9), bool)
    mask[1, 4] = False
    inside, shifted = et.Masked(LINES, mask), et.Masked(LINES, np.arange(9) > np.array([[0], [1], [2]]))
    for layers in (CASES["valid, strides"][2], CASES["blocks"][2]):
        net = nn.Sequential(*layers)
        for x, first in ((inside, 1), (shifted, 0)):
            with pytest.raises(NetworkError, match=rf"x1\[{first}\].*convention='neural-tangents'"):
                net.kernel(x)
        assert np.isfinite(net.kernel(et.Masked(x.x, x.mask, "neural-tangents")).ntk).all()
    every = nn.Sequential(nn.Conv(3, 3, padding="zero"), *END)
    assert np.isfinite(every.kernel(inside).ntk).all()
    with pytest.raises(InvalidArgumentError, match="'smaller' or 'neural-tangents'"):
        et.Masked(LINES, mask, "centred")
    with pytest.raises(NetworkError, match="convention"):
        every.kernel(inside, et.Masked(LINES, mask, "neural-tangents"))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv(3, 4),
        nn.Conv(3, 3, 2, "zero"),
        nn.AvgPool(3, 2, "circular"),
        nn.AvgPool(3, 2, "zero"),
        nn.Residual(nn.Conv(3, 4)),
    ],
)
def test_windows_that_differ_between_masked_inputs_are_refused(layer):
    net, x = nn.Sequential(nn.Dense(3), layer, nn.GlobalAvgPool(), nn.Dense(1)), masked(LINES, SIZES)
    with pytest.raises(NetworkError, match="padding='valid'"):
        net.kernel(x)
    with pytest.raises(NetworkError, match="padding='valid'"):
        net.apply(net.init(jax.random.key(0), LINES.shape[1:], np.float64), x)


def test_pools_of_neural_tangents_divide_by_whole_windows_and_keep_those_whose_centre_is_there():
    x, mask = LINES[:1, :4], np.array([[True, True, False, True]])
    net = nn.Sequential(nn.AvgPool(2, 1, "valid"), nn.Flatten())
    y = np.asarray(net.apply(((), ()), et.Masked(x, mask, "neural-tangents"))).reshape(3, 2)
    kept = np.where(mask[0][:, None], x[0], 0)
    expected = (kept[:-1] + kept[1:]) / 2 * mask[0][:3, None]
    assert np.max(np.abs(y - expected)) <= 1e-6


@pytest.mark.parametrize("join", [nn.Sum(), nn.Concatenate()])
def test_joined_branches_of_neural_tangents_have_the_positions_of_any(join):
    x, mask = LINES[:, :4], np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0]], bool)
    count, inputs = nn.Dense(1, W_std=0.0, b_std=1.0), et.Masked(x, mask, "neural-tangents")
    net = nn.Sequential(
        nn.Parallel(nn.Conv(2, 3, 2, "zero"), nn.Conv(2, 1, 2, "zero")), join, count, nn.GlobalSumPool()
    )
    there = (mask[:, ::2] | mask[:, 1::2]).sum(axis=1)
    assert np.max(np.abs(net.kernel(inputs).nngp - np.outer(there, there))) <= 1e-12
    y = np.asarray(net.apply(net.init(jax.random.key(0), (4, 2), np.float64), inputs))[:, 0]
    assert np.max(np.abs(y / y[0] - there / there[0])) <= 1e-12


@pytest.mark.parametrize(
    "wrong", [lambda p: p[:2], lambda p: p + p, lambda p: dict(enumerate(p)), lambda p: (*p[:2], p[2][:0], p[3])]
)
def test_parameters_of_another_number_of_layers_are_refused(wrong):
    net = nn.Sequential(nn.Dense(3), nn.Relu(), nn.Parallel(nn.Dense(2), nn.Dense(2)), nn.Sum())
    params = net.init(jax.random.key(0), (2,))
    x = LINES[:, 0].astype(np.float32)
    assert net.apply(params, x).shape == (3, 2)
    with pytest.raises(et.errors.ShapeError, match="params"):
        net.apply(wrong(params), x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "convention"),
    [
        (nn.Flatten(), "smaller"),
        (nn.GlobalAvgPool(), "neural-tangents"),
        (nn.GlobalSumPool(), "smaller"),
        (nn.Flatten(), "neural-tangents"),
    ],
)
def test_an_input_of_which_nothing_is_left_has_zeros(end, convention):
    """For outputs and kernels alike, whatever biases come after; the others do not notice."""
    x, mask = RNG.standard_normal((3, 4, 2)), np.ones((3, 4), bool)
    mask[0], mask[1, 2:] = False, False
    net = nn.Sequential(
        nn.Conv(3, 2, b_std=0.3, padding="valid"), end, nn.Dense(2, b_std=0.3), nn.Relu(), nn.Dense(1, b_std=0.1)
    )
    inputs = et.Masked(x, mask, convention)
    outputs = net.apply(net.init(jax.random.key(0), (4, 2)), inputs)
    assert not np.any(outputs[0])
    assert np.all(outputs[1:])
    for engine in ("reference", "cpu"):
        k = net.kernel(inputs, engine=engine)
        for values in (k.nngp, k.ntk):
            assert not np.any(values[0])
            assert not np.any(values[:, 0])
        np.testing.assert_allclose(k.ntk[1:, 1:], net.kernel(inputs[1:], engine=engine).ntk, rtol=1e-12)
        assert np.diag(k.nngp)[1:].min() > 0
    assert net.kernel_diagonal(inputs).nngp[0] == 0
