"""Over SO(3) and O(3) every measure counts the nodes of the quadrature by their weights."""

import numpy as np
import pytest

from equitangents import actions, groups
from equitangents.metrics import equivariance_error, orbit_same_predictions, relative_orbit_std

MATRIX = np.random.default_rng(1).normal(size=(3, 2))


def scores(x):
    return np.tanh(x @ MATRIX) + 0.1


@pytest.mark.parametrize("group", [groups.so3(3), groups.o3(3)], ids=str)
def test_means_over_rotations_are_weighted(group):
    action, x = actions.rotations(group), np.random.default_rng(2).normal(size=(7, 3))
    w = group.weights
    assert np.ptp(w) > 1e-3, "unequal weights, or nothing is tested"
    orbit = np.stack([scores(x @ R.T) for R in group.matrices])
    same = w @ (orbit.argmax(axis=2) == scores(x).argmax(axis=1))
    np.testing.assert_allclose(orbit_same_predictions(scores, action, x).values, same, atol=1e-12)
    mean = np.einsum("g,gnk->nk", w, orbit)
    spread = np.sqrt(np.einsum("g,gnk->nk", w, (orbit - mean) ** 2))
    expected = np.linalg.norm(spread, axis=1) / np.linalg.norm(mean, axis=1)
    np.testing.assert_allclose(relative_orbit_std(scores, action, x).values, expected, rtol=1e-10)
    errors = np.linalg.norm(orbit - scores(x), axis=2) / np.linalg.norm(scores(x), axis=1)
    np.testing.assert_allclose(equivariance_error(scores, action, x).values, w @ errors, rtol=1e-10)
