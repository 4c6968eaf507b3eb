"""Finite networks that end on positions behave as the kernel field says, in the mean over many of them."""

import numpy as np
import pytest

import equitangents as et
from equitangents import actions

N = et.nn
C4 = actions.image_rotations(4)


def test_networks_of_the_library_fit_fields_along_their_own_kernel_field():
    rng = np.random.default_rng(0)
    x, y, x_test = rng.normal(size=(3, 3, 3, 1)), rng.normal(size=(3, 3, 3, 2)), rng.normal(size=(2, 3, 3, 1))
    net = N.Sequential(N.Conv(4, (3, 3), W_std=1.4, b_std=0.2), N.Relu(), N.Conv(2, (3, 3)))
    model = et.InfiniteEnsemble(net, time=2.0, learning_rate=0.5).fit(x, y)
    theta = net.kernel_field(x).ntk.reshape(27, 27)
    values, vectors = np.linalg.eigh(theta)
    A = net.kernel_field(x_test, x).ntk.reshape(18, 27) @ (vectors * (-np.expm1(-values / 3) / values)) @ vectors.T
    assert not np.max(np.abs(model.predict(x_test).reshape(18, 2) - A @ y.reshape(27, 2))) > 1e-9
    assert model.predict(x_test, return_cov=True)[1].shape == (2, 3, 3, 2, 3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("augmentation", [None, C4])
def test_the_mean_of_wide_networks_approaches_that_of_infinitely_wide_ones(augmentation):
    rng = np.random.default_rng(1)
    x, y, x_test = rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(3, 4, 4, 2)), rng.normal(size=(2, 4, 4, 1))
    layers = N.Conv(512, (3, 3), W_std=1.4, b_std=0.2), N.Relu(), N.Conv(2, (3, 3))
    steps, rate = 30, 0.2
    deep = et.DeepEnsemble(
        N.Sequential(*layers),
        members=400,
        augmentation=augmentation,
        optimizer="gd",
        learning_rate=rate,
        epochs=steps,
        dtype="float64",
    ).fit(x, y)
    infinite = et.InfiniteEnsemble(
        N.Sequential(*layers), augmentation=augmentation, time=steps, learning_rate=rate, dynamics="discrete"
    ).fit(x, y)
    mean, std = infinite.predict(x_test, return_std=True)
    members = deep.predict_members(x_test)
    error = members.std(0, ddof=1) / np.sqrt(len(members))
    assert not np.linalg.norm(members.mean(0) - mean) > 3 * np.linalg.norm(error)  # all 64 numbers together
    assert not np.abs(members.std(0, ddof=1) / std[..., None] - 1).mean() > 0.1
