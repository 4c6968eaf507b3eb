"""Outputs without a set of samples are those of a fit without it, for every ridge; β is 1/temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.ensembles.infinite.classifier import fitted_temperature
from equitangents.errors import NotPositiveDefiniteError
from equitangents.fit.left_out import RIDGES, Gram, Solved, calibrated, log_losses, weights_of


def drawn(seed: int, n: int = 9, order: int = 1) -> tuple[Gram, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, n + 3))
    return Gram(a @ a.T, rng.uniform(1, 2, n), order), rng.normal(size=(n, 2))


@given(st.integers(0, 2**16), st.sampled_from([1, 4]), st.sampled_from([1e-6, 1e-2, 3.0]), st.integers(1, 4))
def test_a_set_is_predicted_by_a_fit_without_it(seed, order, ridge, largest):
    gram, y = drawn(seed, order=order)
    rng = np.random.default_rng(seed)
    shuffled, sets = rng.permutation(len(y)), []
    while len(shuffled):
        size = int(rng.integers(1, largest + 1))
        sets.append(shuffled[:size])
        shuffled = shuffled[size:]
    found = Solved(gram, y, sets).left_out(ridge)
    for each in sets:
        kept = np.setdiff1d(np.arange(len(y)), each)
        K = gram.matrix[np.ix_(kept, kept)] + ridge * gram.variances[kept].mean() / order * np.eye(len(kept))
        literal = gram.matrix[np.ix_(each, kept)] @ np.linalg.solve(K, y[kept])
        assert np.abs(found[each] - literal).max() <= 1e-8 * max(1.0, np.abs(literal).max())


def test_new_inputs_are_predicted_by_ridge_regression():
    gram, y = drawn(1)
    kept, new = np.arange(6), np.arange(6, 9)
    part = gram.part(kept)
    K = part.matrix + 0.1 * part.variances.mean() * np.eye(6)
    cross = gram.matrix[np.ix_(new, kept)]
    assert np.allclose(Solved(part, y[kept], []).predicted(cross, 0.1), cross @ np.linalg.solve(K, y[kept]), atol=1e-12)


def test_ridges_that_precision_does_not_allow_are_left_out():
    gram, y = drawn(2)
    assert Solved(gram, y, []).ridges == RIDGES
    flat = Gram(np.ones((9, 9)), np.ones(9), precision="float32")
    assert min(Solved(flat, y, []).ridges) > 1e-7
    with pytest.raises(NotPositiveDefiniteError):
        Solved(Gram(-np.eye(9), np.ones(9)), y, []).ridges


@given(st.integers(0, 2**16), st.floats(1e-3, 1e3))
def test_beta_is_the_inverse_of_the_fitted_temperature(seed, size):
    rng = np.random.default_rng(seed)
    labels = np.arange(30) % 3
    outputs = size * (rng.normal(size=(30, 3)) + 1.5 * np.eye(3)[labels])
    beta = calibrated(outputs[None], labels)[0]
    T = fitted_temperature(outputs, np.eye(3)[labels])
    assert abs(np.log(beta * T)) < 1e-3


def test_outputs_that_tell_nothing_or_are_no_numbers():
    labels = np.arange(12) % 2
    wrong = -np.eye(2)[labels]
    lost = np.where(np.arange(12)[:, None] == 3, np.nan, wrong)
    found = calibrated(np.stack([wrong, 0 * wrong, lost]), labels)
    assert found[:2].tolist() == [0, 0]
    assert np.isnan(found[2])
    assert log_losses(0 * wrong, labels) == pytest.approx(np.log(2))


def test_classes_weigh_the_same():
    labels = np.array([0, 0, 0, 2])
    weights = weights_of(labels)
    assert weights.sum() == pytest.approx(4)
    assert weights[:3].sum() == pytest.approx(weights[3])
