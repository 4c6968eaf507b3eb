"""What training computes, against gradients and loops written out by hand, and on orbits against their copies."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from equitangents import DeepEnsemble, actions, groups, nn
from equitangents.ensembles import ZeroOutput
from equitangents.ensembles.training.network_job import NetworkJob, Workers
from equitangents.ensembles.training.recipe import Batches, Recipe, member_keys
from equitangents.ensembles.training.run import Run, augment

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
MLP = nn.Sequential(nn.Dense(5, W_std=1.4, b_std=0.3), nn.Erf(), nn.Dense(2))
SLOW = pytest.mark.slow


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


def literal_training(net, i, x, y, tx, epochs, batches, loss):
    """One member, one step after another, without vmap or scan."""
    step = literal_step(net, tx, loss)
    with jax.enable_x64(True):
        init_key, order_key = member_keys(0, i)
        params = net.init(init_key, x.shape[1:], "float64")
        state, history = tx.init(params), []
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


CLIPPED = optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(optax.exponential_decay(0.2, 3, 0.5)))


@pytest.mark.parametrize(
    ("settings", "tx", "batch"),
    [
        pytest.param({"optimizer": CLIPPED}, CLIPPED, 7, id="optax"),
        pytest.param({"optimizer": "gd"}, optax.sgd(0.3), 7, id="gd", marks=SLOW),
        pytest.param({"optimizer": "sgd"}, optax.sgd(0.3), 3, id="sgd", marks=SLOW),
        pytest.param({"optimizer": "momentum"}, optax.sgd(0.3, momentum=0.8), 3, id="momentum", marks=SLOW),
        pytest.param({"optimizer": "adam"}, optax.adam(0.3), 7, id="adam", marks=SLOW),
        pytest.param({"loss": "cross_entropy"}, optax.sgd(0.3), 3, id="cross entropy", marks=SLOW),
    ],
)
def test_every_optimizer_and_loss_against_a_literal_loop(settings, tx, batch):
    y, loss = (np.eye(2)[[0, 1, 1, 0, 1, 0, 0]], cross_entropy) if "loss" in settings else (Y, mse)
    given = {"learning_rate": 0.3, "momentum": 0.8, "batch_size": batch if batch < 7 else None} | settings
    model = DeepEnsemble(MLP, members=2, epochs=4, dtype="float64", **given).fit(X, y)
    for i in range(2):
        params, history = literal_training(MLP, i, X, y, tx, 4, Batches(7, batch, batch, shuffle=batch < 7), loss)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12), member(model.params_, i), params)
        np.testing.assert_allclose(model.history_[:, i], history, rtol=1e-10)


@SLOW
def test_zero_output_is_exactly_zero_at_first_and_trains_the_difference():
    start = DeepEnsemble(MLP, members=2, epochs=0, variation=ZeroOutput(), dtype="float64").fit(X, Y)
    np.testing.assert_array_equal(start.predict_members(X), np.zeros((2, 7, 2)))
    model = DeepEnsemble(MLP, members=2, optimizer="gd", epochs=1, variation=ZeroOutput(), dtype="float64").fit(X, Y)
    np.testing.assert_allclose(model.history_, np.full((1, 2), (Y**2).sum() / 14), rtol=1e-12)
    plain = DeepEnsemble(MLP, members=2, epochs=0, dtype="float64").fit(X, Y)
    now = np.stack([MLP.apply(member(model.params_, i), X) for i in range(2)])
    np.testing.assert_allclose(model.predict_members(X), now - plain.predict_members(X), atol=1e-14)
    jax.tree.map(np.testing.assert_array_equal, model.params0_, plain.params_)


@SLOW
def test_blocks_of_a_batch_add_up_to_the_batch():
    def trained(rows):
        recipe = Recipe(MLP, "mse", optax.sgd(0.3), Batches(7, 5, rows), ZeroOutput())
        with Workers() as workers:
            run = Run(NetworkJob(recipe, 0, 2, 1, "float64", 2, rows, X, Y), workers)
            run.advance(3)
            return run.trained()

    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-13), trained(5), trained(2))


@pytest.mark.parametrize(
    ("samples", "batch", "rows", "copies"), [(7, 3, 3, 1), (7, 7, 4, 1), (6, 2, 1, 4), (5, 5, 5, 3)]
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
    model = DeepEnsemble(MLP, members=2, epochs=1, dtype=dtype, variation=ZeroOutput()).fit(X, Y)
    leaves = [*jax.tree.leaves(model.params_), *jax.tree.leaves(model.params0_), model.history_, model.predict(X)]
    assert {a.dtype.name for a in leaves} == {dtype}
    assert jnp.zeros(1).dtype == jnp.float32


ROT, CUBE = actions.image_rotations(4), actions.rotations(groups.octahedral())
IMAGES, POINTS = rng.normal(size=(6, 4, 4, 1)), rng.normal(size=(4, 3))


@pytest.mark.parametrize(
    ("settings", "x", "y"),
    [
        pytest.param({"augmentation": actions.subset(ROT, [0, 3, 3])}, IMAGES, Y[:6], id="some elements"),
        pytest.param({"augmentation": ROT}, IMAGES, Y[:6], id="gd", marks=SLOW),
        pytest.param({"augmentation": ROT, "optimizer": "sgd"}, IMAGES, Y[:6], id="sgd", marks=SLOW),
        pytest.param({"augmentation": CUBE, "label_action": CUBE}, POINTS, POINTS[::-1], id="moving", marks=SLOW),
    ],
)
def test_full_augmentation_is_training_on_all_copies(settings, x, y):
    net = nn.Sequential(nn.Flatten(), nn.Dense(6, b_std=0.1), nn.Erf(), nn.Dense(y.shape[1]))
    how = {"members": 2, "optimizer": "gd", "learning_rate": 0.3, "epochs": 5, "dtype": "float64"} | settings
    model = DeepEnsemble(net, **how).fit(x, y)
    action, label_action = how.pop("augmentation"), how.pop("label_action", None)
    act = getattr(action, "action", action)
    elements = range(act.group.order) if act is action else action.elements
    copies = np.concatenate([act(g, x) for g in elements])
    labels = np.concatenate([y if label_action is None else label_action(g, y) for g in elements])
    explicit = DeepEnsemble(net, **how).fit(copies, labels)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9), model.params_, explicit.params_)


@pytest.mark.parametrize("elements", [[0, 1, 2, 3], [1, 2]])
def test_random_augmentation_draws_from_the_orbits(elements):
    action = ROT if len(elements) == 4 else actions.subset(ROT, elements)
    data = augment(action, None, "random", IMAGES, Y[:6], "float64")
    assert (data.samples, data.copies) == (6, len(elements))
    np.testing.assert_array_equal(data.x, np.concatenate([np.rot90(IMAGES, g, axes=(1, 2)) for g in elements]))
    np.testing.assert_array_equal(data.y, np.tile(Y[:6], (len(elements), 1)))


@SLOW
def test_random_augmentation_sees_every_rotation():
    """One sample of a linear network without bias: weights stay in the span of the sample's rotations, all of them."""
    x, settings = (
        rng.normal(size=(1, 2, 2, 1)),
        {"augmentation_mode": "random", "variation": ZeroOutput(), "dtype": "float64"},
    )
    net = nn.Sequential(nn.Flatten(), nn.Dense(1))
    model = DeepEnsemble(net, members=1, augmentation=ROT, epochs=40, **settings).fit(x, np.ones(1))
    moved = (model.params_[1]["w"] - model.params0_[1]["w"])[0, :, 0]
    orbit = np.stack([np.rot90(x[0, ..., 0], g).ravel() for g in range(4)])
    assert (abs(np.linalg.solve(orbit.T, moved)) > 1e-3).all()
