"""SO(3) and O(3) as quadratures; draws from compact groups and permutations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from equitangents import groups, sphere
from equitangents.errors import EquitangentsError
from equitangents.groups import group_named, permutations
from equitangents.groups.rotations_of_space import rotation_angle, rotation_axis


@given(st.integers(1, 5), st.booleans())
def test_the_quadrature_is_exact_for_products_of_wigner_functions(bandlimit, reflections):
    G = (groups.o3 if reflections else groups.so3)(bandlimit)
    assert G.weights.sum() == pytest.approx(1, abs=1e-14)
    D = np.concatenate(
        [np.sqrt(2 * l + 1) * d.reshape(G.order, -1) for l, d in enumerate(sphere.wigner(G.matrices, bandlimit))],
        axis=1,
    )
    assert np.allclose(D.T @ (G.weights[:, None] * D), np.eye(D.shape[1]), atol=1e-13)


def test_matrices_are_rotations_of_the_angles():
    G = groups.so3(3)
    assert np.allclose(np.linalg.det(G.matrices), 1)
    alpha, beta, gamma = G.euler_angles[17]
    z = lambda t: np.array([[np.cos(t), -np.sin(t), 0], [np.sin(t), np.cos(t), 0], [0, 0, 1]])
    y = np.array([[np.cos(beta), 0, np.sin(beta)], [0, 1, 0], [-np.sin(beta), 0, np.cos(beta)]])
    assert np.allclose(G.matrices[17], z(alpha) @ y @ z(gamma))
    full = groups.o3(3)
    assert full.order == 2 * G.order
    assert np.allclose(full.matrices[G.order :], -G.matrices)


def test_random_rotations_follow_the_haar_measure():
    R = groups.so3(1).random(20000, seed=1)
    assert np.allclose(R @ R.transpose(0, 2, 1), np.eye(3), atol=1e-12)
    assert np.allclose(np.linalg.det(R), 1)
    assert np.abs(R.mean(axis=0)).max() < 0.02
    assert np.abs((R**2).mean(axis=0) - 1 / 3).max() < 0.02
    assert 0.4 < (np.linalg.det(groups.o3(1).random(500)) > 0).mean() < 0.6


def test_equality_hash_and_errors():
    assert groups.so3(3) == groups.so3(3) != groups.o3(3)
    assert len({groups.so3(3), groups.so3(3), groups.so3(4)}) == 2
    with pytest.raises(AttributeError, match="immutable"):
        groups.so3(2).bandlimit = 3
    for bad in (0, 1000, 2.5, True):
        with pytest.raises(EquitangentsError, match="bandlimit"):
            groups.so3(bad)


SO2, SO3, O3 = (group_named(name) for name in ("SO2", "SO3", "O3"))


def drawn(symmetry) -> list:
    return symmetry.draw(9, np.random.default_rng(3))


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


def test_angles_are_equidistant_and_begin_anywhere() -> None:
    draws = np.array([SO2.draw(4, np.random.default_rng(seed)) for seed in range(40)])
    np.testing.assert_allclose(np.diff(draws, axis=1), 90)
    assert np.ptp(draws[:, 0]) > 60
