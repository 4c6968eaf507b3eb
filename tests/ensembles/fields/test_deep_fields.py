"""Laws: finite networks that end on positions train on all numbers of a field, and are predicted in its shape."""

import numpy as np
import pytest

import equitangents as et
from equitangents import actions
from equitangents.ensembles.training.recipe import sample_losses
from equitangents.errors import InvalidArgumentError

N = et.nn
FIELD = N.Sequential(N.Conv(2, (3, 3), W_std=1.3, b_std=0.4))
C4 = actions.image_rotations(4)
TRAINING = {"optimizer": "gd", "learning_rate": 0.1, "epochs": 2}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(3, 4, 4, 2))


@pytest.fixture(scope="module")
def model(data):
    x, y = data
    return et.DeepEnsemble(FIELD, members=2, **TRAINING, augmentation=C4, dtype="float64").fit(
        x, y, record={"x": x[:1]}, record_at=[2]
    )


def patches(x):
    """The 3×3 patch of a torus about every pixel, (N·16, 9), in the order of a filter's weights or another one."""
    parts = [np.roll(x[..., 0], (-i, -j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return np.stack(parts, axis=-1).reshape(-1, 9)


@pytest.mark.slow
def test_a_member_makes_the_steps_of_gradient_descent_on_all_moved_fields(data, model):
    x, y = data
    moved_x, moved_y = (np.concatenate([C4(g, a) for g in range(4)]) for a in (x, y))
    start = FIELD.init(et.ensembles.training.recipe.member_keys(0, 1)[0], (4, 4, 1), "float64")
    f = np.asarray(FIELD.apply(start, moved_x)).reshape(-1, 2)
    theta = patches(moved_x) @ patches(moved_x).T * (1.3**2 / 9) + 0.4**2  # of a network that is linear in its weights
    for _ in range(2):
        f = f - 0.1 / len(moved_x) * theta @ (f - moved_y.reshape(-1, 2))
    assert not np.max(np.abs(model.predict_members(moved_x)[1].reshape(-1, 2) - f)) > 1e-12


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


def test_cross_entropy_takes_probabilities_at_every_position(data):
    with pytest.raises(InvalidArgumentError, match="for loss 'cross_entropy'"):
        et.DeepEnsemble(FIELD, members=1, epochs=1, loss="cross_entropy").fit(*data)
    outputs, targets = np.random.default_rng(0).normal(size=(2, 3, 4, 4, 2))
    y = np.exp(targets) / np.exp(targets).sum(-1, keepdims=True)
    literal = (y * (np.log(np.exp(outputs).sum(-1, keepdims=True)) - outputs)).sum((1, 2, 3))
    found = sample_losses("cross_entropy", outputs.reshape(3, 32), y.reshape(3, 32), classes=2)
    assert not np.max(np.abs(np.asarray(found) - literal)) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("augmentation", [None, C4])
def test_the_mean_of_wide_networks_approaches_that_of_infinitely_wide_ones(augmentation):
    rng = np.random.default_rng(1)
    x, y, x_test = rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(3, 4, 4, 2)), rng.normal(size=(2, 4, 4, 1))
    layers = N.Conv(512, (3, 3), W_std=1.4, b_std=0.2), N.Relu(), N.Conv(2, (3, 3))
    steps, rate = 30, 0.2
    how = {"augmentation": augmentation, "learning_rate": rate}
    deep = et.DeepEnsemble(N.Sequential(*layers), 400, optimizer="gd", epochs=steps, dtype="float64", **how).fit(x, y)
    infinite = et.InfiniteEnsemble(N.Sequential(*layers), time=steps, dynamics="discrete", **how).fit(x, y)
    mean, std = infinite.predict(x_test, return_std=True)
    members = deep.predict_members(x_test)
    error = members.std(0, ddof=1) / np.sqrt(len(members))
    assert not np.linalg.norm(members.mean(0) - mean) > 3 * np.linalg.norm(error)  # all 64 numbers together
    assert not np.abs(members.std(0, ddof=1) / std[..., None] - 1).mean() > 0.1
