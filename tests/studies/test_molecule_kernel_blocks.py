"""Kernels of molecules in blocks, Coulomb matrices and ridge regression, as the studies of molecules use them."""

import numpy as np
import pytest

from equitangents.molecules import Molecules
from equitangents_studies.common import molecule_kernels
from equitangents_studies.data import load_molecules
from equitangents_studies.framework.progress import Task
from equitangents_studies.molecules import fits


def test_interrupted_kernel_is_completed_to_the_same_bits(tmp_path):
    molecules = load_molecules("g2", count=9).molecules
    kernel = molecule_kernels.VectorKernel(
        lambda m: molecule_kernels.coulomb_vectors(m, molecules.atomic_numbers.shape[1]), "cityblock", 100.0
    ).kernel
    calls = []

    def failing(*molecules):
        calls.append(molecules)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return kernel(*molecules)

    whole = molecule_kernels.blockwise(kernel, molecules, 4, tmp_path / "whole", Task())
    np.testing.assert_allclose(whole, kernel(molecules), rtol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        molecule_kernels.blockwise(failing, molecules, 4, tmp_path / "parts", Task())
    assert len(list((tmp_path / "parts").iterdir())) == 1
    resumed = molecule_kernels.blockwise(failing, molecules, 4, tmp_path / "parts", Task())
    np.testing.assert_array_equal(resumed, whole)
    assert len(calls) == 4 + 3


def test_coulomb_matrix_of_water_by_hand():
    x = np.array([[0.0, 0, 1], [0, 0, 0], [2, 0, 0]])
    found = molecule_kernels.coulomb_vectors(Molecules(np.array([[1, 8, 1]]), x[None]), 3)
    expected = [0.5 * 8**2.4, 8.0, 4.0, 0.5, 1 / 5**0.5, 0.5]
    np.testing.assert_allclose(found[0], expected)


def test_ridge_regression_is_the_textbook_formula():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(12, 5))
    K, counts, y = a @ a.T + np.eye(12), rng.integers(0, 4, (12, 2)).astype(float), rng.normal(size=12)
    (fit,) = fits(K, counts, y, (0.1,))
    base = np.linalg.pinv(counts) @ y
    weights = np.linalg.inv(K + 0.1 * np.trace(K) / 12 * np.eye(12)) @ (y - counts @ base)
    np.testing.assert_allclose(fit.elements, base)
    np.testing.assert_allclose(fit.weights, weights, rtol=1e-9)
