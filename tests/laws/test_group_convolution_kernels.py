"""Law: kernels of lifting and group convolutional networks are the literal sums over pairs of group elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import equitangents as et
from examples import examples
from laws.networks import box, by_engines, check, check_cpu, group_box, plane_group, small_group
from laws.random_networks import group_networks
from oracles import finite_groups

n = et.nn


@given(group_networks())
@settings(max_examples=20)
def test_random_networks_on_small_groups(case):
    layers, kwargs, x = case
    check_cpu(layers, x, **kwargs)


@given(group_networks())
@examples(1, random=2)
def test_random_networks_on_small_groups_by_the_reference(case):
    layers, kwargs, x = case
    check(layers, x[:1], x[1:], engine="reference", **kwargs)


PLANES = {"p4, 4×4": (4, 0, (4, 4)), "p4, 5×5": (4, 0, (5, 5)), "p4m, 4×4": (4, 1, (4, 4)), "p2, 3×4": (2, 0, (3, 4))}
OFTEN = {
    ("p4, 4×4", "relu", "pool"),
    ("p4, 5×5", "erf", "pool"),
    ("p4, 5×5", "relu", "flatten"),
    ("p4m, 4×4", "relu", "pool"),
    ("p2, 3×4", "relu", "cosets"),
}


@pytest.mark.quick(1)
@by_engines(
    "plane, nonlinearity, readout",
    list(itertools.product(PLANES, ["relu", "erf"], ["flatten", "pool", "cosets"])),
    OFTEN,
    {("p2, 3×4", "relu", "cosets")},
)
def test_boxes_on_the_plane(engine, plane, nonlinearity, readout):
    rotations, reflections, shape = PLANES[plane]
    group, table, grid = plane_group(rotations, reflections, shape)
    window, inner, subgroup = (3, 3), (2, 3), None
    elements = group_box(group, shape, inner, range(rotations), range(1 + reflections))
    layers = [
        (("lift", grid, box(shape, window), None, 1.4, 0.1), n.Lift(group, 2, window, W_std=1.4, b_std=0.1)),
        ("phi", nonlinearity),
        (("group_conv", table, elements, None, 1.2, 0.2), n.GroupConv(2, inner, W_std=1.2, b_std=0.2)),
        ("phi", nonlinearity),
    ]
    if readout == "flatten":
        layers += [("flatten",)]
    elif readout == "pool":
        layers += [("coset_pool", np.zeros(len(table), dtype=int))]
    else:
        point_group = [group.index(r, s, (0, 0)) for r in range(rotations) for s in range(1 + reflections)]
        subgroup = group.subgroup(point_group)
        layers += [("coset_pool", finite_groups.left_cosets(table, point_group)), ("flatten",)]
    x = np.random.default_rng(1).standard_normal((2, *shape, 3))
    check([*layers, ("dense", 1.1, 0.3)], x[:1], x[1:], subgroup=subgroup)


def test_full_windows_and_arbitrary_elements_of_the_plane_group():
    shape = (3, 3)
    group, table, grid = plane_group(4, 0, shape)
    rng = np.random.default_rng(3)
    chosen = rng.choice(len(table), size=7, replace=False).tolist()
    layers = [
        (("lift", grid, range(9), None, 1.4, 0.1), n.Lift(group, 2, window="full", W_std=1.4, b_std=0.1)),
        ("phi", "erf"),
        ("group_conv", table, chosen, rng.dirichlet(np.ones(7)), 1.0, 0.0),
        ("phi", "relu"),
        (("group_conv", table, range(len(table)), None, 1.0, 0.0), n.GroupConv(2, window="full")),
        ("phi", "gelu"),
        ("flatten",),
        ("dense", 1.0, 0.0),
    ]
    x = rng.standard_normal((3, *shape, 2))
    check(layers, x[:2], x[2:])


def test_pools_over_cosets_and_layers_after_them(rng):
    group, table = small_group("S3")
    inside = finite_groups.subgroup(table, [1])
    layers = [
        ("lift", table, (0, 2, 3), None, 1.2, 0.1), ("phi", "relu"), ("group_conv", table, (0, 1, 4), None, 1.3, 0.0),
        ("phi", "erf"), ("coset_pool", finite_groups.left_cosets(table, inside)), ("dense", 1.1, 0.2), ("phi", "relu"),
        ("residual", [("dense", 1.3, 0.1), ("phi", "gelu")]),
    ]  # fmt: skip
    whole = (("global_pool",), n.GroupPool())
    for end in (("flatten",), whole):
        check_cpu(
            [*layers, end, ("dense", 1.0, 0.0)], rng.standard_normal((4, 6, 3)),
            action=et.actions.permutations(group, table), subgroup=group.subgroup(inside),
        )  # fmt: skip
