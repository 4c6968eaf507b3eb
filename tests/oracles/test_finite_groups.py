"""The package's groups against groups written out by hand, through the public tables and numberings only."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from oracles import finite_groups

PLANES = [(1, 0, (3, 4)), (2, 0, (3, 4)), (2, 1, (3, 4)), (4, 0, (4, 4)), (4, 0, (5, 5)), (4, 1, (4, 4))]


@pytest.mark.parametrize("name", finite_groups.SMALL)
def test_a_list_of_permutations_keeps_its_order(name):
    elements = finite_groups.SMALL[name]()
    group = et.groups.from_permutations(elements)
    np.testing.assert_array_equal(group.table, finite_groups.multiplication_table(elements))


def _product(name):
    g = et.groups
    return {
        "S3": lambda: g.symmetric(3),
        "D4": lambda: g.dihedral(4),
        "Q8": g.quaternion,
        "C3xC5": lambda: g.direct_product(g.cyclic(3), g.cyclic(5)),
    }[name]()


@pytest.mark.parametrize("name", finite_groups.SMALL)
@pytest.mark.parametrize("other", finite_groups.SMALL)
def test_named_groups_are_the_groups_they_name(name, other):
    ours = finite_groups.multiplication_table(finite_groups.SMALL[name]())
    assert finite_groups.isomorphic(np.asarray(_product(other).table), ours) == (name == other)


@pytest.mark.parametrize(("rotations", "reflections", "shape"), PLANES)
def test_wallpaper_groups_are_plane_motions(rotations, reflections, shape):
    motions = finite_groups.plane_motions(rotations, reflections, shape)
    group = et.groups.wallpaper(rotations=rotations, reflections=bool(reflections), shape=shape)
    assert group.order == len(motions)
    number = [group.index(*motion) for motion in motions]
    assert sorted(number) == list(range(group.order))
    assert [_plain(group.element(i)) for i in number] == motions
    ours = finite_groups.motion_table(rotations, reflections, shape)
    np.testing.assert_array_equal(np.asarray(group.table)[np.ix_(number, number)], np.array(number)[ours])


def _plain(element):
    rotation, reflection, translation = element
    return int(rotation), int(reflection), tuple(int(t) for t in translation)


@pytest.mark.parametrize("name", finite_groups.SMALL)
def test_cosets_agree(name):
    elements = finite_groups.SMALL[name]()
    group, table = et.groups.from_permutations(elements), finite_groups.multiplication_table(elements)
    for generator in range(len(elements)):
        inside = finite_groups.subgroup(table, [generator])
        labels = group.subgroup(inside).left_cosets
        np.testing.assert_array_equal(labels, finite_groups.left_cosets(table, inside))
