"""The comparison with other libraries' equivariant kernels sees spaces that differ, and finds changes of basis."""

import importlib

import numpy as np
import pytest

from equitangents import nn
from equitangents.steerable import Features, irrep
from oracles.group_elements import element


@pytest.fixture
def bench():
    return importlib.import_module("benchmarks.bench_steerable")


def test_spaces_are_told_apart(bench):
    a = np.random.default_rng(0).normal(size=(8, 3))
    assert bench.sine_between(a, a @ np.array([[1.0, 2, 0], [0, 1, 0], [1, 0, 3]])) < 1e-14
    off = a.copy()
    off[:, 0] += 1e-6 * np.arange(8)
    assert 1e-8 < bench.sine_between(a, off) < 1e-4
    assert bench.sine_between(a, a[:, :2]) == 1.0


def test_the_change_of_basis_makes_the_matrices_of_irreps_equal(bench):
    ours = np.stack([irrep("2e", "O(3)").matrix(element("O(3)", seed)) for seed in range(4)])
    q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))
    B = bench.change_of_basis(ours, q @ ours @ q.T)
    assert min(np.abs(B - q).max(), np.abs(B + q).max()) < 1e-12


def test_weights_are_those_of_the_kernel_that_is_given(bench):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([np.zeros((1, 2)), rng.normal(size=(20, 2))])
    into = Features("1x0+2x1", "SO(2)")
    bases = {kind: np.eye(kind.dimension) for kind in into.irreps}
    layer = nn.SteerableConv("2x1", bench.RADII, bench.WIDTH)
    one, kind = irrep("1", "SO(2)"), irrep("0", "SO(2)")
    total = np.zeros((21, 4, 5))
    total[:, 2:, 0] = 0.7 * bench.ours_at(one, kind, offsets)[1][..., 0]  # the second kernel, to the second copy
    found = bench.matched(layer, into, total, offsets, bases)
    assert set(found) == {"0->1", "1->1"}
    assert np.abs(found["1->1"]).max() < 1e-12
    size = np.sqrt(18 * 1)  # (2 + 4) angular kernels on 3 rings end in the irrep 1; one copy goes in
    np.testing.assert_allclose(found["0->1"][:, 0], np.outer(np.eye(6)[1], [0, 0.7 * size]), atol=1e-12)
    assert bench._ordered("3x0e+4x0e+2x1o") == "7x0e+2x1o"
