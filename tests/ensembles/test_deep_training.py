"""What training computes, against gradients and loops written out by hand."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from equitangents import DeepEnsemble, nn
from equitangents.ensembles.training.recipe import Batches, member_keys

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
MLP = nn.Sequential(nn.Dense(5, W_std=1.4, b_std=0.3), nn.Erf(), nn.Dense(2))


def member(params, i):
    return jax.tree.map(lambda a: a[i], params)


@cache
def literal_step(net, tx, loss):
    """One step, compiled once for all members."""

    @jax.jit
    def step(params, state, x, y):
        value, gradient = jax.value_and_grad(lambda params: loss(net.apply(params, x), y))(params)
        updates, state = tx.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    return step


def literal_training(net, seed, i, x, y, tx, epochs, batches, loss, dtype="float64"):
    """One member, one step after another, without vmap or scan."""
    step = literal_step(net, tx, loss)
    with jax.enable_x64(dtype == "float64"):
        x, y = np.asarray(x, dtype), np.asarray(y, dtype)
        init_key, order_key = member_keys(seed, i)
        params = net.init(init_key, x.shape[1:], dtype)
        state = tx.init(params)
        history = []
        for epoch in range(epochs):
            index, weight = map(np.asarray, batches.draw(jax.random.fold_in(order_key, epoch)))
            losses = []
            for rows, real in zip(index.reshape(batches.steps, -1), weight.reshape(batches.steps, -1), strict=True):
                rows = rows[real == 1]
                params, state, value = step(params, state, x[rows], y[rows])
                losses.append(float(value) * len(rows))
            history.append(sum(losses) / batches.samples)
        return jax.tree.map(np.asarray, params), history


def mse(f, y):
    return sum(0.5 * jnp.sum((f[i] - y[i]) ** 2) for i in range(len(y))) / len(y)


def cross_entropy(f, y):
    return jnp.mean(jax.scipy.special.logsumexp(f, axis=1) - jnp.sum(f * y, axis=1))


SLOW = pytest.mark.slow
OPTIMIZERS = {
    "gd": (optax.sgd(0.3), 7),
    "sgd": (optax.sgd(0.3), 3),
    "momentum": (optax.sgd(0.3, momentum=0.8), 3),
    "adam": (optax.adam(0.3), 7),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(pytest.param(name, marks=SLOW) for name in ("gd", "sgd", "adam")), "momentum"])
def test_every_optimizer_against_a_literal_loop(name):
    tx, batch = OPTIMIZERS[name]
    model = DeepEnsemble(
        MLP,
        members=2,
        optimizer=name,
        learning_rate=0.3,
        momentum=0.8,
        epochs=3,
        batch_size=batch if batch < 7 else None,
        dtype="float64",
    ).fit(X, Y)
    batches = Batches(7, batch, batch, shuffle=batch < 7)
    for i in range(2):
        params, history = literal_training(MLP, 0, i, X, Y, tx, 3, batches, mse)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12), member(model.params_, i), params)
        np.testing.assert_allclose(model.history_[:, i], history, rtol=1e-10)


def test_an_optax_transformation_is_used_as_it_is():
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(optax.exponential_decay(0.2, 3, 0.5)))
    model = DeepEnsemble(MLP, members=1, optimizer=tx, epochs=4, dtype="float64").fit(X, Y)
    params, _ = literal_training(MLP, 0, 0, X, Y, tx, 4, Batches(7, 7, 7, shuffle=False), mse)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9), member(model.params_, 0), params)


@pytest.mark.slow
def test_cross_entropy_against_a_literal_loop():
    labels = np.eye(2)[[0, 1, 1, 0, 1, 0, 0]]
    model = DeepEnsemble(MLP, members=1, loss="cross_entropy", epochs=4, batch_size=3, dtype="float64").fit(X, labels)
    params, history = literal_training(MLP, 0, 0, X, labels, optax.sgd(0.1), 4, Batches(7, 3, 3), cross_entropy)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9), member(model.params_, 0), params)
    np.testing.assert_allclose(model.history_[:, 0], history, rtol=1e-10)


@pytest.mark.slow
def test_zero_output_is_exactly_zero_at_first_and_trains_the_difference():
    start = DeepEnsemble(MLP, members=2, epochs=0, zero_output=True, dtype="float64").fit(X, Y)
    np.testing.assert_array_equal(start.predict_members(X), np.zeros((2, 7, 2)))
    model = DeepEnsemble(MLP, members=2, optimizer="gd", epochs=1, zero_output=True, dtype="float64").fit(X, Y)
    np.testing.assert_allclose(model.history_, np.full((1, 2), (Y**2).sum() / 14), rtol=1e-12)
    plain = DeepEnsemble(MLP, members=2, epochs=0, dtype="float64").fit(X, Y)
    now = np.stack([MLP.apply(member(model.params_, i), X) for i in range(2)])
    np.testing.assert_allclose(model.predict_members(X), now - plain.predict_members(X), atol=1e-14)
    jax.tree.map(np.testing.assert_array_equal, model.params0_, plain.params_)


@pytest.mark.slow
def test_blocks_of_a_batch_add_up_to_the_batch():
    from equitangents.ensembles.training.network_job import NetworkJob
    from equitangents.ensembles.training.plan import Plan, Workers
    from equitangents.ensembles.training.recipe import Recipe
    from equitangents.ensembles.training.run import Run
    from equitangents.ensembles.training.variations import ZeroOutput

    def trained(rows):
        recipe = Recipe(MLP, "mse", "sgd", 0.3, 0.9, Batches(7, 5, rows), ZeroOutput())
        job = NetworkJob(recipe, X, Y, 0, 2, seed=1, dtype="float64", plan=Plan(2, rows))
        with Workers() as workers:
            run = Run(job, workers)
            run.advance(3)
            return run.params(), run.history

    whole, blocks = trained(5), trained(2)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-13), whole, blocks)


@pytest.mark.parametrize(
    ("samples", "batch", "rows", "copies"),
    [(7, 3, 3, 1), (7, 7, 4, 1), (6, 2, 1, 4), pytest.param(5, 5, 5, 3, marks=SLOW)],
)
def test_an_epoch_visits_every_sample_once(samples, batch, rows, copies):
    batches = Batches(samples, batch, rows, copies)
    index, weight = map(np.asarray, batches.draw(jax.random.key(3)))
    assert index.shape == weight.shape == (batches.steps, batches.blocks, rows)
    drawn = index[weight == 1]
    assert sorted(drawn % samples) == list(range(samples))
    assert drawn.max() < samples * copies
    assert (weight.sum(axis=(1, 2))[:-1] == batch).all()


def test_random_copies_are_drawn_uniformly_and_anew():
    batches = Batches(4000, 100, 100, copies=4)
    first, second = (np.asarray(batches.draw(jax.random.key(k))[0]).ravel() for k in (0, 1))
    counts = np.bincount(first // 4000, minlength=4)
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000 * 0.75)
    assert (first != second).any()


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=SLOW), "float64"])
def test_types_follow_dtype_without_a_global_flag(dtype):
    model = DeepEnsemble(MLP, members=2, epochs=1, dtype=dtype, zero_output=True).fit(X, Y)
    leaves = [*jax.tree.leaves(model.params_), *jax.tree.leaves(model.params0_), model.history_, model.predict(X)]
    assert {a.dtype.name for a in leaves} == {dtype}
    assert jnp.zeros(1).dtype == jnp.float32
