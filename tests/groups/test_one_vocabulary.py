"""Finite and compact groups answer the same questions."""

import copy

import numpy as np
import pytest

from equitangents import groups
from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents.groups import group_named

NAMES = ["C6", "D3", "S3", "S8", "SO2", "SO3", "O3", "tetrahedral"]


@pytest.mark.parametrize("name", NAMES)
class TestEveryGroup:
    def test_multiplies_and_inverts_what_it_draws(self, name):
        G = group_named(name)
        a, b, c = (G.draw(1, np.random.default_rng(seed))[0] for seed in range(3))
        product = lambda *g: G.compose(g[0], product(*g[1:])) if len(g) > 1 else g[0]
        for same, other in (
            (G.compose(G.compose(a, b), c), product(a, b, c)),
            (G.inverse(G.compose(a, b)), G.compose(G.inverse(b), G.inverse(a))),
            (G.compose(a, G.inverse(a)), G.identity),
        ):
            np.testing.assert_allclose(same, other, atol=1e-10)

    def test_shows_its_elements(self, name):
        G = group_named(name)
        for g in G.draw(3, np.random.default_rng(0)):
            assert G.label(g)
            assert np.shape(G.parameter(g)) == np.shape(g)
            np.testing.assert_array_equal(G.check_element("g", g), g)

    def test_lists_its_elements_or_says_that_there_is_no_list(self, name):
        G = group_named(name)
        assert (G.elements is None) == (name in ("S8", "SO2", "SO3", "O3"))
        if G.elements is not None:
            assert len(G.elements) == G.order

    def test_takes_means_by_weights_that_sum_to_one_or_draws(self, name):
        G = group_named(name)
        if G.nodes is None:
            assert name == "S8"
            assert G.weights is None
        else:
            assert len(G.nodes) == len(G.weights)
            assert G.weights.sum() == pytest.approx(1, abs=1e-13)

    def test_is_a_value(self, name):
        G = group_named(name)
        assert copy.deepcopy(G) is G
        assert group_named(name) == G
        assert hash(G) == hash(group_named(name))
        assert G.is_same_group(group_named(name))
        assert not G.is_same_group(groups.cyclic(2))
        with pytest.raises(AttributeError, match="immutable"):
            G.name = "other"


@pytest.mark.parametrize("G", [groups.so2(4), groups.so3(4), groups.o3(4)], ids=str)
def test_characters_of_compact_groups_are_orthonormal(G):
    """∫ χ_r χ_s dg is 1 for r = s, 0 else; 2 for turns of a plane, which are two complex irreps together."""
    irreps = G.irreps(3)
    chi = np.array([np.asarray(irrep.character(np.asarray(G.nodes))) * np.ones(len(G.weights)) for irrep in irreps])
    gram = (chi * G.weights) @ chi.T
    own = [2.0 if G.name == "SO(2)" and irrep.dimension == 2 else 1.0 for irrep in irreps]
    np.testing.assert_allclose(gram, np.diag(own), atol=1e-12)
    np.testing.assert_allclose([irrep.character(G.identity) for irrep in irreps], [i.dimension for i in irreps])


COMPACT = [groups.so2(4), groups.o2(4), groups.so3(4), groups.o3(4)]


@pytest.mark.parametrize("G", COMPACT, ids=str)
def test_irreps_of_compact_groups_are_asked_for_by_a_whole_number(G):
    assert G.irreps(0) == ()
    assert G.irreps(np.int64(2)) == G.irreps(2)
    for count in (1.5, -1, "real"):
        with pytest.raises(EquitangentsError, match=r"count is .*; expected a whole number, at least 0"):
            G.irreps(count)


@pytest.mark.parametrize("G", [*COMPACT, groups.permutations(4), groups.cyclic(1), groups.dihedral(3)], ids=str)
def test_no_draws_are_an_empty_array(G):
    assert G.random(0).shape == (0, *np.shape(G.identity))
    for count in (-1, 2.5):
        with pytest.raises(EquitangentsError, match=r"count is .*; expected a whole number, at least 0"):
            G.random(count)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_finite_group_draws_at_most_all_but_the_identity(order):
    assert groups.cyclic(order).random(9).tolist() == list(range(1, order))


def test_bandlimits_do_not_change_which_group_it_is():
    assert groups.so3(2).is_same_group(groups.so3(5))
    assert groups.o3(2) != groups.so3(2) != groups.so3(5)
    assert not groups.so3(2).is_same_group(groups.o3(2))
    assert groups.so2(2).is_same_group(groups.so2(3))


def test_angles_of_rotations_follow_the_trace():
    for g in groups.so3(1).draw(20, np.random.default_rng(3)):
        assert np.cos(np.radians(groups.so3(1).angle(g))) == pytest.approx((np.trace(g) - 1) / 2, abs=1e-12)
    assert groups.o3(1).angle(-np.eye(3)) is None
    assert [round(groups.octahedral().angle(g)) for g in groups.octahedral()].count(120) == 8


@pytest.mark.parametrize(
    ("G", "wrong"),
    [
        (groups.so2(), "x"),
        (groups.so2(), np.inf),
        (groups.permutations(3), [0, 0, 1]),
        (groups.permutations(3), [0.0, 1.0, 2.0]),
        (groups.so3(1), np.full((3, 3), np.nan)),
        (groups.cyclic(3), 3),
    ],
)
def test_what_is_no_element_is_refused(G, wrong):
    with pytest.raises(EquitangentsError, match="g "):
        G.check_element("g", wrong)


def test_names_without_a_size_are_refused():
    for name in ("S_n", "translations"):
        with pytest.raises(InvalidArgumentError, match="expected a size"):
            group_named(name)
