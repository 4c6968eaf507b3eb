"""`calibrate=True`: the temperature is that of the smallest log loss of samples left out, and probabilities are its."""

import numpy as np
import pytest
import scipy.special
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import equitangents as et
from equitangents.ensembles.saved_objects import restored, state_of
from equitangents.inference.probabilities import fitted_temperature, inverse_temperatures

NET = et.nn.Sequential(et.nn.Dense(8, W_std=1.4, b_std=0.3), et.nn.Relu(), et.nn.Dense(1))
RNG = np.random.default_rng(1)
X, Q = RNG.normal(size=(40, 3)), RNG.normal(size=(6, 3))
Y = np.array(list("abc"))[np.argmax(X + 0.8 * RNG.normal(size=X.shape), axis=1)]


C3, SHIFTS = et.groups.cyclic(3), [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def classifier(net=NET, **more):
    return et.InfiniteEnsembleClassifier(net, ridge=0.1, calibrate=True, **more)


def log_loss(inverse, outputs, index):
    """With the targets of Platt."""
    n, K = outputs.shape
    aimed = np.full((n, K), 1 / (n + 2) / (K - 1))
    aimed[np.arange(n), index] = (n + 1) / (n + 2)
    return -(aimed * scipy.special.log_softmax(inverse * outputs, axis=1)).sum(axis=1).mean()


def test_the_temperature_is_that_of_the_smallest_log_loss_of_refits():
    model = classifier().fit(X, Y)
    plain = et.InfiniteEnsembleClassifier(NET, ridge=0.1)
    left_out = []
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        left_out.append(clone(plain).fit(X[others], Y[others]).ensemble_.predict(X[i : i + 1])[0])
    index = np.searchsorted(model.classes_, Y)
    best = minimize_scalar(log_loss, (0.1, 10.0), args=(np.array(left_out), index), tol=1e-12)
    np.testing.assert_allclose(model.temperature_, 1 / best.x, rtol=1e-5)
    expected = scipy.special.softmax(model.ensemble_.predict(Q) / model.temperature_, axis=1)
    np.testing.assert_allclose(model.predict_proba(Q), expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_the_temperature_has_the_unit_of_outputs_and_shifts_have_no_part(size):
    outputs = RNG.normal(size=(50, 4))
    targets = np.eye(4)[np.argmax(outputs + RNG.normal(size=outputs.shape), axis=1)]
    T = fitted_temperature(outputs, targets)
    np.testing.assert_allclose(
        fitted_temperature(size * (outputs + RNG.normal(size=(50, 1))), targets), size * T, rtol=1e-6
    )


def test_where_all_are_right_it_is_positive_and_where_none_is_better_than_chance_all_classes_are_as_likely(caplog):
    targets = np.eye(3)[np.arange(30) % 3]
    assert 0 < fitted_temperature(targets - 1 / 3, targets) < 1
    assert not caplog.records
    for useless in (1 / 3 - targets, np.zeros((30, 3))):
        assert fitted_temperature(useless, targets) == np.inf
    assert sum("no better than by chance" in record.message for record in caplog.records) == 2
    with pytest.raises(et.errors.NotFiniteError):
        fitted_temperature(np.full((3, 3), np.nan), np.eye(3))


def test_left_out_outputs_that_are_rounding_tell_nothing():
    """Orthogonal inputs of a linear network: each is predicted as 0 by the others, up to rounding."""
    targets = np.eye(2)[np.arange(6) % 2]
    assert fitted_temperature(1e-16 * targets, targets) == np.inf
    assert inverse_temperatures(1e-16 * targets[None], np.arange(6) % 2).tolist() == [0.0]
    linear = et.nn.Sequential(et.nn.Dense(1))
    model = et.InfiniteEnsembleClassifier(linear, calibrate=True, ridge=0.1).fit(np.eye(6), np.arange(6) % 2)
    np.testing.assert_allclose(model.predict_proba(np.eye(6)), 0.5)


@pytest.mark.parametrize(
    ("settings", "net"),
    [
        ({}, NET),
        ({"augmentation": et.actions.channels(C3, SHIFTS), "label_action": et.actions.labels(C3, SHIFTS)}, NET),
        ({"kernel": "nngp", "time": 30.0, "standardise": True}, NET),
        ({"solver": "pcg"}, NET),
    ],
    ids=["plain", "augmented", "standardised at a time", "iterated"],
)
def test_probabilities_are_of_the_predicted_class_and_of_the_time_asked_for(settings, net):
    model = classifier(net, **settings).fit(X, Y)
    p = model.predict_proba(Q)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert model.classes_[p.argmax(axis=1)].tolist() == model.predict(Q).tolist()
    both = model.predict_proba(Q, [model.time, 2.0])
    np.testing.assert_allclose(both[0], p)
    np.testing.assert_allclose(both[1], clone(model).set_params(time=2.0).fit(X, Y).predict_proba(Q), rtol=1e-6)


def test_labels_at_every_position():
    net = et.nn.Sequential(et.nn.Conv(1, 3, padding="circular", b_std=0.2), et.nn.Relu(), et.nn.Conv(1, 1))
    x = RNG.normal(size=(6, 5, 1))
    model = et.InfiniteEnsembleClassifier(net, ridge=0.1, calibrate=True).fit(x, (x[..., 0] > 0).astype(int))
    assert model.predict_proba(x).shape == (6, 5, 2)
    assert np.isfinite(model.temperature_)


def test_it_is_saved_and_streamed_and_chosen(tmp_path):
    model = classifier(standardise=True).fit(X, Y)
    model.save(tmp_path / "m")
    loaded = et.InfiniteEnsembleClassifier.load(tmp_path / "m")
    assert loaded.temperature_ == model.temperature_
    np.testing.assert_array_equal(loaded.predict_proba(Q), model.predict_proba(Q))
    et.ensembles.predict_to_file(tmp_path / "m", Q, tmp_path / "p.npz", return_std=True, rows=4)
    np.testing.assert_allclose(np.load(tmp_path / "p.npz")["probability"], model.predict_proba(Q), rtol=1e-9)
    tuned = model.tune({"ridge": [1e-2, 1e-1, 1.0]})
    again = clone(tuned.best).fit(X, Y)
    np.testing.assert_allclose(tuned.best.temperature_, again.temperature_, rtol=1e-8)
    assert np.isfinite(cross_val_score(model, X, Y, cv=3, scoring="neg_log_loss")).all()
    assert clone(model).get_params()["calibrate"] is True


def test_a_temperature_that_is_none_is_refused_when_a_model_is_read():
    state = state_of(et.InfiniteEnsembleClassifier(NET, ridge=0.1).fit(X, Y))
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="do not fit"):
            restored(et.InfiniteEnsembleClassifier, state | {"temperature_": wrong})


def test_what_leave_one_out_refuses_is_refused():
    with pytest.raises(et.errors.InvalidArgumentError, match="leaving samples out"):
        classifier(dynamics="discrete", time=3.0, learning_rate=0.1).fit(X, Y)
    with pytest.raises(et.errors.InvalidArgumentError, match="calibrate is 1; expected True or False"):
        et.InfiniteEnsembleClassifier(NET, calibrate=1).fit(X, Y)


def test_probabilities_of_labels_drawn_by_known_ones_are_those():
    x = RNG.normal(size=(400, 3))
    p = scipy.special.expit(1.5 * x[:, 0])
    y = RNG.random(400) < p
    model = classifier().set_params(ridge=1.0).fit(8 * x[:200], y[:200])
    told, share = model.predict_proba(8 * x[200:])[:, 1], p[200:]
    assert abs(told.mean() - share.mean()) < 0.1
    assert np.abs(told - share).mean() < 0.12
