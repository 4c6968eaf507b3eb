"""Gradients of the marginal likelihood are slopes of what refitted ensembles report."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents import InfiniteEnsemble, InfiniteEnsembleClassifier, actions, nn
from equitangents.errors import InvalidArgumentError
from equitangents.nn.variants import vary

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(17, 3)), RNG.normal(size=(17, 2))
NET = vary(nn.Sequential(nn.Dense(1), nn.Erf(), nn.Residual(nn.Dense(1), nn.Relu()), nn.Dense(1)), W_std=1.4, b_std=0.3)


@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
def test_they_are_slopes_of_refitted_ensembles(kernel):
    model = InfiniteEnsemble(NET, ridge=0.05, kernel=kernel).fit(X, Y)
    found = model.log_marginal_likelihood_gradient()
    assert list(found) == ["ridge", "W_std", "b_std"]
    assert found["ridge"] == model.log_marginal_likelihood_slope_

    def at(ridge=0.05, **scales):
        return InfiniteEnsemble(vary(NET, **scales), ridge=ridge, kernel=kernel).fit(X, Y).log_marginal_likelihood_

    for name, value in (("ridge", 0.05), ("W_std", 1.4), ("b_std", 0.3)):
        h = 1e-4 * value
        slope = (at(**{name: value + h}) - at(**{name: value - h})) / (2 * h)
        assert found[name] == pytest.approx(slope, rel=1e-5), name


def test_a_step_along_the_gradient_is_more_likely():
    model = InfiniteEnsemble(NET, ridge=0.05).fit(X, Y)
    found = model.log_marginal_likelihood_gradient("W_std", "b_std")
    step = 1e-3 / np.hypot(*found.values())
    moved = vary(NET, W_std=1.4 + step * found["W_std"], b_std=0.3 + step * found["b_std"])
    assert InfiniteEnsemble(moved, ridge=0.05).fit(X, Y).log_marginal_likelihood_ > model.log_marginal_likelihood_


def test_of_a_classifier_they_are_those_of_its_regression_and_without_biases_one_is_0():
    net = vary(NET, b_std=0.0)
    model = InfiniteEnsembleClassifier(net, ridge=0.05).fit(X, X[:, 0] > 0)
    found = model.log_marginal_likelihood_gradient("b_std", "ridge")
    assert found == model.ensemble_.log_marginal_likelihood_gradient("b_std", "ridge")
    assert found["b_std"] == 0


@pytest.mark.slow
def test_what_has_none_is_said():
    model = InfiniteEnsemble(NET, ridge=0.05).fit(X, Y)
    with pytest.raises(InvalidArgumentError, match="name is 'depth'; expected 'ridge' or 'W_std' or 'b_std'"):
        model.log_marginal_likelihood_gradient("depth")
    two = nn.Sequential(nn.Dense(1, W_std=1.2), nn.Erf(), nn.Dense(1))
    with pytest.raises(InvalidArgumentError, match=r"W_std is \[1\.0, 1\.2\]"):
        InfiniteEnsemble(two, ridge=0.05).fit(X, Y).log_marginal_likelihood_gradient("W_std")
    branches = nn.Parallel([nn.Dense(1, W_std=0.7), nn.Relu()], [nn.Dense(1, W_std=2.0), nn.Erf()])
    several = InfiniteEnsemble(nn.Sequential(nn.Dense(1, W_std=1.5), branches, nn.Sum(), two.layers[0]), ridge=0.05)
    for ask in (several.fit(X, Y).log_marginal_likelihood_gradient, lambda name: several.refine(X, Y, names=[name])):
        with pytest.raises(InvalidArgumentError, match=r"W_std is \[0\.7, 1\.2, 1\.5, 2\.0\]"):
            ask("W_std")
    images = RNG.normal(size=(5, 2, 2, 1))
    flat = nn.Sequential(nn.Flatten(), *NET.layers)
    turned = InfiniteEnsemble(flat, ridge=0.05, augmentation=actions.image_rotations(4)).fit(images, Y[:5])
    assert np.isfinite(turned.log_marginal_likelihood_gradient("ridge")["ridge"])
    with pytest.raises(InvalidArgumentError, match="without augmentation"):
        turned.log_marginal_likelihood_gradient("W_std")
