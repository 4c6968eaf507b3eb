"""Elements that an audit draws: products, inverses, angles and axes are those of the groups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from equitangents.groups import dihedral, group_named, permutations
from equitangents.groups.rotations_of_space import rotation_angle, rotation_axis

SO2, SO3, O3 = (group_named(name) for name in ("SO2", "SO3", "O3"))
SYMMETRIES = [SO2, SO3, O3, permutations(6), dihedral(5)]


def drawn(symmetry) -> list:
    return symmetry.draw(9, np.random.default_rng(3))


@pytest.mark.parametrize("symmetry", SYMMETRIES, ids=str)
def test_an_element_times_its_inverse_is_the_identity(symmetry) -> None:
    for g in drawn(symmetry):
        for product in (symmetry.compose(g, symmetry.inverse(g)), symmetry.compose(symmetry.inverse(g), g)):
            off = np.abs(np.asarray(product, float) - np.asarray(symmetry.identity, float))
            assert np.max(np.minimum(off, np.abs(off - 360))) < 1e-9


@pytest.mark.parametrize("symmetry", SYMMETRIES, ids=str)
def test_the_inverse_of_a_product_is_the_product_of_inverses_in_the_other_order(symmetry) -> None:
    g, h, *_ = drawn(symmetry)
    inverse = symmetry.compose(symmetry.inverse(h), symmetry.inverse(g))
    np.testing.assert_allclose(symmetry.inverse(symmetry.compose(g, h)), inverse, atol=1e-9)


def test_a_permutation_takes_first_what_stands_last() -> None:
    first, then = np.array([1, 2, 0, 3]), np.array([0, 1, 3, 2])
    assert permutations(4).compose(then, first).tolist() == [1, 3, 0, 2]


def test_a_rotation_is_the_turn_by_its_angle_about_its_axis() -> None:
    for g in drawn(SO3):
        angle, axis = rotation_angle(g), rotation_axis(g)
        assert angle is not None
        np.testing.assert_allclose(Rotation.from_rotvec(np.radians(angle) * axis).as_matrix(), g, atol=1e-7)


def test_every_other_element_of_o3_is_a_reflection() -> None:
    signs = [round(float(np.linalg.det(g))) for g in drawn(O3)]
    assert signs == [1, -1, 1, -1, 1, -1, 1, -1, 1]


def test_rotations_are_drawn_by_the_haar_measure() -> None:
    # E R = 0, E R_ij² = 1/3, and tr R is distributed as 1 + 2 cos of an angle of density (1 - cos)/π, of variance 1
    R = np.array(SO3.draw(4000, np.random.default_rng(0)))
    assert np.max(np.abs(R.mean(axis=0))) < 0.04
    assert np.max(np.abs((R**2).mean(axis=0) - 1 / 3)) < 0.03
    assert abs(np.trace(R, axis1=1, axis2=2).var() - 1) < 0.1


def test_angles_are_equidistant_and_begin_anywhere() -> None:
    draws = np.array([SO2.draw(4, np.random.default_rng(seed)) for seed in range(40)])
    np.testing.assert_allclose(np.diff(draws, axis=1), 90)
    assert np.ptp(draws[:, 0]) > 60
