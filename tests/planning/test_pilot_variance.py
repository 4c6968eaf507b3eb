"""Variances of pilots are without bias and along orbits alone; the ends of a violation's interval are in order."""

import numpy as np

import equitangents as et
from equitangents.planning.pilot import _variance, along_orbits


def test_the_variance_of_few_members_is_without_bias(rng):
    # N(0, 1) in 5 numbers: 5 in the mean, of three members as of many
    found = [_variance(3 + rng.normal(size=(3, 5))) for _ in range(4000)]
    assert abs(np.mean(found) - 5) < 0.15


def test_what_is_constant_along_an_orbit_is_no_spread(rng):
    f, constant = rng.normal(size=(2, 3, 4, 2)), rng.normal(size=(2, 3, 1, 2))
    np.testing.assert_allclose(along_orbits(f + constant), f - f.mean(axis=2, keepdims=True), atol=1e-12)


def test_the_ends_of_a_violation_are_in_order(rng):
    net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
    turns = et.actions.image_rotations(4)
    x = rng.normal(size=(4, 3, 3, 1))
    model = et.InfiniteEnsemble(net, augmentation=turns, time=20.0).fit(x, np.arange(1.0, 5.0))
    plan = et.plan_ensemble(model, turns, x + 0.1, target=0.05, draws=200)
    for point in plan.curve:
        assert point.lower < point.median < point.upper
