"""Elements of a group at which windows make a field the same are carried once, and nothing changes but the cost."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.kernels.engines import cpu
from equitangents.kernels.plans import plan
from equitangents.kernels.plans import plan as plans
from equitangents.kernels.plans.plan import FibrePlan


def network(rotations=4, reflections=False, window=(2, 2), readout=None, shape=(4, 4)):
    group = et.groups.wallpaper(rotations=rotations, reflections=reflections, shape=shape)
    layers = [nn.Lift(group, 1, window=window, b_std=0.2), nn.Relu()]
    layers += [nn.GroupConv(1, window=window, b_std=0.1), nn.Erf()] * 2
    return nn.Sequential(*layers, readout or nn.GroupPool(), nn.Dense(1), nn.Relu(), nn.Dense(1)), shape


def plans_of(net, shape, monkeypatch):
    """The plan of a network, and one with every element."""
    program = net.lower((*shape, 2))[1]
    fewer = plans.plan.__wrapped__(program)
    monkeypatch.setattr(plans, "merge_cosets", lambda *_: None)
    whole = plans.plan.__wrapped__(program)
    assert isinstance(fewer, FibrePlan)
    assert isinstance(whole, FibrePlan)
    return fewer, whole


@pytest.mark.parametrize(
    ("settings", "positions"),
    [
        ({}, 16),
        ({"readout": nn.Flatten()}, 16),
        ({"reflections": True}, 16),
        ({"rotations": 2, "window": (2, 1)}, 16),
        ({"window": (2, 1)}, 32),
    ],
)
def test_kernels_are_those_with_every_element(monkeypatch, settings, positions):
    net, shape = network(**settings)
    x = np.random.default_rng(0).standard_normal((3, *shape, 2))
    fewer, whole = plans_of(net, shape, monkeypatch)
    assert fewer.levels.levels[-1].positions == positions < whole.levels.levels[-1].positions
    for found, expected in zip(cpu.kernels(fewer, x, None), cpu.kernels(whole, x, None), strict=True):
        assert np.max(np.abs(found - expected)) <= 1e-13 * np.max(expected)


def test_windows_of_two_by_two_cost_four_networks_of_translations():
    net, shape = network(shape=(8, 8))
    cnn = nn.Sequential(*[nn.Conv(1, 3), nn.Relu()] * 3, nn.GlobalAvgPool(), nn.Dense(1), nn.Relu(), nn.Dense(1))
    counts = [plans.plan(n.lower((*shape, 2))[1]) for n in (net, cnn)]
    work = [len(p.fibres.array) * p.levels.levels[-1].positions for p in counts]
    assert work[0] == 4 * work[1]


def test_windows_whose_weights_differ_keep_every_element():
    on = et.actions.permutations(et.groups.cyclic(4), et.groups.cyclic(4).table)
    layers = (nn.Lift(on, 1, window=[0, 1], weights=[1, 2]), nn.Relu(), nn.GroupPool(), nn.Dense(1))
    found = plans.plan(nn.Sequential(*layers).lower((4, 2))[1])
    assert found.levels.levels[-1].positions == 4
    assert plan.merge_cosets(found.field, found.levels) is None
