"""Member i is a function of (seed, i) alone: threads, other members, their number and interruptions change no bit."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from equitangents import DeepEnsemble, actions, nn
from equitangents.ensembles import Bootstrap, NNGPPosterior, NTKPosterior, ZeroOutput
from equitangents.ensembles.training import network_job
from equitangents.ensembles.training.recipe import Batches, Recipe, member_keys, member_shapes
from equitangents.errors import InvalidArgumentError

rng = np.random.default_rng(1)
X, Y = rng.normal(size=(12, 4, 4, 1)), rng.normal(size=(12, 2))
CNN = nn.Sequential(nn.Conv(4, (3, 3), b_std=0.1), nn.Relu(), nn.Flatten(), nn.Dense(2))
GD = {"optimizer": "gd", "learning_rate": 0.2, "epochs": 3, "members_per_chunk": 2}
SETTINGS = GD | {
    "optimizer": "momentum",
    "batch_size": 5,
    "augmentation": actions.image_rotations(4),
    "augmentation_mode": "random",
}
KINDS = {
    "zero output": GD | {"variation": ZeroOutput()},
    "bagged": GD | {"variation": Bootstrap()},
    "NNGP posterior": GD | {"variation": NNGPPosterior(0.1)},
    "NTK posterior": GD | {"variation": NTKPosterior(0.1)},
    "scheduled adamw": GD | {"optimizer": optax.adamw(optax.linear_schedule(0.1, 0.01, 10))},
    "adam": GD | {"optimizer": "adam"},
}
STATE = ("params_", "params0_", "history_", "recorded_")


def bits_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.quick(2)
@pytest.mark.parametrize("kind", KINDS)
def test_an_extended_a_resumed_and_a_saved_ensemble_is_the_one_of_one_fit(kind, tmp_path, monkeypatch):
    model = lambda members, **more: DeepEnsemble(CNN, members=members, **KINDS[kind] | more)
    record = {"record": {"x": X}, "record_at": [0, 2]}
    few = model(3).fit(X, Y, **record)
    with monkeypatch.context() as patch:
        patch.setattr(network_job, "worker_count", lambda: 5)
        whole = model(5).fit(X, Y, **record)
    bits_equal(jax.tree.map(lambda a: a[:3], whole.params_), few.params_)
    assert few.extend(5, X, Y, record=record["record"]) is few
    assert few.members == 5
    places = {"checkpoint_dir": tmp_path / "run", "checkpoint_every": 2}
    model(5, epochs=1, **places).fit(X, Y, record=record["record"], record_at=[0])
    others = [few, model(5, **places).fit(X, Y, **record, resume=True)]
    if "scheduled" not in kind:
        whole.save(tmp_path / "saved")
        others.append(DeepEnsemble.load(tmp_path / "saved"))
    for other in others:
        for name in STATE:
            bits_equal(getattr(other, name, None), getattr(whole, name, None))
        np.testing.assert_array_equal(other.predict_members(X), whole.predict_members(X))


@pytest.fixture(scope="module")
def five():
    return DeepEnsemble(CNN, members=5, **SETTINGS).fit(X, Y, record={"x": X}, record_at=[0, 2])


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [3, 1])
def test_chunks_change_neither_initialisation_nor_order(five, chunk):
    model = DeepEnsemble(CNN, members=5, **SETTINGS | {"members_per_chunk": chunk}).fit(X, Y)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), model.params_, five.params_)
    np.testing.assert_allclose(model.history_, five.history_, rtol=1e-5)
    start = model.set_params(epochs=0).fit(X, Y)
    for i in range(5):
        expected = CNN.init(member_keys(0, i)[0], (4, 4, 1))
        found = jax.tree.map(lambda a, i=i: a[i], start.params_)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found, expected)


def test_extending_needs_the_same_data_settings_and_records(five):
    model = DeepEnsemble(CNN, members=2, **SETTINGS).fit(X, Y)
    for changed, members, x, message in (
        ({}, 3, X + 1, r"X .* there"),
        ({}, 1, X, "members is 1; expected a whole number, at least 2"),
        ({"learning_rate": 0.1}, 3, X, "network, optimizer"),
        ({"epochs": 4}, 3, X, "epochs is 4; expected 3"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            model.set_params(**{"learning_rate": 0.2} | changed).extend(members, x, Y)
    for other in ({}, {"x": X[:2]}, {"x": X + 1}, {"y": X}):
        with pytest.raises(InvalidArgumentError, match="expected the names and inputs that fit was given"):
            five.extend(6, X, Y, record=other)
    assert (len(model.history_.T), len(five.history_.T)) == (2, 5)


def test_members_differ_from_one_another_and_with_the_seed(five):
    w = five.params_[0]["w"]
    assert len({w[i].tobytes() for i in range(5)}) == 5
    one, other = (DeepEnsemble(CNN, members=5, seed=seed, epochs=0).fit(X, Y) for seed in (0, 1))
    assert not (other.params_[0]["w"] == one.params_[0]["w"]).any()


def test_large_batches_are_computed_in_blocks_that_stay_in_the_cache():
    def plan(samples):
        x, y = np.zeros((samples, 8, 8, 1), np.float32), np.zeros((samples, 2), np.float32)
        recipe = Recipe(CNN, "mse", optax.sgd(0.1), Batches(samples, samples, samples, shuffle=False))
        shapes = member_shapes(recipe, (8, 8, 1), "float32")
        found = network_job.make_plan(recipe, shapes, x, y, members=10, members_per_chunk=None)
        return found, network_job.working_bytes(recipe, shapes.params, x, y, found[1])

    small, large = plan(16), plan(5000)
    assert small[0] == (2, 16)  # members a call, rows at once
    assert large[0][0] == 1
    assert network_job.CACHE_BYTES / 2 < large[1] <= 2 * network_job.CACHE_BYTES


def test_an_error_is_raised_when_all_workers_are_done():
    done = []

    def work(item):
        if item == 0:
            raise InvalidArgumentError("the first")
        time.sleep(0.1)
        done.append(item)

    with network_job.Workers() as workers:
        with pytest.raises(InvalidArgumentError, match="the first"):
            workers.map(work, range(3))
        assert sorted(done) == [1, 2]  # before the pool is shut down, which waits too


def test_the_working_memory_of_nested_programs_counts():
    x = jax.ShapeDtypeStruct((100,), jnp.float32)
    inner = jax.jit(lambda x: jnp.outer(x, x).sum())
    assert 40_000 <= network_job.peak_bytes(lambda x: inner(x) + 1, x) < 41_000
    scan = lambda x: jax.lax.scan(lambda c, _: (c + jnp.outer(x, x).sum(), None), 0.0, length=9)[0]
    assert 40_000 <= network_job.peak_bytes(scan, x) < 41_000


@pytest.mark.parametrize("rows", [64, 512])
def test_the_estimated_working_memory_bounds_what_the_compiler_takes(rows):
    def loss(w, x):
        return (jnp.tanh(jnp.tanh(x @ w) @ w) ** 2).sum()

    m, shape = jax.ShapeDtypeStruct((100, 100), jnp.float32), jax.ShapeDtypeStruct((rows, 100), jnp.float32)
    compiled = jax.jit(jax.grad(loss)).lower(m, shape).compile().memory_analysis()
    actual = compiled.temp_size_in_bytes + compiled.output_size_in_bytes
    assert actual / 1.2 < network_job.peak_bytes(jax.grad(loss), m, shape) < 4 * actual
