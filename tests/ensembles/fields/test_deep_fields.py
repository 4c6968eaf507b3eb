"""Laws: finite networks that end on positions train on all numbers of a field, and are predicted in its shape."""

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents import actions
from equitangents.ensembles import Training
from equitangents.errors import InvalidArgumentError

N = et.nn
FIELD = N.Sequential(N.Conv(4, (3, 3)), N.Relu(), N.Conv(2, (3, 3)))
C4 = actions.image_rotations(4)
TRAINING = Training(optimizer="gd", learning_rate=0.1, epochs=2)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(3, 4, 4, 2))


@pytest.fixture(scope="module")
def model(data):
    x, y = data
    return et.DeepEnsemble(FIELD, members=2, training=TRAINING, augmentation=C4, dtype="float64").fit(
        x, y, record={"x": x[:1]}, record_at=[2]
    )


def test_a_member_makes_the_steps_of_gradient_descent_on_all_moved_fields(data, model):
    x, y = data
    moved = [np.concatenate([C4(g, a) for g in range(4)]) for a in (x, y)]
    params = FIELD.init(et.ensembles.training.recipe.member_keys(0, 1)[0], (4, 4, 1), "float64")

    def loss(params):
        return ((FIELD.apply(params, moved[0]) - moved[1]) ** 2).sum() / (2 * len(moved[0]))

    step = jax.jit(jax.grad(loss))
    with jax.enable_x64(True):
        for _ in range(2):
            params = jax.tree.map(lambda p, g: p - 0.1 * g, params, step(params))
        expected = np.asarray(FIELD.apply(params, x))
    assert not np.max(np.abs(model.predict_members(x)[1] - expected)) > 1e-12


def test_predictions_have_the_shape_of_the_fields(data, model):
    x, _ = data
    members = model.predict_members(x)
    assert members.shape == (2, 3, 4, 4, 2)
    mean, std = model.predict(x, return_std=True)
    assert not np.max(np.abs(mean - members.mean(0))) > 1e-12
    assert not np.max(np.abs(std - members.std(0, ddof=1))) > 1e-12
    covariance = model.predict(x, return_cov=True)[1]
    assert covariance.shape == (3, 4, 4, 3, 4, 4, 2)
    assert not np.max(np.abs(np.einsum("nijnijk->nijk", covariance) - std**2)) > 1e-12
    assert np.array_equal(model.recorded_["x"][0], members[:, :1])


def test_a_saved_ensemble_of_fields_predicts_the_same(data, model, tmp_path):
    model.save(tmp_path / "deep")
    loaded = et.DeepEnsemble.load(tmp_path / "deep")
    assert np.array_equal(loaded.predict(data[0]), model.predict(data[0]))


def test_classes_at_positions_are_refused(data):
    with pytest.raises(InvalidArgumentError, match="fields are trained by loss='mse'"):
        et.DeepEnsemble(FIELD, members=1, epochs=1, loss="cross_entropy").fit(*data)
