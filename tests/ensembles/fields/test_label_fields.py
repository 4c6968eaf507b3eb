"""Laws: a classifier of label fields is the regression on one-hot fields, decided and counted at every position."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

import equitangents as et
from ensembles.fields.patch_kernels import PatchKernels
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.inference.probabilities import argmax_probabilities

NET = PatchKernels()
NAMES = np.array(["cell", "ground", "membrane"])


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    x, x_test = rng.normal(size=(5, 3, 3, 1)), rng.normal(size=(2, 3, 3, 1))
    return x, NAMES[np.digitize(x[..., 0], (-0.4, 0.5))], x_test


@pytest.fixture
def fitted(data):
    x, y, _ = data
    one_hot = (y[..., None] == NAMES) - 1 / 3
    return (
        model(NET, ridge=0.1).fit(x, t)
        for model, t in ((et.InfiniteEnsembleClassifier, y), (et.InfiniteEnsemble, one_hot))
    )


def test_classes_and_probabilities_of_positions_are_those_of_the_regression_on_one_hot_fields(data, fitted):
    classifier, regression = fitted
    _, _, x_test = data
    mean, std = regression.predict(x_test, return_std=True)
    assert classifier.classes_.tolist() == NAMES.tolist()
    assert classifier.predict(x_test).shape == (2, 3, 3)
    np.testing.assert_array_equal(classifier.predict(x_test), NAMES[mean.argmax(-1)])
    probabilities = classifier.predict_proba(x_test)
    assert probabilities.shape == (2, 3, 3, 3)
    for at in np.ndindex(2, 3, 3):
        alone = argmax_probabilities(mean[at][None], std[at][None])[0]
        assert not np.max(np.abs(probabilities[at] - alone)) > 1e-12
    several = classifier.predict(x_test, time=[1.0, np.inf])
    np.testing.assert_array_equal(several[1], classifier.predict(x_test))


def test_scores_count_positions_and_weigh_samples(data, fitted):
    classifier, regression = fitted
    x_test = data[2]
    truth = np.broadcast_to(NAMES[0], (2, 3, 3))
    right = (classifier.predict(x_test) == truth).reshape(2, -1).mean(axis=1)
    assert 0 < right.mean() < 1
    assert classifier.score(x_test, truth) == pytest.approx(right.mean())
    assert classifier.score(x_test, truth, sample_weight=[3.0, 1.0]) == pytest.approx((3 * right[0] + right[1]) / 4)
    fields = np.stack([x_test[..., 0], 1 - x_test[..., 0] ** 2, x_test[..., 0] ** 3], -1)
    mean = regression.predict(x_test)
    apart, about = ((fields - z) ** 2 for z in (mean, fields.mean(axis=(0, 1, 2))))
    assert regression.score(x_test, fields) == pytest.approx((1 - apart.sum((0, 1, 2)) / about.sum((0, 1, 2))).mean())


def test_label_fields_go_with_their_positions_under_augmentation(data):
    x, y, x_test = data
    turns = et.actions.image_rotations(4)
    turned = lambda k, z: np.rot90(z, k, (1, 2))
    classifier = et.InfiniteEnsembleClassifier(NET, augmentation=turns, ridge=0.1).fit(x, y)
    moved = np.asarray(turns(1, x_test))
    k = next(k for k in (1, 3) if np.array_equal(turned(k, x_test), moved))
    assert not np.max(np.abs(classifier.predict_proba(moved) - turned(k, classifier.predict_proba(x_test)))) > 1e-9


def test_a_saved_classifier_writes_label_fields_to_files(data, fitted, tmp_path):
    classifier, _ = fitted
    x_test = data[2]
    classifier.save(tmp_path / "model")
    for name in ("labels.npy", "labels.npz"):
        et.ensembles.predict_to_file(tmp_path / "model", x_test, tmp_path / name, rows=1, net=NET)
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), classifier.predict(x_test))
    with np.load(tmp_path / "labels.npz") as held:
        np.testing.assert_array_equal(held["label"], classifier.predict(x_test))
        assert not np.max(np.abs(held["mean"] - classifier.ensemble_.predict(x_test))) > 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_finite_networks_learn_label_fields(data, loss):
    x, y, x_test = data
    net = et.nn.Sequential(et.nn.Conv(4, (3, 3)), et.nn.Relu(), et.nn.Conv(3, (1, 1)))
    model = et.DeepEnsembleClassifier(net, members=2, epochs=1, loss=loss).fit(x, y)
    probabilities = model.predict_proba(x_test)
    assert probabilities.shape == (2, 3, 3, 3)
    np.testing.assert_array_equal(model.predict(x_test), NAMES[probabilities.argmax(-1)])
    assert model.score(x, y) == (model.predict(x) == y).mean()
    outputs = model.predict_members(x_test)
    if loss == "cross_entropy":
        literal = (np.exp(outputs) / np.exp(outputs).sum(-1, keepdims=True)).mean(axis=0)
    else:
        mean, std = (z.reshape(-1, 3) for z in (outputs.mean(axis=0), outputs.std(axis=0, ddof=1)))
        literal = argmax_probabilities(mean, std).reshape(probabilities.shape)
    assert not np.max(np.abs(probabilities - literal)) > 1e-5


def test_labels_that_do_not_fit_the_positions_are_refused_in_words(data):
    x, y, _ = data
    net = et.nn.Sequential(et.nn.Conv(1, (3, 3)))
    with pytest.raises(ShapeError, match=r"ends on 3×3 positions, so for 5 samples expected labels \(5, 3, 3\)"):
        et.InfiniteEnsembleClassifier(net).fit(x, y[:, 0, 0])
    with pytest.raises(InvalidArgumentError, match="one class"):
        et.InfiniteEnsembleClassifier(NET).fit(x, np.zeros((5, 3, 3), int))
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = et.InfiniteEnsembleClassifier(NET, ridge=0.1).fit(x, y[..., None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict(x).shape == (5, 3, 3)
