"""Known groups against literal products: of residues, of matrices in the plane, of permutations, of quaternions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError


@given(st.integers(1, 30))
def test_cyclic_adds_residues(n):
    G = groups.cyclic(n)
    assert G.identity == 0
    assert all(G.table[a, b] == (a + b) % n for a in range(n) for b in range(n))


@given(st.integers(3, 9))
def test_dihedral_multiplies_as_plane_matrices(n):
    G = groups.dihedral(n)

    def matrix(element):
        k, f = G.element(element)
        c, s = np.cos(2 * np.pi * k / n), np.sin(2 * np.pi * k / n)
        return np.array([[c, -s], [s, c]]) @ np.diag([1, -1]) ** f if f else np.array([[c, -s], [s, c]])

    matrices = [matrix(g) for g in range(2 * n)]
    for a, b in itertools.product(range(2 * n), repeat=2):
        np.testing.assert_allclose(matrices[a] @ matrices[b], matrices[G.compose(a, b)], atol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_small_dihedral_groups(n):
    assert groups.dihedral(n) == (
        groups.cyclic(2) if n == 1 else groups.direct_product(groups.cyclic(2), groups.cyclic(2))
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_symmetric_composes_permutations(n):
    G = groups.symmetric(n)
    permutations = list(itertools.permutations(range(n)))
    assert [G.element(i) for i in G] == permutations
    for a, b in itertools.product(range(G.order), repeat=2):
        p, q = permutations[a], permutations[b]
        assert permutations[G.compose(a, b)] == tuple(p[q[x]] for x in range(n))


def test_symmetric_six_on_random_elements():
    G, rng = groups.symmetric(6), np.random.default_rng(0)
    assert G.order == 720
    for a, b in rng.integers(0, 720, (50, 2)):
        p, q = G.element(a), G.element(b)
        assert G.element(G.compose(a, b)) == tuple(p[q[x]] for x in range(6))


def test_quaternion_multiplies_as_complex_matrices():
    G = groups.quaternion()
    unit = {
        "1": np.eye(2),
        "i": np.diag([1j, -1j]),
        "j": np.array([[0, 1], [-1, 0]]),
        "k": np.array([[0, 1j], [1j, 0]]),
    }
    matrices = {**unit, **{"-" + name: -m for name, m in unit.items()}}
    for a, b in itertools.product(range(8), repeat=2):
        product = matrices[G.element(a)] @ matrices[G.element(b)]
        assert np.array_equal(product, matrices[G.element(G.compose(a, b))])
    assert G.element(G.compose(G.index("i"), G.index("j"))) == "k"


@pytest.mark.parametrize("make", [groups.cyclic, groups.dihedral, groups.symmetric])
def test_bad_sizes(make):
    with pytest.raises(InvalidArgumentError, match="n is 0; expected a positive integer"):
        make(0)
    with pytest.raises(InvalidTypeError, match=r"n is 2\.5"):
        make(2.5)
    with pytest.raises(InvalidTypeError, match="n is True"):
        make(True)


def test_symmetric_groups_that_are_too_large():
    with pytest.raises(InvalidArgumentError, match="n is 8; expected at most 7"):
        groups.symmetric(8)


def test_permutations_that_are_too_many_to_list_are_drawn():
    group = groups.permutations(30)
    assert (group.name, group.n) == ("S30", 30)
    for g in group.draw(4, np.random.default_rng(0)):
        assert sorted(np.asarray(g).tolist()) == list(range(30))
