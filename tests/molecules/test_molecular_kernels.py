"""Kernels of molecules against literal double sums, and their symmetries."""

import importlib

import numpy as np
import pytest

from equitangents.errors import InvalidArgumentError
from equitangents.molecules import kernel, kernels
from molecules.example_molecules import SIGNALS, molecules, network, renumbered, turned

NET = network(resolution=5)
module = importlib.import_module("equitangents.molecules.kernel")  # the package has a function of this name


@pytest.mark.parametrize("pairs", ["same element", "all"])
def test_a_double_sum_over_atoms(pairs):
    batch = molecules(3)
    fields = SIGNALS(batch)
    atoms = NET.kernel(fields.signals)
    expected = np.zeros((2, 3, 3))
    for i, (m, z) in enumerate(zip(fields.molecule, fields.element, strict=True)):
        for j, (n, w) in enumerate(zip(fields.molecule, fields.element, strict=True)):
            if z == w or pairs == "all":
                expected[:, m, n] += atoms.nngp[i, j], atoms.ntk[i, j]
    found = kernels(NET, batch, signals=SIGNALS, pairs=pairs)
    # The quadrature is not symmetric in the two signals; a symmetric problem is averaged with its transpose.
    np.testing.assert_allclose(found.nngp, expected[0], rtol=1e-4)
    np.testing.assert_allclose(found.ntk, expected[1], rtol=1e-4)
    cross = kernels(NET, batch[:2], batch[1:], signals=SIGNALS, pairs=pairs)
    np.testing.assert_allclose(cross.ntk, found.ntk[:2, 1:], rtol=1e-4)


def test_invariant_under_rotations_translations_and_numbering():
    batch = molecules(4, atoms=4)
    net = network(tolerance=1e-6)
    before = kernels(net, batch, signals=SIGNALS)
    assert before.error_estimate <= 1e-6
    after = kernel(net, turned(batch)[0], signals=SIGNALS)
    np.testing.assert_allclose(after, before.ntk, rtol=0, atol=1e-5 * before.ntk.max())
    again = kernel(net, renumbered(batch)[0], signals=SIGNALS)
    np.testing.assert_allclose(again, before.ntk, rtol=1e-12)


def test_float32_positions_give_float32():
    batch = molecules(2)
    single = batch.with_positions(batch.positions.astype(np.float32))
    found = kernel(NET, single, signals=SIGNALS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, kernel(NET, batch, signals=SIGNALS), rtol=1e-4)


def test_unknown_options():
    with pytest.raises(InvalidArgumentError, match="kernel is 'both'"):
        kernel(NET, molecules(2), kernel="both")


@pytest.mark.parametrize("pairs", ["same element", "all"])
def test_kernels_do_not_depend_on_the_blocks_that_atoms_are_compared_in(pairs, monkeypatch):
    batch = molecules(3)
    whole = kernels(NET, batch, signals=SIGNALS, pairs=pairs)
    monkeypatch.setattr(module, "_BLOCK", 2)
    parts = kernels(NET, batch, signals=SIGNALS, pairs=pairs)
    # The quadrature is not symmetric in the two signals; a block on the diagonal is averaged with its transpose.
    np.testing.assert_allclose(parts.nngp, whole.nngp, rtol=1e-4)
    np.testing.assert_allclose(parts.ntk, whole.ntk, rtol=1e-4)
