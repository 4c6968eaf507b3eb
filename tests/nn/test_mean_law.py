"""What is said of the mean of augmented ensembles, against infinitely wide ones in closed form."""

import numpy as np
import pytest

import equitangents as et
from equitangents.nn import Conv, Dense, Flatten, Relu, Residual, Sequential
from equitangents.nn.admissible import mean_law

ROT = et.actions.image_rotations(4)
TURN = et.actions.linear(et.groups.cyclic(4), [np.linalg.matrix_power([[0.0, -1.0], [1.0, 0.0]], g) for g in range(4)])


def net(window):
    return Sequential(Conv(4, window), Relu(), Flatten(), Dense(1))


def images(rng):
    x = rng.standard_normal((6, 4, 4, 1))
    return x, rng.standard_normal(6), rng.standard_normal((3, 4, 4, 1))


@pytest.mark.parametrize(("window", "equivariant"), [(3, True), ((3, 1), False)])
def test_the_infinite_mean_is_equivariant_exactly_where_the_law_says_so(rng, window, equivariant):
    x, y, new = images(rng)
    law = mean_law(net(window), ROT, new, "gd")
    assert (law.at_width, law.in_limit) == (equivariant, equivariant)
    model = et.InfiniteEnsemble(net(window), augmentation=ROT, time=np.inf).fit(x, y)
    error = et.metrics.equivariance_error(model.predict, ROT, new).mean
    assert bool(error < 1e-9) is equivariant
    assert bool(error > 1e-2) is not equivariant


def test_where_layers_do_not_tell_the_kernel_does_of_the_limit(rng):
    branched = Sequential(Conv(4, 3), Residual(Relu(), Conv(4, 3)), Relu(), Flatten(), Dense(1))
    law = mean_law(branched, ROT, images(rng)[2], "gd")
    assert (law.at_width, law.in_limit, law.equivariant) == (None, True, True)


def test_where_nothing_is_known_nothing_is_said(rng):
    uneven = Sequential(Conv(4, 3), Residual(Relu(), Conv(4, (1, 3))), Relu(), Flatten(), Dense(1))
    assert mean_law(uneven, ROT, images(rng)[2], "gd") is None


def test_optimizers_that_treat_weights_one_by_one_mind_mixed_channels(rng):
    mlp, x = Sequential(Dense(4), Relu(), Dense(1)), rng.standard_normal((5, 2))
    assert mean_law(mlp, TURN, x, "gd").at_width
    assert mean_law(mlp, TURN, x, "adam") is None
    assert mean_law(net(3), ROT, images(rng)[2], "adam").at_width


@pytest.mark.slow
def test_plans_say_it(rng):
    x, y, new = images(rng)
    for window in (3, (3, 1)):
        deep = et.DeepEnsemble(net(window), 3, augmentation=ROT, epochs=1).fit(x, y)
        plan = et.plan_ensemble(deep, ROT, new, draws=10)
        assert plan.equivariant is (window == 3)
        assert (plan.mean_law.at_width, plan.mean_law.in_limit) == (window == 3, window == 3)
    plain = et.DeepEnsemble(net(3), 3, epochs=1).fit(x, y)
    assert et.plan_ensemble(plain, ROT, new, draws=10).mean_law is None
