"""Laws that every group obeys, on random groups, against literal sums over all elements."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_groups import groups_with_elements, small_groups

from equitangents import groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError


class TestAxioms:
    @given(groups_with_elements(3))
    def test_associative_with_identity_and_inverses(self, case):
        G, a, b, c = case
        assert G.compose(G.compose(a, b), c) == G.compose(a, G.compose(b, c))
        assert G.compose(a, G.identity) == a == G.compose(G.identity, a)
        assert G.compose(a, G.inverse(a)) == G.identity == G.compose(G.inverse(a), a)

    @given(groups_with_elements(2))
    def test_table_is_compose_and_read_only(self, case):
        G, a, b = case
        assert G.table[a, b] == G.compose(a, b)
        assert isinstance(G.compose(a, b), int)
        assert isinstance(G.inverse(a), int)
        assert G.table.dtype == np.int32
        with pytest.raises(ValueError, match="read-only"):
            G.table[0, 0] = 1

    @given(small_groups())
    def test_arrays_compose_with_broadcasting(self, G):
        everything = np.arange(G.order)
        assert np.array_equal(G.compose(everything[:, None], everything), G.table)
        assert np.array_equal(G.inverse(everything), G.inverses)
        assert np.array_equal(np.diagonal(G.compose(everything[:, None], G.inverses)), [G.identity] * G.order)

    @given(groups_with_elements(1))
    def test_labels_name_elements(self, case):
        G, a = case
        assert G.index(G.element(a)) == a
        label = G.element(a)
        if isinstance(label, tuple):
            assert G.index(*label) == a


class TestStructure:
    @given(small_groups())
    def test_generators_generate(self, G):
        reached, queue = {G.identity}, [G.identity]
        for a in queue:
            for s in G.generators:
                b = int(G.table[a, s])
                if b not in reached:
                    reached.add(b)
                    queue.append(b)
        assert len(reached) == G.order
        assert G.generated_subgroup(G.generators).order == G.order

    @given(small_groups())
    def test_abelian_means_symmetric_table(self, G):
        assert G.is_abelian == np.array_equal(G.table, G.table.T)

    @given(small_groups())
    def test_conjugacy_classes_literally(self, G):
        expected = {
            frozenset(int(G.table[G.table[g, a], G.inverses[g]]) for g in range(G.order)) for a in range(G.order)
        }
        assert [int(c[0]) for c in G.conjugacy_classes] == sorted(int(c.min()) for c in G.conjugacy_classes)
        assert {frozenset(c.tolist()) for c in G.conjugacy_classes} == expected


class TestSubgroups:
    @given(groups_with_elements(2))
    def test_generated_subgroup_is_closed_and_minimal(self, case):
        G, a, b = case
        H = G.generated_subgroup([a, b])
        members = set(H.elements.tolist())
        assert {G.identity, a, b} <= members
        assert all(int(G.table[x, y]) in members for x, y in itertools.product(members, members))
        words, fresh = {G.identity}, {G.identity}
        while fresh:
            fresh = {int(G.table[x, s]) for x in fresh for s in (a, b)} - words
            words |= fresh
        assert members == words
        assert G.order % H.order == 0
        assert G.subgroup(H.elements) == H
        assert hash(G.subgroup(H.elements)) == hash(H)

    @given(groups_with_elements(1))
    def test_left_cosets_literally(self, case):
        G, a = case
        H = G.generated_subgroup([a])
        numbers, expected = {}, []
        for g in range(G.order):
            coset = frozenset(int(G.table[g, h]) for h in H.elements)
            expected.append(numbers.setdefault(coset, len(numbers)))
        assert H.left_cosets.tolist() == expected
        assert H.left_cosets.dtype == np.int32
        assert H.index == len(numbers)

    @given(groups_with_elements(2))
    def test_as_group_multiplies_as_in_the_whole(self, case):
        G, a, b = case
        H = G.generated_subgroup([a, b])
        K = H.as_group
        for i, j in itertools.product(range(min(K.order, 8)), repeat=2):
            assert H.elements[K.compose(i, j)] == G.table[H.elements[i], H.elements[j]]
        assert K.element(K.order - 1) == H.elements[-1]

    def test_cosets_of_a_large_group_are_counted_in_pieces(self):
        G = groups.wallpaper(4, False, (25, 25))
        H = G.subgroup(np.arange(625))
        assert np.array_equal(H.left_cosets, np.repeat(np.arange(4), 625))


class TestValues:
    def test_equality_is_by_table(self):
        assert groups.cyclic(3) == groups.from_permutations([(0, 1, 2), (1, 2, 0), (2, 0, 1)])
        assert hash(groups.cyclic(3)) == hash(groups.from_permutations([(0, 1, 2), (1, 2, 0), (2, 0, 1)]))
        assert groups.cyclic(4) != groups.direct_product(groups.cyclic(2), groups.cyclic(2))
        assert groups.quaternion() != groups.dihedral(4)
        assert groups.cyclic(3) != 3

    def test_what_else_a_group_carries_counts(self):
        flat, tall = groups.wallpaper(1, False, (1, 6)), groups.wallpaper(1, False, (6, 1))
        assert flat.has_same_table(tall)
        assert flat != tall
        assert flat == groups.wallpaper(1, False, [1, 6])
        assert groups.octahedral() == groups.octahedral()
        assert groups.octahedral() != groups.from_table(groups.octahedral().table)
        assert groups.octahedral().has_same_table(groups.from_table(groups.octahedral().table))

    @pytest.mark.parametrize("G", [groups.dihedral(3), groups.icosahedral(), groups.wallpaper(4, True, (3, 3))])
    def test_pickles_alone_and_as_that_of_a_subgroup(self, G):
        assert pickle.loads(pickle.dumps(G)) == pickle.loads(pickle.dumps(G.subgroup([G.identity]))).group == G

    def test_repr_and_iteration(self):
        G = groups.quaternion()
        assert repr(G) == "<group Q8 of order 8>"
        assert list(G) == list(range(8))
        assert len(G) == 8


class TestBadInput:
    @given(small_groups(), st.integers(-5, -1))
    def test_elements_out_of_range(self, G, below):
        for wrong in (below, G.order):
            with pytest.raises(InvalidArgumentError, match=f"b is {wrong}; expected 0 to"):
                G.compose(0, wrong)
            with pytest.raises(InvalidArgumentError, match="a is"):
                G.inverse(wrong)
            with pytest.raises(InvalidArgumentError, match="i is"):
                G.element(wrong)

    def test_elements_of_another_type(self):
        with pytest.raises(InvalidTypeError, match="a has dtype float64"):
            groups.cyclic(3).compose(1.0, 2)
        with pytest.raises(InvalidTypeError, match="i is an array"):
            groups.cyclic(3).element(np.array([1, 2]))

    def test_unknown_labels(self):
        with pytest.raises(InvalidArgumentError, match=r"label is \(0, 0\)"):
            groups.symmetric(2).index(0, 0)
        with pytest.raises(InvalidArgumentError, match="label is"):
            groups.quaternion().index({})

    def test_table_too_large(self):
        G = groups.wallpaper(4, False, (100, 100))
        assert G.compose(39_999, G.inverse(39_999)) == G.identity
        with pytest.raises(ValueError, match="multiplication table"):
            G.table
        with pytest.raises(ValueError, match="multiplication table"):
            groups.cyclic(10**6)
