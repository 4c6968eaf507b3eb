"""Training with a penalty on orbits, against sums over samples and group elements written out."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

from equitangents import DeepEnsemble, actions, groups, nn
from equitangents.ensembles import Bootstrap
from equitangents.ensembles.training.recipe import member_keys
from equitangents.ensembles.training.variations import variation_key

rng = np.random.default_rng(5)
MATRICES = np.stack([np.roll(np.eye(3), g, axis=0) for g in range(3)])  # turns by 120° about (1, 1, 1)
TURN = actions.rotations(groups.from_matrices(MATRICES))
X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
NET = nn.Sequential(nn.Dense(4, b_std=0.3), nn.Erf(), nn.Dense(3))
GD = {"members": 2, "optimizer": "gd", "learning_rate": 0.2, "dtype": "float64", "augmentation": TURN}


def literal_loss(params, gamma, x, y):
    """Means over samples of the loss of all copies, and of what is left of predictions beside their orbit's mean."""
    outputs = [NET.apply(params, x @ R.T) for R in MATRICES]
    loss = sum(0.5 * jnp.sum((f - y @ R.T) ** 2) for f, R in zip(outputs, MATRICES, strict=True))
    back = [f @ R for f, R in zip(outputs, MATRICES, strict=True)]  # the rows R⁻¹ f
    mean = sum(back) / len(back)
    return (loss + gamma / 2 * sum(jnp.sum((u - mean) ** 2) for u in back)) / len(back) / len(x)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [-1.0, -0.5, 2.5])
def test_steps_descend_the_sum_over_samples_and_elements(gamma):
    model = DeepEnsemble(NET, label_action=TURN, equivariance_penalty=gamma, epochs=2, **GD).fit(X, Y)
    params = jax.tree.map(lambda a: a[1], DeepEnsemble(NET, epochs=0, **GD).fit(X, Y).params_)
    for epoch in range(2):
        loss, gradient = jax.value_and_grad(literal_loss)(params, gamma, X, Y)
        np.testing.assert_allclose(model.history_[epoch, 1], loss, rtol=1e-10)
        params = jax.tree.map(lambda p, d: p - 0.2 * d, params, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[1], b, rtol=1e-9), model.params_, params)


@pytest.mark.slow
def test_a_batch_is_of_whole_orbits(monkeypatch):
    settings = GD | {"optimizer": "sgd", "batch_size": 7, "epochs": 2, "members": 1}  # two orbits of 3, and a row over
    model = DeepEnsemble(NET, label_action=TURN, equivariance_penalty=1.5, **settings).fit(X, Y)
    blocked = DeepEnsemble(NET, label_action=TURN, equivariance_penalty=1.5, **settings)
    monkeypatch.setattr("equitangents.ensembles.training.plan._rows_at_once", lambda *shapes: 1)
    blocked.fit(X, Y)
    params = jax.tree.map(lambda a: a[0], DeepEnsemble(NET, **(settings | {"epochs": 0})).fit(X, Y).params_)
    _, order_key = member_keys(0, 0)
    for epoch in range(2):
        key, _ = jax.random.split(jax.random.fold_in(order_key, epoch))
        order = np.asarray(jax.random.permutation(key, jnp.arange(5, dtype=jnp.int32)))
        for some in (order[:2], order[2:4], order[4:]):
            gradient = jax.grad(literal_loss)(params, 1.5, X[some], Y[some])
            params = jax.tree.map(lambda p, d: p - 0.2 * d, params, gradient)
    for found in (model, blocked):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a[0], b, rtol=1e-9), found.params_, params)


@pytest.mark.slow
def test_resamples_keep_their_orbits():
    settings = GD | {"label_action": TURN, "epochs": 1, "variation": Bootstrap(), "members": 1}
    model = DeepEnsemble(NET, equivariance_penalty=2.0, **settings).fit(X, Y)
    start = jax.tree.map(lambda a: a[0], DeepEnsemble(NET, **(settings | {"epochs": 0})).fit(X, Y).params_)
    drawn = Bootstrap().rows(variation_key(0, 0), 5, 1)
    np.testing.assert_allclose(model.history_[0, 0], literal_loss(start, 2.0, X[drawn], Y[drawn]), rtol=1e-10)


@pytest.mark.slow
def test_a_linear_model_learns_its_equivariant_part_as_before_and_forgets_the_rest_faster():
    """Of an orthogonal action: rate λη of what is equivariant, (1 + γ)λη of the rest."""
    swap = actions.linear(groups.cyclic(2), np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]))
    x, y = rng.normal(size=(4, 2)), rng.normal(size=4)
    net = nn.Sequential(nn.Dense(1))
    fit = lambda gamma, rate: (
        DeepEnsemble(
            net, members=1, optimizer="gd", learning_rate=rate, epochs=7, dtype="float64", augmentation=swap,
            equivariance_penalty=gamma,
        )
        .fit(x, y)
        .predict(np.array([[1.0, 1.0], [1.0, -1.0]]))
    )  # fmt: skip
    plain, fast, start = fit(0.0, 0.05), fit(0.0, 0.2), fit(0.0, 1e-300)
    np.testing.assert_allclose(fit(3.0, 0.05), [plain[0], fast[1]], rtol=1e-9)
    np.testing.assert_allclose(fit(-1.0, 0.05), [plain[0], start[1]], rtol=1e-9)


@pytest.mark.slow
def test_batch_statistics_are_those_of_whole_orbits():

    class Normalised(linen.Module):
        @linen.compact
        def __call__(self, x, train):
            return linen.Dense(1)(linen.BatchNorm(use_running_average=not train)(linen.Dense(3)(x)))

    settings = GD | {"epochs": 1, "members": 1, "dtype": "float64"}
    x, y = X, Y[:, 0]
    model = DeepEnsemble(Normalised(), equivariance_penalty=2.0, **settings).fit(x, y)
    start = jax.tree.map(lambda a: a[0], DeepEnsemble(Normalised(), **(settings | {"epochs": 0})).fit(x, y).params_)
    rows = np.concatenate([x @ R.T for R in MATRICES])
    f, _ = Normalised().apply(start, rows, train=True, mutable=["batch_stats"])
    f = np.asarray(f).reshape(3, 5)
    expected = 0.5 * ((f - y) ** 2).mean() + ((f - f.mean(axis=0)) ** 2).mean()
    np.testing.assert_allclose(model.history_[0, 0], expected, rtol=1e-6)


def test_no_weight_changes_nothing():
    with_none, without = (DeepEnsemble(NET, epochs=3, **GD, **k).fit(X, Y) for k in ({"equivariance_penalty": 0}, {}))
    jax.tree.map(partial(np.testing.assert_array_equal), with_none.params_, without.params_)
