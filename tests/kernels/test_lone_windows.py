"""Convolutions with windows of one position are dense layers at every position, whatever their padding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from equitangents import nn

WEIGHTS = {"W_std": 1.3, "b_std": 0.2}
DENSE = nn.Dense(4, **WEIGHTS)


def lone(padding):
    return nn.Conv(4, (1, 1), padding=padding, **WEIGHTS)


def conv(padding):
    return nn.Conv(4, (3, 3), padding=padding, **WEIGHTS)


def chain(outer, inner):
    return [conv(outer), nn.Relu(), inner, nn.Relu(), conv(outer), nn.Relu()]


def residual(outer, inner):
    return [conv(outer), nn.Residual(nn.Relu(), conv(outer), nn.Relu(), inner), nn.Relu()]


def branches(outer, inner):
    return [conv(outer), nn.Relu(), nn.Parallel(conv(outer), inner), nn.Concatenate(), inner, nn.Relu()]


def fork(outer, inner):
    return [nn.Parallel(conv(outer), inner), nn.Sum(), nn.Relu()]


@pytest.mark.parametrize("net", [chain, residual, branches, fork])
@pytest.mark.parametrize("readout", [nn.GlobalAvgPool, nn.Flatten])
def test_padding_does_not_matter_where_nothing_beside_is_read(net, readout, rng):
    x = rng.standard_normal((3, 4, 4, 2))
    for outer in ("zero", "circular"):
        whole = lambda inner, outer=outer: nn.Sequential(*net(outer, inner), readout(), nn.Dense(1))
        expected = whole(DENSE).kernel(x)
        assert expected.engine == "cpu"
        for padding in ("zero", "circular", "valid"):
            found = whole(lone(padding)).kernel(x)
            assert (found.engine, found.notes) == ("cpu", expected.notes)
            np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-13)
            np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-13)


@pytest.mark.slow
def test_windows_that_read_around_a_broken_torus_still_mix_fibres(rng):
    x = rng.standard_normal((2, 4, 4, 2))
    for window, stride in itertools.product([(1, 3), (3, 3)], [1, 2]):
        last = nn.Conv(4, window, stride=stride, padding="circular")
        found = nn.Sequential(conv("zero"), nn.Relu(), last, nn.Relu(), nn.Flatten(), nn.Dense(1)).kernel(x)
        assert found.engine == "reference"
