"""Laws: bagging of fields resamples whole fields; its moments are those of the mixture of the resamples' processes."""

import jax
import numpy as np
import pytest

import equitangents as et
from ensembles.fields.patch_kernels import PatchKernels
from equitangents.ensembles.training.variations import Bootstrap, variation_key
from equitangents.errors import ShapeError

NET, B = PatchKernels(), 3


@pytest.fixture
def data():
    rng = np.random.default_rng(8)
    return rng.normal(size=(5, 3, 3, 1)), rng.normal(size=(5, 3, 3, 2)), rng.normal(size=(2, 3, 3, 1))


def bagged(**settings):
    return et.ensembles.BaggedInfiniteEnsemble(et.InfiniteEnsemble(NET, ridge=0.1, **settings), resamples=B, seed=4)


@pytest.mark.slow
def test_moments_of_bagged_fields_are_those_of_the_mixture(data):
    x, y, x_test = data
    model = bagged(time=5.0).fit(x, y)
    parts = []
    for i in range(B):
        rows = Bootstrap().rows(variation_key(4, i), 5, 1)
        one = et.InfiniteEnsemble(NET, ridge=0.1, time=5.0).fit(x[rows], y[rows])
        mean, covariance = one.predict(x_test, return_cov=True)
        parts.append((mean.reshape(18, 2), covariance.reshape(18, 18)))
    means = np.stack([m for m, _ in parts])
    literal = np.stack([c for _, c in parts]).mean(0)[..., None] + np.zeros(2)
    for k in range(2):
        literal[..., k] += np.cov(means[..., k].T, ddof=0)
    mean, covariance = model.predict(x_test, return_cov=True)
    assert mean.shape == (2, 3, 3, 2)
    assert covariance.shape == (2, 3, 3, 2, 3, 3, 2)
    assert not np.max(np.abs(mean.reshape(18, 2) - means.mean(0))) > 1e-12
    assert not np.max(np.abs(covariance.reshape(18, 18, 2) - literal)) > 1e-12
    std = model.predict(x_test, return_std=True)[1]
    assert not np.max(np.abs(std.reshape(18, 2) ** 2 - np.einsum("iik->ik", literal))) > 1e-12
    assert model.sample(x_test, 4, key=jax.random.key(0)).shape == (4, 2, 3, 3, 2)
    assert model.positions_ == (3, 3)


def test_bagged_fields_without_an_axis_of_outputs_are_answered_without_it(data):
    x, y, x_test = data
    net = et.nn.Sequential(et.nn.Conv(1, (3, 3)))
    model = et.ensembles.BaggedInfiniteEnsemble(et.InfiniteEnsemble(net, ridge=0.1, time=1.0), resamples=2)
    mean, std = model.fit(x, y[..., 0]).predict(x_test, return_std=True)
    assert mean.shape == std.shape == (2, 3, 3)
    assert model.predict(x_test, return_cov=True)[1].shape == (2, 3, 3, 2, 3, 3)
    with pytest.raises(ShapeError, match=r"expected \(5, 3, 3, outputs\); for one target a sample, end"):
        model.fit(x, y[:, 0, 0])
