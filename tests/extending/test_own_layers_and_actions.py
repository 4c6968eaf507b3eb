"""Layers and actions that a user defines outside the package work as the package's own do."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
import pytest

from equitangents import DeepEnsemble, InfiniteEnsemble, actions, groups, metrics, nn
from equitangents.nn.layer import Layer, ParameterFree


@dataclass(frozen=True)
class Twice(ParameterFree):
    """A user's layer: a nonlinearity of the package, twice."""

    phi: Layer

    def signal(self, signal):
        return self.phi.signal(signal)

    def apply(self, params, x, signal):
        return self.phi.apply((), self.phi.apply((), x, signal), signal)

    def lower(self, signal):
        return self.phi.lower(signal)


class Mirrored(actions.Action):
    """A user's action: the group of two elements turns the order of positions round."""

    group = groups.cyclic(2)
    name = "mirrored"

    def _check_signals(self, x):
        return x

    def _act(self, g, x):
        return x[:, ::-1] if g else x

    def _key(self):
        return ()


def network(phi):
    return nn.Sequential(nn.Flatten(), nn.Dense(6, b_std=0.3), phi, nn.Dense(1))


@pytest.mark.slow
def test_an_own_layer_is_lowered_initialised_applied_and_trained(rng):
    # max(x, 0) twice is max(x, 0), so that the network with the user's layer is the network with the package's.
    own, known = network(Twice(nn.Relu())), network(nn.Relu())
    x, y = rng.standard_normal((5, 3, 1)), rng.standard_normal(5)
    np.testing.assert_array_equal(own.kernel(x).ntk, known.kernel(x).ntk)
    key = jax.random.key(0)
    np.testing.assert_array_equal(own.apply(own.init(key, (3, 1)), x), known.apply(known.init(key, (3, 1)), x))
    one, other = (DeepEnsemble(net, 2, epochs=3).fit(x, y).predict(x) for net in (own, known))
    np.testing.assert_allclose(one, other, rtol=1e-5)
    one, other = (InfiniteEnsemble(net, time=1.0).fit(x, y).predict(x) for net in (own, known))
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_an_own_action_is_verified_augments_and_is_measured(rng):
    action = Mirrored()
    x, y = rng.standard_normal((6, 3, 1)), rng.standard_normal(6)
    np.testing.assert_array_equal(action.orbit(x), np.stack([x, x[:, ::-1]]))
    net = network(nn.Relu())
    plain, augmented = (InfiniteEnsemble(net, augmentation=a, time=10.0).fit(x, y) for a in (None, action))
    np.testing.assert_allclose(augmented.predict(x[:, ::-1]), augmented.predict(x), atol=1e-10)
    before, after = (metrics.equivariance_error(model.predict, action, x).worst for model in (plain, augmented))
    assert before.error > 1e-3
    assert after.error < 1e-9
    trained = DeepEnsemble(net, 2, epochs=2, augmentation=action, augmentation_mode="full").fit(x, y)
    assert np.isfinite(trained.predict(x)).all()
