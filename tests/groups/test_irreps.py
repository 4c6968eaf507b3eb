"""Irreducible representations of any finite group: unitary, complete, irreducible, of the right kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_groups import small_groups

from equitangents import groups
from equitangents.errors import InvalidArgumentError, MemoryLimitError
from equitangents.groups import irreps as irreps_module

KINDS = {"real": 1, "complex": 0, "quaternionic": -1}
COMMUTANT = {"real": 1, "complex": 2, "quaternionic": 4}


def check_representations(G, irreps):
    for irrep in irreps:
        M = irrep.matrices
        assert M.shape == (G.order, irrep.dimension, irrep.dimension)
        assert np.abs(M @ M.conj().transpose(0, 2, 1) - np.eye(irrep.dimension)).max() < 1e-12
        errors = [np.abs(M[a] @ M - M[G.table[a]]).max() for a in range(0, G.order, max(1, G.order // 24))]
        assert np.max(errors) < 1e-12


def check_complex(G):
    irreps = G.irreps()
    check_representations(G, irreps)
    assert sum(i.dimension**2 for i in irreps) == G.order
    assert len(irreps) == len(G.conjugacy_classes)
    characters = np.stack([i.character for i in irreps])
    assert np.abs(characters @ characters.conj().T / G.order - np.eye(len(irreps))).max() < 1e-12
    squares = np.diagonal(G.table)
    for i in irreps:
        assert abs(i.character[squares].mean() - KINDS[i.kind]) < 1e-12
        assert i.multiplicity == i.dimension
    assert np.abs(irreps[0].matrices - 1).max() < 1e-12


def check_real(G):
    irreps = G.irreps("real")
    check_representations(G, irreps)
    assert all(i.matrices.dtype == np.float64 for i in irreps)
    characters = np.stack([i.character for i in irreps])
    expected = np.diag([float(COMMUTANT[i.kind]) for i in irreps])
    assert np.abs(characters @ characters.T / G.order - expected).max() < 1e-11
    assert sum(i.dimension * i.multiplicity for i in irreps) == G.order
    # over the complex numbers, each falls apart into the complex irreps of its kind
    for i in irreps:
        inside = [c for c in G.irreps() if abs(np.vdot(c.character, i.character) / G.order) > 0.5]
        assert {c.kind for c in inside} == {i.kind}
        assert len(inside) == (2 if i.kind == "complex" else 1)
        assert sum(c.dimension for c in inside) * (2 if i.kind == "quaternionic" else 1) == i.dimension


class TestLaws:
    @given(small_groups())
    def test_complex(self, G):
        check_complex(G)

    @given(small_groups())
    def test_real(self, G):
        check_real(G)

    @given(small_groups(), st.integers(0, 99))
    def test_fourier_transform_turns_convolution_into_products(self, G, seed):
        # the irreps see the order of the product: only ρ(g) ρ(h) = ρ(g·h) passes on non-abelian groups
        a, b = np.random.default_rng(seed).normal(size=(2, G.order))
        product = np.zeros(G.order)
        for g in range(G.order):
            for h in range(G.order):
                product[G.compose(g, h)] += a[g] * b[h]
        for irrep in G.irreps():
            fa, fb, fc = (np.tensordot(f, irrep.matrices, 1) for f in (a, b, product))
            np.testing.assert_allclose(fa @ fb, fc, atol=1e-10)

    @given(small_groups())
    def test_matrix_entries_are_orthogonal_and_complete(self, G):
        entries = np.concatenate(
            [np.sqrt(i.dimension) * i.matrices.reshape(G.order, -1) for i in G.irreps()], axis=1
        ) / np.sqrt(G.order)
        assert np.abs(entries.conj().T @ entries - np.eye(G.order)).max() < 1e-12


class TestKnownGroups:
    @pytest.mark.parametrize(
        ("make", "dimensions"),
        [
            (lambda: groups.symmetric(3), [1, 1, 2]),
            (lambda: groups.symmetric(4), [1, 1, 2, 3, 3]),
            (lambda: groups.symmetric(5), [1, 1, 4, 4, 5, 5, 6]),
            (groups.quaternion, [1, 1, 1, 1, 2]),
            (groups.tetrahedral, [1, 1, 1, 3]),
            (groups.octahedral, [1, 1, 2, 3, 3]),
            (groups.icosahedral, [1, 3, 3, 4, 5]),
            (lambda: groups.dihedral(5), [1, 1, 2, 2]),
        ],
    )
    def test_dimensions(self, make, dimensions):
        G = make()
        assert [i.dimension for i in G.irreps()] == dimensions
        check_complex(G)
        check_real(G)

    def test_quaternions_are_quaternionic(self):
        Q = groups.quaternion()
        assert [i.kind for i in Q.irreps()] == ["real"] * 4 + ["quaternionic"]
        assert [i.dimension for i in Q.irreps("real")] == [1, 1, 1, 1, 4]
        assert Q.irreps("real")[-1].multiplicity == 1

    def test_characters_of_cyclic_groups(self):
        n = 12
        table = {tuple(np.round(i.character, 12) + 0.0) for i in groups.cyclic(n).irreps()}
        k = np.arange(n)
        assert table == {tuple(np.round(np.exp(2j * np.pi * k * j / n), 12) + 0.0) for j in range(n)}

    @pytest.mark.quick(2)
    @pytest.mark.parametrize(
        "make",
        [
            lambda: groups.wallpaper(4, False, (4, 4)),
            lambda: groups.wallpaper(4, False, (5, 5)),
            lambda: groups.wallpaper(4, True, (4, 4)),
            lambda: groups.wallpaper(2, True, (3, 5)),
            lambda: groups.direct_product(groups.quaternion(), groups.quaternion()),
            lambda: groups.direct_product(groups.quaternion(), groups.cyclic(5)),
            lambda: groups.translations((4, 3, 2)),
            lambda: groups.dihedral(101),
        ],
    )
    def test_larger_groups(self, make):
        check_complex(make())
        check_real(make())

    @pytest.mark.slow
    def test_hundreds_of_elements(self):
        for G in (groups.wallpaper(4, True, (8, 8)), groups.symmetric(6), groups.translations((20, 25))):
            check_complex(G)


class TestBehaviour:
    def test_deterministic_and_kept(self):
        G, H = groups.symmetric(4), groups.symmetric(4)
        assert G.irreps() is G.irreps()
        for a, b in zip(G.irreps(), H.irreps(), strict=True):
            assert np.array_equal(a.matrices, b.matrices)

    def test_read_only(self):
        with pytest.raises(ValueError, match="read-only"):
            groups.symmetric(3).irreps()[1].matrices[0] = 0

    def test_refinement_removes_errors(self):
        G = groups.symmetric(4)
        exact = G.irreps("real")[-1].matrices
        noisy = exact + 1e-6 * np.random.default_rng(0).normal(size=exact.shape)
        refined = irreps_module.refine(G, noisy)
        check_representations(G, [type(G.irreps()[0])(refined, "real")])
        assert np.abs(refined - exact).max() < 1e-5

    def test_refuses(self):
        with pytest.raises(InvalidArgumentError, match="field is 'rational'"):
            groups.cyclic(3).irreps("rational")
        with pytest.raises(MemoryLimitError, match="expected at most 200 MB; take a smaller group"):
            groups.wallpaper(4, False, (50, 50)).irreps()


@pytest.mark.parametrize("group", [groups.cyclic(2), groups.cyclic(4), groups.direct_product(*[groups.cyclic(4)] * 2)])
@pytest.mark.parametrize("field", ["complex", "real"])
def test_characters_of_groups_of_exponent_four_are_whole_numbers(group, field):
    for irrep in group.irreps(field):
        parts = np.stack([irrep.matrices.real, irrep.matrices.imag])
        assert np.array_equal(parts, np.round(parts))


def test_turns_of_c8_by_quarters_are_whole_numbers():
    for irrep in groups.cyclic(8).irreps("real"):
        assert np.array_equal(irrep.matrices[::2], np.round(irrep.matrices[::2]))
