"""Rotation groups, and representations: irreps of compact groups, sums, and what they are for subgroups."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import equitangents as et
from equitangents import actions, groups, nn, sphere
from equitangents.errors import EquitangentsError, InvalidArgumentError, InvalidTypeError, NotAnActionError, ShapeError
from equitangents.groups import group_named, permutations
from equitangents.groups.representations import as_representation
from equitangents.groups.rotations_of_space import rotation_angle, rotation_axis


def near_poles(count=50):
    """Rotations whose axis is nearly upright, where Euler angles are noise."""
    angles = np.random.default_rng(0).uniform(0, 6, (count, 3))
    angles[:, 1] = np.pi * (np.arange(count) % 2) + 10.0 ** np.random.default_rng(1).uniform(-16, -1, count)
    return groups.rotation_group.from_euler_angles(angles)


def test_irreps_of_rotations_are_wigner_matrices():
    g = np.concatenate([groups.o3(1).random(40), near_poles(), np.eye(3)[None], -np.diag([1.0, 1, -1])[None]])
    blocks = sphere.wigner(g, 5)
    for irrep in groups.o3(1).irreps(5):
        l = (irrep.dimension - 1) // 2
        sign = np.round(np.linalg.det(g))
        proper = sphere.wigner(g * sign[:, None, None], 5)[l]
        odd = "odd" in irrep.name
        np.testing.assert_allclose(irrep.at(g), proper * (sign[:, None, None] if odd else 1), atol=1e-13)
        if odd == bool(l % 2):
            np.testing.assert_allclose(irrep.at(g), blocks[l], atol=1e-13)


@pytest.mark.parametrize("group", [groups.so2(), groups.o2(), groups.so3(2), groups.o3(2)], ids=lambda g: g.name)
def test_matrices_multiply_as_elements(group):
    rng = np.random.default_rng(0)
    for g, h in zip(group.draw(4, rng), group.draw(4, rng), strict=True):
        for irrep in group.irreps(4):
            product = irrep(g) @ irrep(h)
            np.testing.assert_allclose(product, irrep(group.compose(g, h)), atol=1e-13)
            np.testing.assert_allclose(irrep(g) @ irrep(g).T, np.eye(irrep.dimension), atol=1e-13)
    whole = groups.direct_sum(*group.irreps(3))
    assert whole.at(group).shape == (group.order, whole.dimension, whole.dimension)


def test_o2_means_are_exact_for_products_of_frequencies_below_the_bandlimit():
    group = groups.o2(4)
    for a in group.irreps(4):
        for b in group.irreps(4):
            mean = np.einsum("g,gij,gkl->ijkl", group.weights, a.at(group.nodes), b.at(group.nodes))
            expected = 0 if a != b else np.einsum("ik,jl->ijkl", *[np.eye(a.dimension)] * 2) / a.dimension
            np.testing.assert_allclose(mean, np.broadcast_to(expected, mean.shape), atol=1e-14)


def test_o2_answers_what_groups_answer():
    group = groups.o2(3)
    flip = np.diag([1.0, -1.0])
    assert group.angle(flip) is None
    assert group.label(flip) == "reflection, 0.0°"
    assert group == groups.o2(3)
    assert group != groups.o2(5)
    assert group.is_same_group(groups.o2(5))
    np.testing.assert_allclose(group.compose(flip, group.inverse(flip)), group.identity, atol=1e-15)
    assert len(group.nodes) == group.order == 10
    assert repr(group) == "<O(2) sampled at bandlimit 3, 10 points>"
    with pytest.raises(InvalidArgumentError, match="expected orthogonal matrices"):
        group.check_element("g", 2 * flip)
    with pytest.raises(ShapeError, match="give matrices"):
        group.check_element("g", 3.0)


def test_irreps_of_compact_groups_are_representations_of_their_subgroups():
    plane = groups.wallpaper(rotations=4, reflections=True, shape=(3, 3))
    cases = [
        (groups.so2().irreps(4), groups.cyclic(5)),
        (groups.o2().irreps(4), groups.dihedral(6)),
        (groups.o2().irreps(4), plane),
        (groups.dihedral(4).irreps("real"), plane),
        (groups.so3(2).irreps(4), groups.icosahedral()),
        (groups.o3(2).irreps(3), groups.from_matrices([s * np.diag([1, t, t]) for s in (1, -1) for t in (1, -1)])),
    ]
    for irreps, group in cases:
        for irrep in irreps:
            as_representation("M", groups.direct_sum(irrep).at(group)).at(group)  # raises unless ρ(g)ρ(h) = ρ(gh)


def test_the_element_of_d1_is_a_reflection_and_that_of_c2_a_turn():
    vector = groups.direct_sum(groups.o2().irreps(2)[2])
    assert np.allclose(vector.at(groups.dihedral(1))[1], np.diag([1, -1]))
    assert np.allclose(vector.at(groups.cyclic(2))[1], np.diag([-1, -1]))


@pytest.mark.parametrize("whole", [groups.dihedral(4), groups.cyclic(6), groups.wallpaper(2, True, (2, 2))], ids=str)
def test_representations_at_subgroups_are_those_at_their_elements(whole):
    """A group of order two is a half turn or a reflection along any axis: its table says not which."""
    plane = groups.direct_sum(*groups.o2().irreps(5))
    for pair in itertools.combinations_with_replacement(range(whole.order), 2):
        part = whole.generated_subgroup(pair)
        np.testing.assert_allclose(plane.at(part.as_group), plane.at(whole)[part.elements], atol=1e-12)
        last = part.as_group.generated_subgroup(part.order - 1)
        np.testing.assert_allclose(plane.at(last.as_group), plane.at(part.as_group)[last.elements], atol=1e-12)
    with pytest.raises(InvalidArgumentError, match="representation is not of the group"):
        plane.at(groups.symmetric(3).generated_subgroup(1).as_group)


def test_networks_on_groups_of_one_table_have_the_outputs_of_their_own_elements(rng):
    """A swap of two positions by a half turn, or by a reflection along one of three axes."""
    D4, plane, x = groups.dihedral(4), groups.direct_sum(*groups.o2().irreps(3)), rng.normal(size=(2, 2, 1))
    diagonals = D4.subgroup([0, 2, 5, 7]).as_group
    parts = [D4.subgroup([0, 4]).as_group, diagonals.subgroup([0, 2]).as_group, diagonals.subgroup([0, 1]).as_group]
    for group in [groups.cyclic(2), groups.dihedral(1), *parts]:
        swap = actions.permutations(group, [[0, 1], [1, 0]])
        net = nn.Sequential(nn.Lift(swap, 4), nn.Relu(), nn.Readout(plane))
        moved = plane.at(group)[1] @ net.kernel(x).ntk
        np.testing.assert_allclose(net.kernel(swap(1, x), x).ntk, moved, atol=1e-12)


def test_restricted_actions_are_of_subgroups_of_the_action_s_own_group():
    plane = groups.direct_sum(*groups.o2().irreps(3))
    flip = actions.restrict(actions.image_dihedral(1), groups.cyclic(2).subgroup([0, 1]))
    np.testing.assert_allclose(plane.at(flip.group), plane.at(groups.dihedral(1)), atol=1e-12)


def test_representations_of_other_groups_are_refused():
    with pytest.raises(InvalidArgumentError, match="expected one that says what reflections do"):
        groups.direct_sum(groups.so2().irreps(2)[1]).at(groups.dihedral(1))
    with pytest.raises(InvalidArgumentError, match="expected one that says what reflections do"):
        groups.direct_sum(groups.so2().irreps(2)[1]).at(groups.dihedral(3))
    with pytest.raises(InvalidArgumentError, match="expected one that says what reflections do"):
        groups.direct_sum(groups.so3(2).irreps(2)[1]).at(groups.o3(2))
    with pytest.raises(InvalidArgumentError, match="representation is not of the group"):
        groups.direct_sum(groups.so3(2).irreps(2)[1]).at(groups.symmetric(3))
    with pytest.raises(InvalidArgumentError, match="expected orthogonal matrices"):
        as_representation("M", np.array([[[2.0]], [[1.0]]])).at(groups.cyclic(2))
    with pytest.raises(InvalidTypeError, match="expected an irrep"):
        groups.direct_sum("vector")
    with pytest.raises(InvalidArgumentError, match="at least one"):
        groups.direct_sum()


def test_representations_are_values():
    S3 = groups.symmetric(3)
    plane = S3.irreps("real")[2]
    alone, both = groups.direct_sum(plane), groups.direct_sum(plane, plane)
    assert both == plane + alone == alone + plane == alone + alone
    assert hash(alone + alone) == hash(both) != hash(alone)
    assert groups.direct_sum(groups.so3(2).irreps(2)[1]) == groups.direct_sum(groups.so3(9).irreps(5)[1])


@pytest.mark.parametrize("group", [groups.symmetric(3), groups.so3(2), groups.so2()], ids=lambda g: g.name)
def test_the_action_by_a_representation_multiplies_by_its_matrices(group):
    irrep = group.irreps("real")[2] if group.elements else group.irreps(2)[1]
    action = actions.represented(group, irrep)
    y = np.random.default_rng(0).normal(size=(3, irrep.dimension))
    for g in group.draw(2, np.random.default_rng(0)):
        np.testing.assert_allclose(action(g, y), y @ irrep(g).T, atol=1e-14)
    with pytest.raises((ShapeError, NotAnActionError)):
        action.verify(np.ones((2, 7)))


def test_models_whose_outputs_turn_by_irreps_of_rotations_are_saved(tmp_path, rng):
    net = nn.Sequential(nn.SphereLift(groups.so3(2), 4, resolution=4), nn.Erf(), nn.Readout(groups.so3(2).irreps(2)[1]))
    model = et.InfiniteEnsemble(net, ridge=1e-3).fit(x := rng.standard_normal((3, 4, 1)), rng.standard_normal((3, 3)))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(et.InfiniteEnsemble.load(tmp_path / "model").predict(x), model.predict(x))


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


def test_bad_bandlimits_are_refused():
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
