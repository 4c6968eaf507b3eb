"""Ensembles on random features: solved in the space of features, they are those of the kernel that features make."""

import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.kernels import random_features
from equitangents.kernels.random_features import RandomFeatures
from equitangents.solvers.spectral import FeatureMatrix, Primal

NET = nn.Sequential(nn.Dense(1, 2**0.5, 0.2), nn.Relu(), nn.Dense(1, 2**0.5), nn.Relu(), nn.Dense(1))


@pytest.fixture
def data(rng):
    x = rng.standard_normal((60, 5))
    return x, np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1), rng.standard_normal((4, 5))


@pytest.mark.quick(1)
@pytest.mark.parametrize("features", [40, 300])  # fewer than inputs, and more
@pytest.mark.parametrize("settings", [{"ridge": 1e-3, "time": 20.0}, {"ridge": 0.1, "kernel": "nngp"}])
def test_the_primal_solution_is_that_of_the_kernel_of_features(features, settings, data):
    x, y, test = data
    x, y = np.concatenate([x, x[:5]]), np.concatenate([y, y[:5]])  # equal samples are merged
    cheap = random_features(NET, features)
    primal = et.InfiniteEnsemble(cheap, **settings).fit(x, y)
    dense = et.InfiniteEnsemble(cheap, solver="eigh", **settings).fit(x, y)
    assert primal.solver_ == f"primal N×{features}"
    assert primal.solution_.solver == "primal"
    for ours, theirs in zip(primal.predict(test, return_std=True), dense.predict(test, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    times = np.array([0.0, 3.0, np.inf])
    np.testing.assert_allclose(primal.predict(test, times), dense.predict(test, times), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        primal.predict(test, return_cov=True)[1], dense.predict(test, return_cov=True)[1], rtol=1e-7, atol=1e-9
    )


def test_without_ridge_more_inputs_than_features_give_least_squares(data):
    x, y, test = data
    cheap = random_features(NET, 20)
    found = et.InfiniteEnsemble(cheap).fit(x, y).predict(test)
    weights = np.linalg.lstsq(cheap.transform(x), y, rcond=None)[0]
    np.testing.assert_allclose(found, cheap.transform(test) @ weights, rtol=1e-6)


def test_no_square_matrix_of_the_inputs_is_formed(rng, monkeypatch):
    x = rng.standard_normal((400, 5))
    read = FeatureMatrix.block

    def small(matrix, rows, columns):  # the planner measures a small block
        found = read(matrix, rows, columns)
        assert found.size < 400**2 / 4
        return found

    def refused(*_):
        raise AssertionError("a kernel matrix of the inputs")

    monkeypatch.setattr(RandomFeatures, "kernel", refused)
    monkeypatch.setattr(FeatureMatrix, "block", small)
    model = et.InfiniteEnsemble(random_features(NET, 40), ridge=1e-2).fit(x, x[:, 0])
    assert np.isfinite(model.predict(x[:3])).all()


@pytest.mark.slow
def test_approximation_falls_with_the_number_of_features(data):
    x, y, _ = data
    each = [et.InfiniteEnsemble(random_features(NET, m), ridge=0.1).fit(x, y).approximation_ for m in (64, 2048)]
    assert each[1].difference < each[0].difference / 3
    assert 0 < each[1].difference < 0.2
    assert (each[0].samples, each[0].predicted) == (60, 15)
    assert et.InfiniteEnsemble(NET, ridge=0.1).fit(x, y).approximation_ is None


@pytest.mark.parametrize("ridge", [np.full(60, 0.1), np.linspace(0.05, 0.2, 60)], ids=["one ridge", "one per sample"])
def test_approximation_is_what_both_ensembles_predict(data, ridge):
    x, y, _ = data
    cheap = random_features(NET, 128)
    approximation = et.InfiniteEnsemble(cheap, ridge=ridge, solver="eigh").fit(x, y).approximation_
    order = np.random.default_rng(0).permutation(60)
    trained, held = order[:45], order[45:]
    both = (et.InfiniteEnsemble(k, ridge=ridge[trained], solver="eigh") for k in (cheap, NET))
    ours, exact = (model.fit(x[trained], y[trained]).predict(x[held]) for model in both)
    assert approximation.difference == pytest.approx(np.linalg.norm(ours - exact) / np.linalg.norm(exact), rel=1e-6)


def test_of_one_sample_none_is_left_to_predict():
    model = et.InfiniteEnsemble(random_features(NET, 64), ridge=0.1).fit(np.ones((1, 3)), np.ones(1))
    with pytest.raises(et.errors.InvalidArgumentError, match="at least 2 samples"):
        _ = model.approximation_


def test_a_classifier(data):
    x, _, _ = data
    labels = np.where(x[:, 0] + x[:, 1] > 0, "yes", "no")
    model = et.InfiniteEnsembleClassifier(random_features(NET, 512), ridge=1e-2).fit(x, labels)
    assert model.score(x, labels) > 0.9


def test_the_primal_method_is_for_features_alone(data):
    x, y, _ = data
    with pytest.raises(et.errors.InvalidArgumentError, match="for kernels that are not of random features"):
        et.InfiniteEnsemble(NET, ridge=0.1, solver=Primal(64)).fit(x, y)
