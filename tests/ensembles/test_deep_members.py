"""Member i is a function of (seed, i) alone: threads, other members and their number change no bit of it."""

import time
from functools import partial

import jax
import numpy as np
import pytest

from equitangents import DeepEnsemble, actions, nn
from equitangents.ensembles.training import plan as planning
from equitangents.ensembles.training.recipe import Batches, Recipe, member_keys, member_shapes
from equitangents.errors import InvalidArgumentError

rng = np.random.default_rng(1)
X, Y = rng.normal(size=(12, 4, 4, 1)), rng.normal(size=(12, 2))
CNN = nn.Sequential(nn.Conv(4, (3, 3), b_std=0.1), nn.Relu(), nn.Flatten(), nn.Dense(2))
SETTINGS = {
    "optimizer": "momentum",
    "learning_rate": 0.2,
    "batch_size": 5,
    "epochs": 3,
    "augmentation": actions.image_rotations(4),
    "augmentation_mode": "random",
}


def member(params, i):
    return jax.tree.map(lambda a: a[i], params)


def bits_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture(scope="module")
def five():
    return DeepEnsemble(CNN, members=5, members_per_chunk=2, **SETTINGS).fit(X, Y, record={"x": X}, record_at=[0, 2])


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [3, 1])
def test_chunks_change_neither_initialisation_nor_order(five, chunk):
    model = DeepEnsemble(CNN, members=5, members_per_chunk=chunk, **SETTINGS).fit(X, Y)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), model.params_, five.params_)
    np.testing.assert_allclose(model.history_, five.history_, rtol=1e-5)
    start = DeepEnsemble(CNN, members=5, members_per_chunk=chunk, **SETTINGS | {"epochs": 0}).fit(X, Y)
    for i in range(5):
        expected = CNN.init(member_keys(0, i)[0], (4, 4, 1))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), member(start.params_, i), expected)


@pytest.mark.parametrize("optimizer", ["gd", pytest.param("adam", marks=pytest.mark.slow)])
def test_members_of_a_small_ensemble_are_the_first_of_a_large_one(optimizer, monkeypatch):
    settings = SETTINGS | {"optimizer": optimizer, "batch_size": None, "augmentation": None}
    small = DeepEnsemble(CNN, members=3, **settings).fit(X, Y)
    monkeypatch.setattr(planning, "worker_count", lambda: 5)
    large = DeepEnsemble(CNN, members=7, **settings).fit(X, Y)
    bits_equal(jax.tree.map(lambda a: a[:3], large.params_), small.params_)
    bits_equal(large.history_[:, :3], small.history_)
    bits_equal(large.predict_members(X)[:3], small.predict_members(X))


@pytest.mark.parametrize(
    ("first", "chunk"), [(3, 2), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((4, 2), (1, 3)))]
)
def test_extending_makes_the_larger_ensemble(first, chunk):
    settings = SETTINGS | {"members_per_chunk": chunk, "zero_output": True, "optimizer": "gd", "batch_size": None}
    settings["augmentation"] = None
    record = {"x": X}
    large = DeepEnsemble(CNN, members=5, **settings).fit(X, Y, record=record, record_at=[0, 2])
    model = DeepEnsemble(CNN, members=first, **settings).fit(X, Y, record=record, record_at=[0, 2])
    before = jax.tree.map(np.copy, model.params_)
    assert model.extend(5, X, Y, record=record) is model
    bits_equal(jax.tree.map(lambda a: a[:first], model.params_), before)
    for name in ("params_", "params0_", "history_", "recorded_"):
        bits_equal(getattr(model, name), getattr(large, name))
    assert model.members == 5
    np.testing.assert_array_equal(model.predict(X), large.predict(X))


def test_extending_needs_the_same_data_settings_and_records(five):
    model = DeepEnsemble(CNN, members=2, members_per_chunk=2, **SETTINGS).fit(X, Y)
    with pytest.raises(InvalidArgumentError, match=r"X .* there"):
        model.extend(3, X + 1, Y)
    with pytest.raises(InvalidArgumentError, match="members is 1; expected a whole number, at least 2"):
        model.extend(1, X, Y)
    with pytest.raises(InvalidArgumentError, match=r"network, optimizer"):
        model.set_params(learning_rate=0.1).extend(3, X, Y)
    model.set_params(learning_rate=0.2)
    with pytest.raises(InvalidArgumentError, match="epochs is 4; expected 3"):
        model.set_params(epochs=4).extend(3, X, Y)
    for other in ({}, {"x": X[:2]}, {"x": X + 1}, {"y": X}):
        with pytest.raises(InvalidArgumentError, match="new members need the same names and inputs"):
            five.extend(6, X, Y, record=other)
    assert (len(model.history_.T), len(five.history_.T)) == (2, 5)


def test_members_differ_from_one_another_and_with_the_seed(five):
    w = five.params_[0]["w"]
    assert len({w[i].tobytes() for i in range(5)}) == 5
    other = DeepEnsemble(CNN, members=5, seed=1, epochs=0).fit(X, Y)
    assert not (other.params_[0]["w"] == DeepEnsemble(CNN, members=5, epochs=0).fit(X, Y).params_[0]["w"]).any()


def test_large_batches_are_computed_in_blocks_that_stay_in_the_cache():
    def plan(samples):
        x, y = np.zeros((samples, 8, 8, 1), np.float32), np.zeros((samples, 2), np.float32)
        recipe = Recipe(CNN, "mse", "gd", 0.1, 0.9, Batches(samples, samples, samples, shuffle=False))
        shapes = member_shapes(recipe, (8, 8, 1), "float32")
        found = planning.make_plan(recipe, shapes, x, y, members=10, members_per_chunk=None)
        return found, planning.working_bytes(recipe, shapes.params, x, y, found.rows)

    small, large = plan(16), plan(5000)
    assert small[0] == planning.Plan(chunk=2, rows=16)
    assert large[0].chunk == 1
    assert planning.CACHE_BYTES / 2 < large[1] <= 2 * planning.CACHE_BYTES


def test_an_error_is_raised_when_all_workers_are_done():
    done = []

    def work(item):
        if item == 0:
            raise InvalidArgumentError("the first")
        time.sleep(0.1)
        done.append(item)

    with planning.Workers() as workers:
        with pytest.raises(InvalidArgumentError, match="the first"):
            workers.map(work, range(3))
        assert sorted(done) == [1, 2]  # before the pool is shut down, which waits too
