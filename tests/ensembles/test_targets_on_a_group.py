"""Networks that end on a group: kernels between its elements, and ensembles with signals on it as targets."""

from __future__ import annotations

import numpy as np

import equitangents as et

n = et.nn
S3 = et.groups.symmetric(3)
ACTION = et.actions.permutations(S3, S3.table)
NET = n.Sequential(n.Lift(ACTION, 8, window=[0, 2], b_std=0.2), n.Relu(), n.GroupConv(1, window=[1, 3]))
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 6, 2)), RNG.normal(size=(4, 6, 2))


def test_ensembles_fit_signals_on_the_group_and_move_them_with_the_inputs():
    model = et.InfiniteEnsemble(NET, time=3.0).fit(X[:4], Y)
    mean, cov = model.predict(X, return_cov=True)
    assert mean.shape == (5, 6, 2)
    assert cov.shape == (5, 6, 5, 6)
    regular = et.groups.regular(S3)(4)
    moved, moved_cov = model.predict(np.asarray(ACTION(4, X)), return_cov=True)
    np.testing.assert_allclose(moved, np.einsum("gh,nhc->ngc", regular, mean), atol=1e-12)
    np.testing.assert_allclose(moved_cov, np.einsum("ab,ibjc,dc->iajd", regular, cov, regular), atol=1e-12)
