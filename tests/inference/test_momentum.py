"""Law: momentum in closed form is gradient descent with momentum, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents.inference import Momentum
from equitangents.inference.dynamics import Descent, HeavyBall


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 60])
def test_residuals_are_those_of_the_steps(steps):
    eigenvalues = np.array([0.0, 1e-9, 0.3, 2.0, 5.6])
    dynamics = HeavyBall(learning_rate=1.5, samples=3, momentum=0.6)
    f, v = np.zeros(5), np.zeros(5)
    for _ in range(steps):
        v = 0.6 * v + (eigenvalues * f - 1) / 3  # f = response, with targets 1 along each eigenvector
        f = f - 1.5 * v
    assert np.allclose(dynamics.response(eigenvalues, steps), f, rtol=1e-12)
    assert np.allclose(dynamics.decay(eigenvalues, steps), 1 - eigenvalues * f, atol=1e-12)


def test_without_momentum_it_is_gradient_descent_and_its_bound_grows_with_it():
    eigenvalues = np.array([0.0, 0.5, 3.0])
    plain, none = Descent(1.2, 4), HeavyBall(1.2, 4, 0.0)
    assert np.allclose(none.response(eigenvalues, 9), plain.response(eigenvalues, 9), rtol=1e-13)
    assert HeavyBall(1.0, 4, 0.5).max_learning_rate(2.0) == pytest.approx(6.0)
    with pytest.raises(et.errors.InvalidArgumentError, match="gradient descent on these data diverges"):
        HeavyBall(6.1, 4, 0.5).check(2.0, 3)
    with pytest.raises(et.errors.InvalidArgumentError, match="counts steps"):
        HeavyBall(1.0, 4, 0.5).check(2.0, 1.5)
    with pytest.raises(et.errors.InvalidArgumentError, match="momentum is 1"):
        Momentum(1.0)


def test_an_ensemble_trains_with_momentum():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    net = et.nn.Sequential(et.nn.Dense(1, 1.3, 0.2))
    model = et.InfiniteEnsemble(net, time=4, learning_rate=0.5, dynamics=Momentum(0.8)).fit(x[:4], y[:4])
    kernel, cross = net.kernel(x[:4]).ntk, net.kernel(x[4:], x[:4]).ntk
    f, g, v = np.zeros(4), 0.0, np.zeros(4)
    for _ in range(4):
        v = 0.8 * v + (f - y[:4]) / 4
        f, g = f - 0.5 * kernel @ v, g - 0.5 * cross @ v
    assert np.allclose(model.predict(x[4:]), g, rtol=1e-9)
