"""Full windows on groups: one position of a fibre stands for all, with the same kernels."""

import itertools

import numpy as np
import pytest

import equitangents as et
from equitangents.kernels.plans.plan import plan
from laws.networks import check, network, small_group
from oracles import finite_groups

RELU, GELU = ("phi", "relu"), ("phi", "gelu")


def layers_of(table, later, readout):
    """A full window in the second layer, `later` ones after it."""

    def conv(window):
        return ("group_conv", table, window, None, 1.2, 0.2)

    full = list(range(len(table)))
    hidden = [("lift", table, [0, 1, 4], None, 1.3, 0.1), RELU, conv(full), GELU]
    hidden += [("residual", [conv(later or full), RELU]), conv(later or full), RELU]
    return [*hidden, readout, ("dense", 1.1, 0.1), RELU, ("dense", 1.1, 0.1)]


READOUTS = {"flatten": ("flatten",), "pool": ("coset_pool", np.zeros(6, int))}
LATER = {"full": None, "some": [0, 2, 3]}


@pytest.mark.parametrize(
    ("engine", "later", "readout"),
    [
        # The reference engine compiles each; `test_cpu_engine.py` compares the two engines.
        pytest.param(engine, *case, marks=pytest.mark.slow if engine == "reference" else ())
        for engine, *case in itertools.product(["cpu", "reference"], LATER, READOUTS)
    ],
)
def test_kernels_are_literal_sums(engine, later, readout, rng):
    group, table = small_group("S3")
    later, readout = LATER[later], READOUTS[readout]
    layers = layers_of(table, later, readout)
    net = network(layers, action=et.actions.permutations(group, table))
    x = rng.standard_normal((4, 6, 2))
    steps = plan(net.lower(x.shape[1:])[1])
    assert [level.positions for level in steps.levels.levels][-5:] == [1] * 5
    check(layers, x, net=net, engine=engine)
    check(layers, x[:1], x[1:], net=net, engine=engine)


def test_pooling_over_cosets_keeps_all_positions(rng):
    group, table = small_group("S3")
    inside = finite_groups.subgroup(table, [1])
    layers = layers_of(table, None, ("coset_pool", finite_groups.left_cosets(table, inside)))
    layers.insert(-3, ("flatten",))
    net = network(layers, action=et.actions.permutations(group, table), subgroup=group.subgroup(inside))
    assert plan(net.lower((6, 2))[1]).positions == 6
    check(layers, rng.standard_normal((3, 6, 2)), net=net)
