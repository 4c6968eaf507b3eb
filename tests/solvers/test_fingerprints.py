"""What is kept on disk of a kernel matrix is named by all that its entries depend on."""

import numpy as np
import pytest

from equitangents.ensembles.fields import FieldKernel, FieldMatrix, FieldPoints
from equitangents.kernels.result import Kernels
from equitangents.nn import Conv, Dense, Relu, Sequential
from equitangents.solvers.matrices import KernelMatrix


class Products:
    """x xᵀ, but for one entry and its mirror image."""

    def __init__(self, x, entry):
        self.x, self.entry = x, entry

    def kernel(self, a, b=None):
        b = a if b is None else b
        k = a @ b.T
        for i, j in (self.entry, self.entry[::-1]):
            k[np.ix_((a == self.x[i]).all(axis=1), (b == self.x[j]).all(axis=1))] += 0.1
        return Kernels(k, k)


def test_kernels_that_differ_in_one_entry_have_other_fingerprints(rng):
    x = rng.standard_normal((200, 3))
    unseen = sorted(set(range(200)) - set(np.linspace(0, 199, 128).astype(int)))
    one, same, other = (KernelMatrix(Products(x, entry), x).fingerprint() for entry in [(0, 0), (0, 0), unseen[:2]])
    assert one == same != other
    third = KernelMatrix(Products(x, unseen[2:4]), x).fingerprint()
    assert third != other


@pytest.mark.parametrize("field", [False, True])
def test_of_networks_and_inputs(field, rng):
    def matrix(x, W_std):
        if field:
            net = Sequential(Conv(8, 3, W_std=W_std), Relu(), Conv(1, 3))
            return FieldMatrix(FieldKernel(net), FieldPoints.of(x, 3), "ntk")
        return KernelMatrix(Sequential(Dense(8, W_std), Relu(), Dense(1)), x[:, 0])

    x = rng.standard_normal((4, 3, 2))
    one, same, other, moved = (
        matrix(*args).fingerprint() for args in [(x, 1.0), (x.copy(), 1.0), (x, 1.1), (x + 1e-9, 1.0)]
    )
    assert one == same
    assert len({one, other, moved}) == 3
