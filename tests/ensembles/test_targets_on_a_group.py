"""Networks that end on a group: kernels between its elements, and ensembles with signals on it as targets."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents.errors import NetworkError

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


SO3 = et.groups.so3(2)
SPHERE = n.Sequential(n.SphereLift(SO3, 4, b_std=0.1), n.Erf(), n.GroupConv(1))
SIGNALS = 0.5 * np.random.default_rng(1).normal(size=(3, 4, 1))


def test_kernels_between_rotations_are_those_of_turned_signals():
    """K(R, R'; f, f') depends on R'R⁻¹; R is moved from one side to the other."""
    flat = n.Sequential(*SPHERE.layers, n.Flatten())
    found = SPHERE.kernel_field(SIGNALS[:2], SIGNALS)
    assert found.ntk.shape == (2, 18, 3, 18)
    for a, b in ((0, 0), (3, 11), (17, 5)):
        R = SO3.matrices[a] @ SO3.matrices[b].T  # R' brought to the identity
        expected = flat.kernel(SIGNALS[:2], et.sphere.rotate(SIGNALS, R)).ntk
        np.testing.assert_allclose(found.ntk[:, a, :, b], expected, atol=1e-13)
    same = SPHERE.kernel_field(SIGNALS[:2], SIGNALS, positions="same").ntk
    np.testing.assert_allclose(same, np.einsum("iajb,ab->ija", found.ntk, np.eye(18)), atol=1e-14)
    own = SPHERE.kernel_field_diagonal(SIGNALS, positions="same").ntk
    np.testing.assert_allclose(own[:2], np.einsum("iia->ia", same[:, :2]), atol=1e-13)


def test_rotation_networks_without_a_full_window_are_refused():
    narrow = n.Sequential(
        n.SphereLift(et.groups.so3(3), 4, window=lambda z: 1 + z), n.Erf(), n.GroupConv(1, window=lambda z: 1 + z)
    )
    with pytest.raises(NetworkError, match="at least one full window"):
        narrow.kernel_field(SIGNALS)
