"""Groups from tables, permutations, matrices and products, and known ones: right answers, and errors that name why."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_groups import small_groups

from equitangents import groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError


class TestTables:
    @given(small_groups())
    def test_keeps_the_numbering(self, G):
        assert np.array_equal(groups.from_table(G.table).table, G.table)
        assert groups.from_table(G.table.tolist()).identity == G.identity

    @given(small_groups(), st.data())
    def test_refuses_a_table_with_two_entries_exchanged(self, G, data):
        if G.order < 3:
            return
        a = data.draw(st.integers(0, G.order - 1))
        b, c = data.draw(st.permutations(range(G.order)))[:2]
        table = G.table.copy()
        table[a, [b, c]] = table[a, [c, b]]
        with pytest.raises(InvalidArgumentError, match=r"table|element"):
            groups.from_table(table)

    def test_names_a_failure_of_associativity(self):
        # a loop of order 5: identity, and every row and column holds all elements, but it is no group
        loop = np.array([[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]])
        with pytest.raises(InvalidArgumentError, match="not associative") as error:
            groups.from_table(loop)
        x, s, y = error.value.value
        assert loop[loop[x, s], y] != loop[x, loop[s, y]]


class TestPermutations:
    @given(st.lists(st.permutations(range(4)), min_size=1, max_size=3))
    def test_generated_group_is_the_closure(self, generators):
        G = groups.generated_by_permutations(generators)
        closure = {tuple(range(4))}
        while True:
            products = {tuple(p[q[x]] for x in range(4)) for p in closure for q in map(tuple, generators)} | closure
            if products == closure:
                break
            closure = products
        assert {G.element(g) for g in G} == closure
        assert G.element(G.identity) == (0, 1, 2, 3)
        for a, b in itertools.product(range(min(G.order, 6)), repeat=2):
            p, q = G.element(a), G.element(b)
            assert G.element(G.compose(a, b)) == tuple(p[q[x]] for x in range(4))

    @given(st.permutations(range(6)))
    def test_keeps_the_order_of_the_list(self, order):
        all_of_them = list(itertools.permutations(range(3)))
        chosen = [all_of_them[i] for i in order]
        G = groups.from_permutations(chosen)
        assert [G.element(g) for g in G] == chosen
        assert chosen[G.identity] == (0, 1, 2)


class TestMatrices:
    @given(small_groups(), st.integers(0, 99))
    def test_multiplies_as_matrices_in_any_basis(self, G, seed):
        rng = np.random.default_rng(seed)
        regular = np.swapaxes(np.eye(G.order)[G.table], 1, 2)
        basis = np.eye(G.order) + 0.3 * rng.normal(size=(G.order, G.order)) / np.sqrt(G.order)
        matrices = basis @ regular @ np.linalg.inv(basis)
        M = groups.from_matrices(matrices)
        assert M.has_same_table(G)
        assert np.array_equal(M.matrices, matrices)


class TestSolids:
    SIZES = ([1, 3, 4, 4], [1, 3, 6, 6, 8], [1, 12, 12, 15, 20])  # of classes
    CASES = tuple(zip((groups.tetrahedral, groups.octahedral, groups.icosahedral), SIZES, strict=True))

    @pytest.mark.parametrize(("make", "sizes"), CASES)
    def test_rotations_closed_under_products(self, make, sizes):
        G, order = make(), sum(sizes)
        assert G.order == order
        assert sorted(len(c) for c in G.conjugacy_classes) == sizes
        assert np.array_equal(G.matrices[G.identity], np.eye(3))
        assert G.identity == 0
        np.testing.assert_allclose(np.linalg.det(G.matrices), 1, atol=1e-14)
        np.testing.assert_allclose(
            G.matrices @ G.matrices.transpose(0, 2, 1), np.eye(3) + np.zeros((order, 1, 1)), atol=4e-16
        )
        for a, b in np.random.default_rng(0).integers(0, order, (50, 2)):
            np.testing.assert_allclose(G.matrices[a] @ G.matrices[b], G.matrices[G.compose(a, b)], atol=4e-16)

    def test_they_keep_their_solids(self):
        phi = (1 + np.sqrt(5)) / 2
        signs = list(itertools.product((1, -1), repeat=2))
        solids = {
            groups.tetrahedral: [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)],
            groups.octahedral: [tuple(s * e) for s in (1, -1) for e in np.eye(3)],
            groups.icosahedral: [tuple(np.roll((0, s, t * phi), k)) for s, t in signs for k in range(3)],
        }
        for make, vertices in solids.items():
            expected = np.array(sorted(np.round(vertices, 9).tolist()))
            for m in make().matrices:
                image = np.round(np.array(vertices) @ m.T, 9) + 0.0
                np.testing.assert_allclose(np.array(sorted(image.tolist())), expected, atol=1e-8)


class TestProducts:
    @given(small_groups(), small_groups(), st.data())
    def test_direct_product_multiplies_side_by_side(self, G, H, data):
        if G.order * H.order > 300:
            return
        P = groups.direct_product(G, H)
        x, y = (data.draw(st.integers(0, P.order - 1)) for _ in range(2))
        (a, b), (c, d) = P.element(x), P.element(y)
        assert x == a * H.order + b
        assert P.element(P.compose(x, y)) == (G.compose(a, c), H.compose(b, d))


def test_generated_subgroups_of_few_elements():
    C4 = groups.cyclic(4)
    assert C4.generated_subgroup([]).elements.tolist() == [C4.identity]
    assert C4.generated_subgroup(2).elements.tolist() == [0, 2]


PERMUTATIONS, GENERATED = groups.from_permutations, groups.generated_by_permutations
LARGE = [(1, 2, 3, 4, 0), (1, 0, 2, 3, 4)]


@pytest.mark.parametrize(
    ("make", "given", "error", "message"),
    [
        (groups.from_table, [[0, 1], [1]], ShapeError, "table is not a rectangular array"),
        (groups.from_table, [[0, 1]], ShapeError, "square"),
        (groups.from_table, [[0.0]], InvalidTypeError, "dtype float64"),
        (groups.from_table, [[0, 1], [1, 2]], InvalidArgumentError, r"table at \(1, 1\) is 2"),
        (groups.from_table, [[1, 1], [1, 1]], InvalidArgumentError, "no identity"),
        (groups.from_table, [[0, 1], [1, 1]], InvalidArgumentError, "without repeated entries, for inverses"),
        (PERMUTATIONS, [(0, 1, 2), (1, 2, 0)], InvalidArgumentError, r"permutations lacks the product of \(1, 1\)"),
        (PERMUTATIONS, [(0, 1), (1, 0), (1, 0)], InvalidArgumentError, r"permutations\[2\] repeats row 1"),
        (PERMUTATIONS, [(0, 1), (0, 0)], InvalidArgumentError, r"permutations\[1\] is \[0, 0\]; expected a"),
        (PERMUTATIONS, [(0, 1), (0, 1, 2)], ShapeError, "unequal length"),
        (PERMUTATIONS, [], ShapeError, "shape"),
        (PERMUTATIONS, [(0.0, 1.0)], InvalidTypeError, "dtype float64"),
        (partial(GENERATED, max_order=100), LARGE, InvalidArgumentError, "more elements than 100"),
        (groups.from_matrices, [np.eye(2), [[0, -1], [1, 0]]], InvalidArgumentError, r"matrices lacks .* \(1, 1\)"),
        (groups.from_matrices, [np.eye(2), np.eye(2) * (1 + 1e-12)], InvalidArgumentError, r"matrices\[1\] repeats"),
        (groups.from_matrices, [np.zeros((2, 2))], InvalidArgumentError, r"matrices\[0\] is .*an invertible matrix"),
        (groups.from_matrices, [np.eye(2), np.full((2, 2), np.nan)], NotFiniteError, r"holds NaN .* index \(1, 0, 0\)"),
        (groups.from_matrices, np.ones((2, 2, 3)), ShapeError, r"expected \(n, d, d\)"),
        (groups.from_matrices, [np.eye(2), np.eye(3)], ShapeError, "equal shape"),
        (groups.from_matrices, np.eye(2)[None] * 1j, InvalidTypeError, "complex"),
        (lambda H: groups.direct_product(groups.cyclic(2), H), 3, InvalidTypeError, "H is of type int"),
        (groups.cyclic(4).generated_subgroup, [1.9], InvalidTypeError, "generators has dtype .*; elements are ints"),
        (groups.cyclic(4).generated_subgroup, [True], InvalidTypeError, "generators has dtype .*; elements are ints"),
        (groups.cyclic(6).subgroup, [], InvalidArgumentError, "expected at least the identity"),
        (groups.cyclic(6).subgroup, [0, 1], InvalidArgumentError, r"lacks the product of \(1, 1\)"),
        (groups.cyclic(6).subgroup, [0, 6], InvalidArgumentError, "elements is 6"),
        (groups.symmetric, 8, InvalidArgumentError, "n is 8; expected at most 7"),
    ],
)  # fmt: skip
def test_what_makes_no_group_is_refused(make, given, error, message):
    with pytest.raises(error, match=message):
        make(given)


def test_importing_groups_is_light(tmp_path):
    import subprocess
    import sys

    code = "import sys, equitangents.groups; print(sorted({'jax', 'scipy', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


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


def test_quaternion_multiplies_as_complex_matrices():
    G = groups.quaternion()
    i, j = np.diag([1j, -1j]), np.array([[0, 1], [-1, 0]])
    unit = {"1": np.eye(2), "i": i, "j": j, "k": np.array([[0, 1j], [1j, 0]])}
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


def test_permutations_that_are_too_many_to_list_are_drawn():
    group = groups.permutations(30)
    assert (group.name, group.n) == ("S30", 30)
    for g in group.draw(4, np.random.default_rng(0)):
        assert sorted(np.asarray(g).tolist()) == list(range(30))
