"""Ensembles whose outputs turn with the input: means, covariances between outputs, samples, copies, files."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, ShapeError

n = et.nn
S3 = et.groups.symmetric(3)
ACTION = et.actions.permutations(S3, S3.table)
PLANE = S3.irreps("real")[2]
TURN = et.actions.represented(S3, PLANE)
NET = n.Sequential(n.Lift(ACTION, 8, W_std=1.3, b_std=0.2), n.Relu(), n.Readout(PLANE, b_std=0.3))
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 6, 2)), RNG.normal(size=(4, 2))


def fitted(**settings):
    return et.InfiniteEnsemble(NET, **{"time": 2.0, **settings}).fit(X[:4], Y)


def flattened(kernel):
    return kernel.transpose(0, 2, 1, 3).reshape(kernel.shape[0] * 2, -1)


def test_the_mean_and_covariance_are_those_of_all_outputs_together():
    """Gradient flow on (1/2N) Σ_i |f(x_i) − y_i|², N samples of two outputs each."""
    k, cross = NET.kernel(X[:4]), NET.kernel(X, X[:4])
    Theta, K = flattened(k.ntk), flattened(k.nngp)
    values, vectors = np.linalg.eigh(Theta)
    A = flattened(cross.ntk) @ (vectors * (-np.expm1(-values * 2.0 / 4) / values)) @ vectors.T
    prior, prior_cross = flattened(NET.kernel(X).nngp), flattened(cross.nngp)
    covariance = prior + A @ K @ A.T - A @ prior_cross.T - prior_cross @ A.T
    mean, got = fitted().predict(X, return_cov=True)
    np.testing.assert_allclose(mean.ravel(), A @ Y.ravel(), atol=1e-12)
    assert got.shape == (5, 2, 5, 2)
    np.testing.assert_allclose(got.reshape(10, 10), covariance, atol=1e-12)
    _, std = fitted().predict(X, return_std=True)
    np.testing.assert_allclose(std.ravel() ** 2, np.diag(covariance), atol=1e-12)


def test_means_and_covariances_turn_with_the_inputs():
    model, g = fitted(), 4
    mean, covariance = model.predict(X, return_cov=True)
    moved = np.asarray(ACTION(g, X))
    turned, turned_covariance = model.predict(moved, return_cov=True)
    np.testing.assert_allclose(turned, mean @ PLANE(g).T, atol=1e-12)
    expected = np.einsum("ab,ibjc,dc->iajd", PLANE(g), covariance, PLANE(g))
    np.testing.assert_allclose(turned_covariance, expected, atol=1e-12)
    assert et.metrics.equivariance_error(model.predict, ACTION, X, output_action=PLANE).mean < 1e-12
    assert et.audit(model.predict, ACTION, X, output_action=PLANE, off_data=False).verdict == "equivariant"


def test_copies_that_turn_alike_add_nothing():
    plain, augmented = fitted(), fitted(augmentation=ACTION, label_action=TURN)
    assert augmented.solver_.startswith("dense Nd×Nd (the network is equivariant under S3")
    np.testing.assert_allclose(augmented.predict(X), plain.predict(X), atol=1e-13)
    means = augmented.predict_orbit_means(X)
    assert means.shape == (5, 6, 2, 1)
    np.testing.assert_allclose(means[:, 4, :, 0], plain.predict(X) @ PLANE(4).T, atol=1e-12)


def test_copies_that_turn_otherwise_are_trained_on_one_by_one():
    unturned = fitted(augmentation=ACTION)
    assert unturned.solver_.startswith("explicit Nd|G|")
    assert np.abs(unturned.predict(X)).max() < 1e-10  # what no rotation moves is zero


@pytest.mark.slow
def test_deep_ensembles_of_such_networks_are_equivariant_member_by_member():
    model = et.DeepEnsemble(NET, members=2, epochs=3, seed=0).fit(X[:4], Y)
    members = model.predict_members(X)
    turned = model.predict_members(np.asarray(ACTION(4, X)))
    assert members.shape == (2, 5, 2)
    np.testing.assert_allclose(turned, members @ PLANE(4).T, atol=1e-5)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [(np.ones((4, 3)), "one row of the outputs, which transform with the input"), (np.ones(4), "expected \\(4, 2\\)")],
)
def test_targets_of_another_shape_are_refused(targets, expected):
    with pytest.raises(ShapeError, match=expected):
        et.InfiniteEnsemble(NET).fit(X[:4], targets)


def test_orbit_statistics_say_what_measures_outputs_that_turn():
    with pytest.raises(InvalidArgumentError, match="equivariance_error"):
        fitted().orbit_statistics(ACTION, X)


def test_classifiers_of_equivariant_outputs_have_calibrated_probabilities(tmp_path):
    """Outputs of one network depend on one another: how often each is the largest is not known from their stds."""
    labels = np.array([0, 1, 1, 0])
    plain, calibrated = (
        et.InfiniteEnsembleClassifier(NET, time=2.0, calibrate=c).fit(X[:4], labels) for c in (False, True)
    )
    expected = np.argmax(fitted().fit(X[:4], np.eye(2)[labels] - 0.5).predict(X), axis=-1)
    np.testing.assert_array_equal(plain.predict(X), expected)
    for refused in (plain.predict_proba, lambda x: plain.orbit_statistics(ACTION, x, output_action=TURN)):
        with pytest.raises(InvalidArgumentError, match="equivariant"):
            refused(X)
    assert calibrated.predict_proba(X).shape == (5, 2)
    calibrated.save(tmp_path / "model")
    loaded = et.InfiniteEnsembleClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(X), calibrated.predict_proba(X))
    written = et.ensembles.predict_to_file(loaded, X, tmp_path / "all.npz", return_std=True)
    assert np.load(written)["std"].shape == (5, 2)


def test_networks_that_cannot_be_read_out_are_refused():
    lift = n.Lift(ACTION, 8)
    C2, C6 = (et.groups.cyclic(order).irreps("real")[-1] for order in (2, 6))
    for message, *layers in (
        ("expected a signal on a group", lift, n.Relu(), n.GroupPool(), n.Readout(PLANE)),
        ("expected no layer after it", lift, n.Relu(), n.Readout(PLANE), n.Relu()),
        ("representation has length 2; expected 6", lift, n.Readout(C2)),
        ("that multiply as the elements of the group do; S3", lift, n.Readout(C6)),
        ("expected a Lift or SphereLift as the first layer", n.Conv(4, (1,)), lift, n.Relu(), n.Readout(PLANE)),
    ):
        with pytest.raises(NetworkError, match=message):
            n.Sequential(*layers).kernel(X)
    with pytest.raises(InvalidArgumentError, match=r"take one of group.irreps\('real'\)"):
        n.Readout(et.groups.cyclic(4).irreps()[1])
    with pytest.raises(InvalidTypeError, match="expected an irrep"):
        n.Readout("vector")


def test_the_score_of_equivariant_outputs_is_the_mean_over_outputs():
    model = fitted()
    apart, about = ((Y - z) ** 2 for z in (model.predict(X[:4]), Y.mean(axis=0)))
    assert model.score(X[:4], Y) == pytest.approx((1 - apart.sum(axis=0) / about.sum(axis=0)).mean())


def test_a_network_that_ends_on_the_group_is_fitted_to_signals_that_move_with_the_inputs():
    net = n.Sequential(n.Lift(ACTION, 8, window=[0, 2], b_std=0.2), n.Relu(), n.GroupConv(1, window=[1, 3]))
    model = et.InfiniteEnsemble(net, time=3.0).fit(X[:4], RNG.normal(size=(4, 6, 2)))
    mean, cov = model.predict(X, return_cov=True)
    assert mean.shape == (5, 6, 2)
    assert cov.shape == (5, 6, 5, 6)
    regular = et.groups.regular(S3)(4)
    moved, moved_cov = model.predict(np.asarray(ACTION(4, X)), return_cov=True)
    np.testing.assert_allclose(moved, np.einsum("gh,nhc->ngc", regular, mean), atol=1e-12)
    np.testing.assert_allclose(moved_cov, np.einsum("ab,ibjc,dc->iajd", regular, cov, regular), atol=1e-12)
