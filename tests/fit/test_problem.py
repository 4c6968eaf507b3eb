"""Folds hold whole sets, every sample once, and all classes as far as sets allow; a class in one set is an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.fit.problem import make_problem


@given(st.integers(0, 2**16), st.integers(2, 4), st.integers(12, 40))
def test_folds_hold_whole_sets_and_every_sample_once(seed, classes, n):
    rng = np.random.default_rng(seed)
    together = np.concatenate([np.arange(2 * classes), rng.integers(0, 2 * classes, n)])
    labels = together % classes  # each class in two sets at least
    problem = make_problem(labels, tuple(map(str, range(classes))), together, seed)
    assert sorted(np.concatenate([problem.inside(fold) for fold in problem.folds])) == list(range(len(labels)))
    for rest, inside in problem.split():
        assert sorted([*rest.rows, *inside]) == list(range(len(labels)))
        assert not set(together[rest.rows]) & set(together[inside])
        assert set(labels[rest.rows]) == set(range(classes))
        for each in rest.sets:
            assert len(set(together[rest.rows[each]])) == 1
        assert sorted(np.concatenate(rest.sets)) == list(range(len(rest.rows)))


def test_folds_of_single_samples_have_all_classes_alike():
    labels = np.arange(50) % 5
    problem = make_problem(labels, tuple("abcde"), None, 0)
    assert [np.bincount(labels[problem.inside(fold)]).tolist() for fold in problem.folds] == [[2] * 5] * 5


def test_what_cannot_be_left_out_is_refused():
    labels = np.array([0, 0, 1, 1])
    with pytest.raises(InvalidArgumentError, match="together has one set of class 'b'"):
        make_problem(labels, ("a", "b"), [1, 2, 3, 3], 0)
    with pytest.raises(ShapeError, match="together has shape"):
        make_problem(labels, ("a", "b"), [1, 2, 3], 0)
