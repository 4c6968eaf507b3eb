"""Fields of fewer positions than a group has elements, with the same kernels.

Behind full windows one position per offset stands for all. Roto-translations with symmetric windows fold onto the grid.
"""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.kernels.program import Positions, Program
from equitangents.kernels.runs.programs import compute

W = {"W_std": 1.4, "b_std": 0.2}


def unfolded(net, shape):
    """The program on the group itself, layer by layer."""
    signals = net.signals(shape)
    ops = tuple(op for layer, signal in zip(net.layers, signals, strict=False) for op in layer.lower(signal))
    return Program(Positions(shape[:-1], net.layers[0].group_moves(signals[0])), ops)


def on_group(group, first, second, readout, **keywords):
    return nn.Sequential(
        nn.Lift(group, 2, first, **W), nn.Relu(), nn.Residual(nn.GroupConv(2, first, **W)),
        nn.GroupConv(2, second, **keywords, **W), nn.Erf(), readout, nn.Dense(1, **W),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("group", "first", "second", "readout"),
    [
        (et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4)), (3, 3), (1, 1), nn.GroupPool()),
        (et.groups.wallpaper(rotations=4, reflections=True, shape=(3, 3)), (3, 3), (3, 3), nn.GroupPool()),
        (et.groups.wallpaper(rotations=2, reflections=True, shape=(3, 4)), (1, 3), (3, 1), nn.GroupPool()),
        (et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4)), (3, 3), (3, 3), nn.Flatten()),
        (et.groups.translations((5,)), (2,), (4,), nn.GroupPool()),
    ],
)
def test_folded_kernels_are_those_of_the_group(group, first, second, readout, rng):
    net = on_group(group, first, second, readout)
    x1, x2 = rng.standard_normal((2, 3, *group.shape, 2))
    program = net.lower((*group.shape, 2))[1]
    largest = max(op.labels.array.size for op in program.ops if hasattr(op, "labels")) if program.lift else 0
    assert largest < group.order
    full = compute(unfolded(net, (*group.shape, 2)), x1, x2)
    folded = net.kernel(x1, x2)
    np.testing.assert_allclose(folded.nngp, full.nngp, rtol=1e-13)
    np.testing.assert_allclose(folded.ntk, full.ntk, rtol=1e-13)


@pytest.mark.parametrize(
    ("second", "keywords"),
    [((2, 2), {}), ((1, 3), {}), ((3, 3), {"rotations": [0, 1]}), ((3, 3), {"weights": range(1, 37)}), ([0, 1], {})],
)
def test_windows_that_rotations_change_are_not_folded(second, keywords):
    p4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
    program = on_group(p4, (3, 3), second, nn.GroupPool(), **keywords).lower((4, 4, 2))[1]
    assert program.lift.folded == 1
    assert program.lift.elements.array.shape == (64, 64)


def test_cosets_of_rotations_are_not_folded():
    p4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
    rotations = nn.GroupPool(p4.generated_subgroup([p4.index(1, 0, (0, 0))]))
    net = nn.Sequential(nn.Lift(p4, 2, (3, 3)), nn.Relu(), rotations, nn.Flatten(), nn.Dense(1))
    assert net.lower((4, 4, 1))[1].lift.folded == 1
