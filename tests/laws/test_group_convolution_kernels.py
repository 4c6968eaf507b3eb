"""Law: kernels of lifting and group convolutional networks are the literal sums over pairs of group elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from examples import examples
from laws.networks import box, by_engines, check, group_box, plane_group, small_group
from oracles import finite_groups

n = et.nn
NONLINEARITIES = [
    ("phi", "relu"),
    ("phi", "erf"),
    ("phi", "gelu"),
    ("phi", "abs"),
    ("phi", "leaky_relu", 0.2),
    ("phi", "sin"),
    ("phi", "cos"),
]


@st.composite
def small_networks(draw):
    """A group, an action on a few points, random windows, weights, depth, nonlinearities and readout."""
    name = draw(st.sampled_from(sorted(finite_groups.SMALL)))
    group, table = small_group(name)
    order = len(table)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    parts = []
    for _ in range(draw(st.integers(1, 2))):
        inside = finite_groups.subgroup(table, draw(st.lists(st.integers(0, order - 1), max_size=1)))
        parts.append(finite_groups.coset_action(table, inside))
    offsets = np.cumsum([0, *(p.shape[1] for p in parts)])
    action = np.concatenate([p + o for p, o in zip(parts, offsets, strict=False)], axis=1)

    def window(size):
        chosen = rng.choice(size, size=rng.integers(1, size + 1), replace=False)
        weights = rng.dirichlet(np.ones(len(chosen))) if draw(st.booleans()) else None
        return chosen.tolist(), weights

    def scales():
        return float(rng.uniform(0.8, 1.6)), float(rng.choice([0.0, 0.3]))

    layers = [("lift", action, *window(action.shape[1]), *scales()), draw(st.sampled_from(NONLINEARITIES))]
    for _ in range(draw(st.integers(0, 2))):
        layers += [("group_conv", table, *window(order), *scales()), draw(st.sampled_from(NONLINEARITIES))]
    subgroup = None
    readout = draw(st.sampled_from(["flatten", "pool", "cosets"]))
    if readout == "cosets":
        inside = finite_groups.subgroup(table, [draw(st.integers(0, order - 1))])
        subgroup = group.subgroup(inside)
        layers += [("coset_pool", finite_groups.left_cosets(table, inside)), ("flatten",)]
    else:
        layers += [("flatten",) if readout == "flatten" else ("coset_pool", np.zeros(order, dtype=int))]
    layers += [("dense", *scales())]
    if draw(st.booleans()):
        layers += [draw(st.sampled_from(NONLINEARITIES)), ("dense", *scales())]
    x1, x2 = rng.standard_normal((2, 2, action.shape[1], 3))
    return layers, et.actions.permutations(group, action), subgroup, x1, x2 if draw(st.booleans()) else None


@given(small_networks())
@settings(max_examples=20)
def test_random_networks_on_small_groups(case):
    layers, action, subgroup, x1, x2 = case
    check(layers, x1, x2, action=action, subgroup=subgroup)


@given(small_networks())
@examples(1, random=2)
def test_random_networks_on_small_groups_by_the_reference(case):
    layers, action, subgroup, x1, x2 = case
    check(layers, x1, x2, action=action, subgroup=subgroup, engine="reference")


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


@pytest.mark.parametrize("rotations", [[0, 1], pytest.param([0], marks=pytest.mark.slow)])
def test_boxes_with_some_of_the_rotations(rotations):
    shape = (4, 4)
    group, table, grid = plane_group(4, 0, shape)
    elements = group_box(group, shape, (3, 1), rotations, [0])
    layers = [
        (("lift", grid, box(shape, (2, 2)), None, 1.4, 0.0), n.Lift(group, 2, (2, 2), W_std=1.4)),
        ("phi", "relu"),
        (
            ("group_conv", table, elements, None, 1.2, 0.2),
            n.GroupConv(2, window=(3, 1), rotations=rotations, W_std=1.2, b_std=0.2),
        ),
        ("phi", "relu"),
        ("coset_pool", np.zeros(len(table), dtype=int)),
        ("dense", 1.0, 0.0),
    ]
    check(layers, np.random.default_rng(2).standard_normal((3, *shape, 2)))


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


def test_the_order_of_multiplication_shows():
    # With the arguments of the table exchanged the literal sums change: the law above would notice.
    group, table = small_group("S3")
    layers = [
        ("lift", table, [1, 2], None, 1.0, 0.0),
        ("phi", "relu"),
        ("group_conv", table, [1, 4], None, 1.0, 0.0),
        ("phi", "relu"),
        ("coset_pool", np.zeros(6, dtype=int)),
        ("dense", 1.0, 0.0),
    ]
    action = et.actions.permutations(group, table)
    x = np.random.default_rng(4).standard_normal((3, 6, 2))
    check(layers, x, action=action)
    layers[2] = ("group_conv", table.T, [1, 4], None, 1.0, 0.0)
    with pytest.raises(AssertionError, match="off by"):
        check(layers, x, action=action)
