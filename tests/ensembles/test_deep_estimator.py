"""Deep ensembles as estimators: conventions of scikit-learn, predictions, what is measured on the way, bad input."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special
from sklearn.exceptions import ConvergenceWarning

from equitangents import DeepEnsemble, DeepEnsembleClassifier, nn
from equitangents.inference.probabilities import argmax_probabilities

rng = np.random.default_rng(4)
X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
LABELS = np.array(["b", "a", "c", "a"])[np.arange(20) % 4]
NET = nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(2))
ONE = nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(1))
THREE = nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(3))


@pytest.fixture(scope="module")
def fitted():
    return DeepEnsemble(NET, members=5, epochs=3, batch_size=8).fit(X, Y)


@pytest.fixture(scope="module")
def fitted_one():
    return DeepEnsemble(ONE, members=5, epochs=3).fit(X, Y[:, 0])


@pytest.mark.slow
def test_predictions_are_moments_over_members(fitted):
    members = fitted.predict_members(X)
    assert members.shape == (5, 20, 2)
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(mean, members.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(std, members.std(axis=0, ddof=1), rtol=1e-5)
    _, cov = fitted.predict(X, return_cov=True)
    assert cov.shape == (20, 20, 2)
    for k in range(2):
        np.testing.assert_allclose(cov[..., k], np.cov(members[..., k].T), rtol=1e-4, atol=1e-6)


def test_one_dimensional_targets_give_one_dimensional_predictions(fitted_one):
    mean, std = fitted_one.predict(X, return_std=True)
    _, cov = fitted_one.predict(X, return_cov=True)
    assert (mean.shape, std.shape, cov.shape) == ((20,), (20,), (20, 20))
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=1e-5)
    assert fitted_one.predict_members(X).shape == (5, 20, 1)
    assert DeepEnsemble(ONE, members=2, epochs=0).fit(X, Y[:, :1]).predict(X).shape == (20, 1)


def test_many_inputs_are_predicted_in_blocks(fitted):
    many = rng.normal(size=(5000, 3))
    np.testing.assert_allclose(
        fitted.predict_members(many)[:, ::1000], fitted.predict_members(many[::1000]), rtol=1e-4, atol=1e-6
    )
    assert fitted.predict(many).shape == (5000, 2)


def test_records_are_what_shorter_trainings_end_at():
    model = DeepEnsemble(NET, members=3, epochs=4, batch_size=8)
    model.fit(X, Y, record={"train": X, "few": X[:2]})
    assert model.recorded_epochs_.tolist() == [0, 1, 2, 3, 4]
    assert model.recorded_["few"].shape == (5, 3, 2, 2)
    for epochs in (0, 3, 4):
        shorter = DeepEnsemble(NET, members=3, epochs=epochs, batch_size=8).fit(X, Y)
        np.testing.assert_array_equal(model.recorded_["train"][epochs], shorter.predict_members(X))


def test_records_do_not_disturb(fitted):
    model = DeepEnsemble(NET, members=5, epochs=3, batch_size=8).fit(X, Y, record={"x": X}, record_at=[3, 1, 1])
    assert model.recorded_epochs_.tolist() == [1, 3]
    jax.tree.map(np.testing.assert_array_equal, model.params_, fitted.params_)
    assert DeepEnsemble(NET, members=2, epochs=1).fit(X, Y).recorded_ == {}


def test_divergence_is_announced():
    with pytest.warns(ConvergenceWarning, match="diverged for 2 of 2 members .* lower learning_rate"):
        model = DeepEnsemble(NET, members=2, optimizer="gd", learning_rate=1000.0, epochs=30).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="diverged for 3 of 3 members"):
        model.extend(3, X, Y)


def test_divergence_in_the_last_step_is_announced_with_what_sets_its_size():
    message = r"diverged for 2 of 2 members \(member 0 in epoch 1\); lower learning_rate"
    with pytest.warns(ConvergenceWarning, match=message):
        model = DeepEnsemble(NET, members=2, optimizer="gd", learning_rate=1e38, epochs=1).fit(100 * X, Y)
    assert np.isfinite(model.history_).all()
    assert not np.isfinite(model.predict(X)).any()
    with pytest.warns(ConvergenceWarning, match="diverged"):
        DeepEnsemble(NET, members=2, optimizer=optax.sgd(1e6), epochs=20).fit(X, Y)


def test_a_mask_of_infinities_among_the_parameters_is_no_divergence():
    init, apply = NET.init, NET.apply
    masked = lambda key, shape, dtype="float32": (init(key, shape, dtype), jnp.full(2, -jnp.inf, dtype))
    net = (masked, lambda params, x: apply(params[0], x) + jnp.exp(params[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = DeepEnsemble(net, members=2, epochs=1).fit(X, Y)
    assert any(np.isinf(leaf).all() for leaf in jax.tree.leaves(model.params_))


class TestClassifier:
    """Labels of any type, probabilities, and two losses."""

    @pytest.mark.parametrize(
        "loss", [None, *(pytest.param(name, marks=pytest.mark.slow) for name in ("cross_entropy", "mse"))]
    )
    def test_learns(self, loss):
        x = rng.normal(size=(32, 3))
        labels = np.array(["left", "right"])[(x[:, 0] > 0).astype(int)]
        model = DeepEnsembleClassifier(NET, members=4, learning_rate=0.5, epochs=120, loss=loss).fit(x, labels)
        assert model.score(x, labels) > 0.9
        assert model.classes_.tolist() == ["left", "right"]
        assert set(model.predict(x)) == {"left", "right"}

    @pytest.mark.slow
    def test_probabilities_with_cross_entropy_are_the_mean_softmax(self):
        model = DeepEnsembleClassifier(THREE, members=4, epochs=2).fit(X, LABELS)
        members = scipy.special.softmax(model.predict_members(X), axis=2)
        np.testing.assert_allclose(model.predict_proba(X), members.mean(axis=0), rtol=1e-5)
        assert (model.predict(X) == model.classes_[members.mean(axis=0).argmax(axis=1)]).all()

    def test_with_mse_it_is_regression_on_centred_one_hot_targets(self):
        settings = {"members": 4, "epochs": 2, "loss": "mse"}
        model = DeepEnsembleClassifier(THREE, **settings).fit(X, LABELS)
        targets = (LABELS[:, None] == ["a", "b", "c"]) - 1 / 3
        regression = DeepEnsemble(THREE, **settings).fit(X, targets)
        jax.tree.map(np.testing.assert_array_equal, model.params_, regression.params_)
        np.testing.assert_allclose(
            model.predict_proba(X), argmax_probabilities(*regression.predict(X, return_std=True)), rtol=1e-6
        )
