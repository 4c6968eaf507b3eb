"""Pairs (init, apply) are networks as objects with the two methods are."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import DeepEnsemble, nn
from equitangents.ensembles import Variables

NET = nn.Sequential(nn.Dense(4, b_std=0.1), nn.Relu(), nn.Dense(1))


@pytest.fixture
def xy(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=5)


def fitted(net, x, y, **settings):
    return DeepEnsemble(net, 2, **{"epochs": 3, "batch_size": 2} | settings).fit(x, y)


@pytest.mark.slow
def test_a_networks_own_two_functions_are_that_network(xy):
    pair = fitted((NET.init, NET.apply), *xy)
    whole = fitted(NET, *xy)
    np.testing.assert_allclose(pair.predict(xy[0]), whole.predict(xy[0]), rtol=1e-5)
    apply, params = pair.member(1)
    np.testing.assert_allclose(
        apply(params, xy[0].astype("float32"))[:, 0], pair.predict_members(xy[0])[1, :, 0], rtol=1e-5
    )


@pytest.mark.slow
def test_a_pair_carries_a_state_and_is_given_a_key_in_training_alone(xy):
    x, y = xy
    seen = []

    def init(key, input_shape):
        return Variables(jax.random.normal(key, (*input_shape, 1)), {"steps": jnp.zeros((), int), "mean": jnp.zeros(3)})

    def apply(variables, x, train=False, key=None):
        seen.append((train, key is not None))
        w, state = variables
        if not train:
            return (x - state["mean"]) @ w
        state = {"steps": state["steps"] + 1, "mean": 0.5 * state["mean"] + 0.5 * x.mean(0)}
        return x * jax.random.bernoulli(key, 0.5, x.shape) @ w, state

    model = fitted((init, apply), x, y, epochs=9, batch_size=None)
    assert set(seen) == {(True, True), (False, False)}
    np.testing.assert_array_equal(model.params_["state"]["steps"], [9, 9])
    variables = jax.tree.map(lambda a: a[0], model.params_)
    expected = (x - variables["state"]["mean"]) @ variables["params"]
    np.testing.assert_allclose(model.predict_members(x)[0], expected, rtol=1e-4, atol=1e-6)


def test_an_object_with_a_key_in_its_apply_has_dropout(xy):
    class Noisy:
        def init(self, key, input_shape, dtype):
            return jax.random.normal(key, (*input_shape, 1), dtype)

        def apply(self, params, x, key=None):
            return x @ params if key is None else x * jax.random.bernoulli(key, 0.5, x.shape) @ params

    model = fitted(Noisy(), *xy, epochs=1, batch_size=None, learning_rate=1e-9)
    x, y = xy
    start = model.predict_members(x)[:, :, 0]
    plain = 0.5 * ((start - y) ** 2).mean(axis=1)
    assert (np.abs(model.history_[0] - plain) > 1e-3).all()  # half of the inputs were dropped


@pytest.mark.slow
def test_no_other_library_is_imported_for_own_networks():
    code = (
        "import sys, equitangents as et, numpy as np\n"
        "net = et.nn.Sequential(et.nn.Dense(1))\n"
        "et.DeepEnsemble(net, 1, epochs=0).fit(np.ones((2, 1)), np.ones(2))\n"
        "assert not {'flax', 'equinox', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
