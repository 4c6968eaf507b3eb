"""Samples left out, whole sets of them: folds, fits without them, near-duplicates; β is 1/temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError, ShapeError
from equitangents.fit.assessing import RIDGES, Gram, KernelRidge, make_folds, near_duplicates
from equitangents.inference.probabilities import fitted_temperature, inverse_temperatures


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
    found = KernelRidge(gram, y, sets).left_out(ridge)
    for each in sets:
        kept = np.setdiff1d(np.arange(len(y)), each)
        K = gram.matrix[np.ix_(kept, kept)] + ridge * gram.variances[kept].mean() / order * np.eye(len(kept))
        literal = gram.matrix[np.ix_(each, kept)] @ np.linalg.solve(K, y[kept])
        assert np.abs(found[each] - literal).max() <= 1e-8 * max(1.0, np.abs(literal).max())


def test_new_inputs_are_predicted_by_ridge_regression():
    gram, y = drawn(1)
    kept, new = np.arange(6), np.arange(6, 9)
    part = gram.subset(kept)
    K = part.matrix + 0.1 * part.variances.mean() * np.eye(6)
    cross = gram.matrix[np.ix_(new, kept)]
    assert np.allclose(
        KernelRidge(part, y[kept], []).predict(cross, 0.1), cross @ np.linalg.solve(K, y[kept]), atol=1e-12
    )


def test_ridges_that_precision_does_not_allow_are_left_out():
    gram, y = drawn(2)
    assert KernelRidge(gram, y, []).ridges == RIDGES
    assert min(KernelRidge(Gram(np.ones((9, 9)), np.ones(9), precision="float32"), y, []).ridges) > 1e-7
    with pytest.raises(NotPositiveDefiniteError):
        KernelRidge(Gram(-np.eye(9), np.ones(9)), y, []).ridges


@given(st.integers(0, 2**16), st.floats(1e-3, 1e3))
def test_beta_is_the_inverse_of_the_fitted_temperature(seed, size):
    rng = np.random.default_rng(seed)
    labels = np.arange(30) % 3
    outputs = size * (rng.normal(size=(30, 3)) + 1.5 * np.eye(3)[labels])
    beta = inverse_temperatures(outputs[None], labels)[0]
    T = fitted_temperature(outputs, np.eye(3)[labels])
    assert abs(np.log(beta * T)) < 1e-3


def test_outputs_that_tell_nothing_or_are_no_numbers():
    labels = np.arange(12) % 2
    wrong = -np.eye(2)[labels]
    lost = np.where(np.arange(12)[:, None] == 3, np.nan, wrong)
    mostly = np.where(np.arange(12)[:, None] < 5, -wrong, wrong)  # 7 of 12
    found = inverse_temperatures(np.stack([wrong, mostly, 0 * wrong, lost]), labels)
    assert found[:3].tolist() == [0, 0, 0]
    assert np.isnan(found[3])


@given(st.integers(0, 2**16), st.integers(2, 4), st.integers(12, 40))
def test_folds_hold_whole_sets_and_every_sample_once(seed, classes, n):
    rng = np.random.default_rng(seed)
    together = np.concatenate([np.arange(2 * classes), rng.integers(0, 2 * classes, n)])
    labels = together % classes  # each class in two sets at least
    problem = make_folds(labels, tuple(map(str, range(classes))), together, seed)
    assert sorted(np.concatenate([problem.subset(fold).rows for fold in problem.folds])) == list(range(len(labels)))
    for rest, inside in problem.split():
        assert sorted([*rest.rows, *inside]) == list(range(len(labels)))
        assert not set(together[rest.rows]) & set(together[inside])
        assert set(labels[rest.rows]) == set(range(classes))
        for each in rest.sets:
            assert len(set(together[rest.rows[each]])) == 1
        assert sorted(np.concatenate(rest.sets)) == list(range(len(rest.rows)))


def test_folds_of_single_samples_have_all_classes_alike():
    labels = np.arange(50) % 5
    problem = make_folds(labels, tuple("abcde"), None, 0)
    assert [np.bincount(labels[problem.subset(fold).rows]).tolist() for fold in problem.folds] == [[2] * 5] * 5


def test_what_cannot_be_left_out_is_refused():
    labels = np.array([0, 0, 1, 1])
    with pytest.raises(InvalidArgumentError, match="together has one sample, or set of samples, of class 'b'"):
        make_folds(labels, ("a", "b"), [1, 2, 3, 3], 0)
    with pytest.raises(ShapeError, match="together has shape"):
        make_folds(labels, ("a", "b"), [1, 2, 3], 0)


def by_definition(x: np.ndarray) -> set[tuple[int, int]]:
    """Every pair and every copy, one by one."""
    varies = lambda a: ((a - a.mean(axis=(0, 1))) ** 2).sum()
    step = 1 if x.shape[1] == x.shape[2] else 2
    found = set()
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            copies = [np.rot90(m, k) for m in (x[j], x[j][:, ::-1]) for k in range(0, 4, step)]
            least = min(((x[i] - copy) ** 2).sum() for copy in copies)
            if least <= 0.01 * (varies(x[i]) + varies(x[j])) / 2:
                found.add((i, j))
    return found


@given(st.integers(0, 2**16), st.sampled_from([(4, 4, 1), (5, 3, 3), (40, 40, 1), (70, 66, 1)]))
@settings(max_examples=8)
def test_pairs_are_those_of_the_definition(seed, shape):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(9, *shape)) + 3
    turned = np.rot90(x[0], 1 if shape[0] == shape[1] else 2)
    x[4] = turned + rng.choice([0.02, 0.09, 0.1, 0.11, 0.3]) * rng.normal(size=shape)
    x[7], x[8] = x[1][:, ::-1], 3.0  # mirrored; blank
    found = near_duplicates(x.astype(np.float32), [np.array([i]) for i in range(9)])
    assert set(found) == by_definition(x.astype(np.float32).astype(float))
    assert (1, 7) in found


def test_images_that_leave_together_and_others_are_no_pairs():
    x = np.random.default_rng(0).normal(size=(6, 8, 8, 3))
    x[3], x[5] = x[0], x[1]
    assert near_duplicates(x, [np.array([i]) for i in range(6)]) == ((0, 3), (1, 5))
    assert near_duplicates(x, [np.array([0, 3]), np.array([1]), np.array([2, 4]), np.array([5])]) == ((1, 5),)
    blank = np.ones((3, 4, 4, 1))
    assert near_duplicates(blank, [np.array([i]) for i in range(3)]) == ((0, 1), (0, 2), (1, 2))


@pytest.mark.slow
def test_two_thousand_images_take_seconds():
    x = np.random.default_rng(0).normal(size=(2000, 64, 64, 3)).astype(np.float32)
    x[1999] = x[3]
    assert near_duplicates(x, [np.array([i]) for i in range(2000)]) == ((3, 1999),)
