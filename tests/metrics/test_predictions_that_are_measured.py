"""Predictions of any size are measured, and those that do not belong to the inputs are refused."""

import numpy as np
import pytest

from equitangents import actions, groups
from equitangents.errors import InvalidArgumentError, NotAnActionError
from equitangents.metrics import equivariance_error, orbit_same_predictions, relative_orbit_std, s_dist

ROT = actions.image_rotations(4)
X = np.random.default_rng(0).normal(size=(5, 3, 3, 1))


def test_a_model_that_works_in_place_is_measured_like_one_that_does_not():
    plain = lambda x: (2 * x)[:, :2, 0, 0]
    in_place = lambda x: np.multiply(x, 2, out=x)[:, :2, 0, 0]
    x = X.copy()
    for measure in (equivariance_error, relative_orbit_std, orbit_same_predictions):
        np.testing.assert_array_equal(measure(in_place, ROT, x).values, measure(plain, ROT, X).values)
    assert s_dist(in_place, plain, x).mean == 0
    np.testing.assert_array_equal(x, X)


def test_maps_that_are_no_action_are_refused():
    drift = actions.from_function(groups.cyclic(2), lambda g, x: x + g, name="drift")
    for measure in (equivariance_error, relative_orbit_std, orbit_same_predictions):
        with pytest.raises(NotAnActionError, match=r"drift.* is off by"):
            measure(lambda x: x[:, :2, 0, 0], drift, X)
    grows = actions.from_function(groups.cyclic(4), lambda g, x: x * (1 + g), name="grows")
    for measure in (equivariance_error, relative_orbit_std, orbit_same_predictions):
        with pytest.raises(NotAnActionError, match="grows"):  # on zeros it looks like one
            measure(lambda x: x[:, :2, 0, 0], grows, np.concatenate([0 * X, X]))


@pytest.mark.parametrize("measure", [equivariance_error, relative_orbit_std])
@pytest.mark.parametrize("q", [2, -0.1, [0.5, 1.5], float("nan")])
def test_quantiles_lie_between_0_and_1(measure, q):
    with pytest.raises(InvalidArgumentError, match="q is"):
        measure(lambda x: x[:, :2, 0, 0], ROT, X).quantiles(q)
