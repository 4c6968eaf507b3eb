"""Deep ensembles as estimators: conventions of scikit-learn, predictions, what is measured on the way, bad input."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from equitangents import DeepEnsemble, DeepEnsembleClassifier, nn
from equitangents.errors import EquitangentsError, MemoryLimitError, NotFittedError
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


def test_callbacks_and_records_see_the_same_course():
    seen = {}

    def callback(epoch, state):
        seen[epoch] = (state.losses.copy(), state.predict_members(X), state.predict(X), state.epoch, state.epochs)
        seen["params"] = state.params

    model = DeepEnsemble(NET, members=3, epochs=4, batch_size=8, callback=callback)
    model.fit(X, Y, record={"train": X, "few": X[:2]})
    assert model.recorded_epochs_.tolist() == [0, 1, 2, 3, 4]
    assert model.recorded_["few"].shape == (5, 3, 2, 2)
    for epoch in range(1, 5):
        losses, members, mean, now, epochs = seen[epoch]
        assert (now, epochs) == (epoch, 4)
        np.testing.assert_array_equal(losses, model.history_[epoch - 1])
        np.testing.assert_array_equal(members, model.recorded_["train"][epoch])
        np.testing.assert_allclose(mean, members.mean(axis=0))
    jax.tree.map(np.testing.assert_array_equal, seen["params"], model.params_)
    np.testing.assert_array_equal(model.recorded_["train"][-1], model.predict_members(X))
    start = DeepEnsemble(NET, members=3, epochs=0).fit(X, Y)
    np.testing.assert_array_equal(model.recorded_["train"][0], start.predict_members(X))


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
    told = r"diverged for 2 of 2 members \(member 0 in epoch 1\); lower learning_rate"
    with pytest.warns(ConvergenceWarning, match=told):
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


@pytest.mark.parametrize(
    "estimator", [DeepEnsemble(NET), pytest.param(DeepEnsembleClassifier(THREE), marks=pytest.mark.slow)]
)
def test_constructors_store_and_clones_forget(estimator):
    changed = {"members": 2, "epochs": 1, "zero_output": True, "seed": 3, "checkpoint_every": 7, "momentum": 0.5}
    estimator.set_params(**changed)
    assert {name: estimator.get_params()[name] for name in changed} == changed
    estimator.fit(X, Y if isinstance(estimator, DeepEnsemble) else LABELS)
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert not hasattr(copy, "params_")
    assert copy.net is estimator.net


def test_a_failed_fit_leaves_nothing_to_predict_with():
    model = DeepEnsemble(NET, members=2, epochs=0).fit(X, Y)
    with pytest.raises(EquitangentsError):
        model.fit(X, np.full_like(Y, np.nan))
    with pytest.raises(NotFittedError, match="this DeepEnsemble is not fitted yet"):
        model.predict(X)


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

    def test_extends(self):
        model = DeepEnsembleClassifier(THREE, members=2, epochs=1).fit(X, LABELS).extend(3, X, LABELS)
        large = DeepEnsembleClassifier(THREE, members=3, epochs=1).fit(X, LABELS)
        np.testing.assert_array_equal(model.predict_proba(X), large.predict_proba(X))
        with pytest.raises(EquitangentsError, match="the labels of fit"):
            model.extend(4, X, np.where(LABELS == "a", "z", LABELS))

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (LABELS[:5], "X has length 20; expected 5"),
            (np.ones(20), "y holds one class"),
            (np.eye(20), "expected labels of shape"),
            (np.arange(20) % 2, "net gives outputs, 3; expected 2; end it with Dense"),
        ],
    )
    def test_refuses(self, y, message):
        with pytest.raises(EquitangentsError, match=message):
            DeepEnsembleClassifier(THREE).fit(X, y)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"net": "mlp"}, TypeError, "net is 'mlp'; expected a network"),
        ({"batch_size": 4, "optimizer": "gd"}, ValueError, "batch_size is 4; expected None with optimizer 'gd'"),
        ({"momentum": 1.0}, ValueError, "momentum is 1.0; expected a number from 0 to below 1"),
        ({"loss": "hinge"}, ValueError, "loss is 'hinge'; expected None or 'mse' or 'cross_entropy'"),
        ({"loss": "cross_entropy"}, ValueError, r"y\[0\] is .*; expected rows ≥ 0 that sum to 1"),
        ({"checkpoint_every": 0}, ValueError, "checkpoint_every is 0"),
        ({"callback": 1}, TypeError, "callback is 1; expected a function"),
        ({"input_shape": (2, 2)}, ValueError, r"with input_shape=\(2, 2\)"),
        ({"net": ONE}, ValueError, r"net gives outputs, 1; expected 2; end it with Dense"),
        ({"net": nn.Sequential(nn.Conv(2, 3))}, ValueError, "Conv"),
    ],
)
def test_bad_parameters(changed, error, message):
    with pytest.raises(error, match=message) as caught:
        DeepEnsemble(**{"net": NET, "epochs": 1} | changed).fit(X, Y)
    assert isinstance(caught.value, EquitangentsError)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[0], Y, "X has rank 1"),
        (X, Y[:5], "X has length 20; expected 5"),
        (np.where(X > 2, np.nan, X) * np.nan, Y, "X holds NaN"),
        (X * 1j, Y, "dtype complex128"),
        (X.astype(str), Y, ""),
    ],
)
def test_bad_data(x, y, message):
    if x.dtype.kind == "U":
        x = np.full(x.shape, "one")
        message = "X has dtype <U3; expected real numbers"
    with pytest.raises(EquitangentsError, match=message):
        DeepEnsemble(NET, epochs=1).fit(x, y)


@pytest.mark.parametrize(
    ("record", "record_at", "message"),
    [
        (None, [1], "record_at is given without record"),
        ([X], None, "record is of type list; expected a dictionary"),
        ({"x": X}, [3], "an epoch of record_at is 3; expected a whole number, at least 0 and at most 2"),
        ({"x": X[:, :2]}, None, "X has 2 features"),
        ({"x": X}, 1, "record_at is 1; expected a list"),
    ],
)
def test_bad_records(record, record_at, message):
    with pytest.raises(EquitangentsError, match=message):
        DeepEnsemble(NET, members=2, epochs=2).fit(X, Y, record=record, record_at=record_at)


def test_bad_queries(fitted):
    with pytest.raises(EquitangentsError, match="X has 2 features, but DeepEnsemble is expecting 3"):
        fitted.predict(X[:, :2])
    with pytest.raises(EquitangentsError, match="X holds NaN"):
        fitted.predict(X * np.nan)
    with pytest.raises(EquitangentsError, match="return_std and return_cov are both True"):
        fitted.predict(X, return_std=True, return_cov=True)
    with pytest.raises(NotFittedError):
        DeepEnsemble(NET).predict_members(X)


def test_memory_is_estimated_before_it_is_taken():
    huge = nn.Sequential(nn.Dense(10**7), nn.Relu(), nn.Dense(10**6), nn.Dense(2))
    with pytest.raises(MemoryLimitError, match=r"training 10 members needs about .* train fewer, then extend"):
        DeepEnsemble(huge).fit(X, Y)
    with pytest.raises(MemoryLimitError, match="the recorded outputs"):
        DeepEnsemble(NET, memory_limit=10**6).fit(X, Y, record={"x": np.ones((3000, 3))})
    model = DeepEnsemble(NET, members=2, epochs=0, memory_limit=10**5).fit(X, Y)
    with pytest.raises(MemoryLimitError, match="outputs of 2 members on 10000 inputs"):
        model.predict_members(np.ones((10_000, 3)))
    with pytest.raises(MemoryLimitError, match="covariance between 200 inputs"):
        model.predict(np.ones((200, 3)), return_cov=True)
