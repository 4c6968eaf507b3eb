"""Gram matrices of irreps: those of group elements in another basis, so that training falls apart into them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from stores import NET, store

from equitangents import actions, groups, solvers
from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.scale import GramStore

S3 = groups.symmetric(3)
SWAPS = actions.linear(S3, np.stack([np.eye(3)[list(p)].T for p in itertools.permutations(range(3))]))
X = np.random.default_rng(0).normal(size=(7, 3))


@pytest.fixture(scope="module")
def elements(tmp_path_factory):
    """A matrix for each of the six elements of S3, which permute coordinates."""
    return GramStore(tmp_path_factory.mktemp("s3") / "k", NET, X, action=SWAPS, tile=3).compute()


def test_eigenvalues_are_those_of_the_kernel_on_all_moved_copies(elements):
    for field in ("ntk", "nngp"):
        copies = np.concatenate([np.asarray(SWAPS(g, X)) for g in range(S3.order)])
        whole = np.linalg.eigvalsh(getattr(NET.kernel(copies), field))
        grams = elements.irreps(field)
        assert [gram.dimension for gram in grams] == [1, 1, 2]
        parts = [np.repeat(np.linalg.eigvalsh(np.asarray(g)), g.dimension * g.count) for g in grams]
        np.testing.assert_allclose(np.sort(np.concatenate(parts)), whole, atol=1e-10 * whole[-1])


def test_entries_are_sums_over_elements(elements):
    theta = np.stack([NET.kernel(X, np.asarray(SWAPS(g, X))).ntk for g in range(S3.order)])
    gram = elements.irreps()[2]
    literal = np.einsum("gij,gab->iajb", theta, gram.irrep.matrices).reshape(14, 14)
    np.testing.assert_allclose(np.asarray(gram), literal, atol=1e-12)
    rows, columns = np.array([13, 0, 4]), np.array([5, 2])
    np.testing.assert_allclose(gram[np.ix_(rows, columns)], literal[np.ix_(rows, columns)], atol=1e-12)
    np.testing.assert_allclose(gram[2:5, 7:], literal[2:5, 7:], atol=1e-12)
    assert gram[3:3, :].shape == (0, 14)


def test_of_complex_kind_they_stand_for_their_conjugates_too(tmp_path):
    turns = actions.linear(groups.cyclic(3), np.stack([np.roll(np.eye(3), k, axis=0) for k in range(3)]))
    theta = np.stack([NET.kernel(X, np.asarray(turns(g, X))).ntk for g in range(3)])
    trivial, other = GramStore(tmp_path / "c3", NET, X, action=turns, tile=4).compute().irreps()
    assert [(gram.count, gram.dtype, np.asarray(gram).dtype) for gram in (trivial, other)] == [
        (1, np.float64, np.float64),
        (2, np.complex128, np.complex128),
    ]
    literal = np.einsum("gij,g->ij", theta, other.irrep.matrices[:, 0, 0])
    np.testing.assert_allclose(np.asarray(other), literal, atol=1e-12)
    assert np.abs(literal.imag).max() > 0.01
    assert other[:0, :].dtype == np.complex128


def test_solvers_take_them(elements):
    gram, y = elements.irreps()[2], np.random.default_rng(1).normal(size=(14, 2))
    whole = np.asarray(gram)
    expected = np.linalg.solve(whole + 0.1 * np.trace(whole) / 14 * np.eye(14), y)
    for solver in ("cholesky", "pcg"):
        found = solvers.solve(gram, y, ridge=0.1, solver=solver).coefficients
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_there_are_none_without_a_group_a_known_field_or_all_tiles(tmp_path, elements):
    with pytest.raises(InvalidArgumentError, match=r"this store has no group; give action="):
        store(tmp_path / "k").irreps()
    with pytest.raises(InvalidArgumentError, match=r"kernel is 'NTK'; expected '(nngp|ntk)'"):
        elements.irreps("NTK")
    part = GramStore(tmp_path / "p", NET, X, action=SWAPS, tile=3).compute(shard=(0, 2))
    with pytest.raises(StoreError, match="store holds tiles, "):
        part.irreps()
