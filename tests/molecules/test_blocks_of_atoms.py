"""Kernels of more atoms than are compared at once."""

import importlib

import numpy as np
import pytest

from equitangents.molecules import kernels
from molecules.example_molecules import SIGNALS, molecules, network

module = importlib.import_module("equitangents.molecules.kernel")  # the package has a function of this name


@pytest.mark.parametrize("pairs", ["same element", "all"])
def test_kernels_do_not_depend_on_the_blocks_that_atoms_are_compared_in(pairs, monkeypatch):
    batch, net = molecules(3), network(resolution=5)
    whole = kernels(net, batch, signals=SIGNALS, pairs=pairs)
    monkeypatch.setattr(module, "_BLOCK", 2)
    parts = kernels(net, batch, signals=SIGNALS, pairs=pairs)
    # The quadrature is not symmetric in the two signals; a block on the diagonal is averaged with its transpose.
    np.testing.assert_allclose(parts.nngp, whole.nngp, rtol=1e-4)
    np.testing.assert_allclose(parts.ntk, whole.ntk, rtol=1e-4)
