"""Ensembles of PyTorch modules that end on positions: the literal loss, and what DeepEnsemble says of fields."""

import numpy as np
import pytest
import torch

import equitangents as et
from equitangents.errors import NetworkError
from equitangents.torch import Ensemble, EnsembleClassifier, member_seeds

STEPS, RATE = 3, 0.05
SETTINGS = {"optimizer": "gd", "learning_rate": RATE, "epochs": STEPS, "dtype": "float64"}


def conv(outputs=2):
    return torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3, padding=1), torch.nn.Tanh(), torch.nn.Conv2d(3, outputs, 1))


@pytest.fixture
def data(rng):
    return rng.normal(size=(5, 4, 3, 1)), rng.normal(size=(5, 4, 3, 2))


def literal(x, loss):
    """Member 1 after full-batch descent on a loss of outputs (N, C, H, W)."""
    torch.manual_seed(member_seeds(0, 1).init)
    module = conv().double()
    images = torch.from_numpy(np.moveaxis(x, -1, 1))
    for _ in range(STEPS):
        module.zero_grad()
        loss(module(images)).backward()
        with torch.no_grad():
            for p in module.parameters():
                p -= RATE * p.grad
    return np.moveaxis(module(images).detach().numpy(), 1, -1)


@pytest.mark.parametrize("method", ["torch.func", "in turn"])
def test_a_member_is_trained_on_the_sum_over_positions(data, method):
    x, y = data
    model = Ensemble(conv, 2, method=method, **SETTINGS).fit(x, y)
    channels = torch.from_numpy(np.moveaxis(y, -1, 1))
    expected = literal(x, lambda f: 0.5 * ((f - channels) ** 2).sum() / 5)
    assert model.predict_members(x).shape == (2, 5, 4, 3, 2)
    assert not np.max(np.abs(model.predict_members(x)[1] - expected)) > 1e-9
    assert model.positions_ == (4, 3)
    mean, covariance = model.predict(x, return_cov=True)
    assert mean.shape == (5, 4, 3, 2)
    assert covariance.shape == (5, 4, 3, 5, 4, 3, 2)


def test_label_fields_are_trained_by_cross_entropy_at_every_position(data, tmp_path):
    x, y = data
    labels = np.where(y[..., 0] > 0, "b", "a")
    model = EnsembleClassifier(conv, 2, **SETTINGS).fit(x, labels)
    index = torch.from_numpy((labels == "b").astype(int))
    expected = literal(x, lambda f: torch.nn.functional.cross_entropy(f, index, reduction="sum") / 5)
    assert not np.max(np.abs(model.predict_members(x)[1] - expected)) > 1e-9
    assert model.predict_proba(x).shape == (5, 4, 3, 2)
    np.testing.assert_array_equal(model.predict(x), np.array(["a", "b"])[model.predict_proba(x).argmax(-1)])
    assert model.score(x, labels) == (model.predict(x) == labels).mean()
    model.save(tmp_path / "model")
    loaded = EnsembleClassifier.load(tmp_path / "model", factory=conv)
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


def test_augmentation_moves_fields_along(data):
    x, y = data[0][:, :3], data[1][:, :3]
    turns = et.actions.image_rotations(4)
    model = Ensemble(conv, 1, turns, **SETTINGS).fit(x, y)
    copies = [np.concatenate([np.asarray(turns(g, z)) for g in range(4)]) for z in (x, y)]
    explicit = Ensemble(conv, 1, **SETTINGS).fit(*copies)
    assert not np.max(np.abs(model.predict(x) - explicit.predict(x))) > 1e-9


def test_outputs_that_are_not_those_fields_are_refused_in_words(data):
    x, y = data
    with pytest.raises(NetworkError, match=r"expected \(2, 3, 4, 3\); the shape of y's fields"):
        Ensemble(conv, members=1, epochs=1).fit(x, np.concatenate([y, y[..., :1]], axis=-1))
