"""Predictions of any size are measured, and those that do not belong to the inputs are refused."""

import numpy as np
import pytest

from equitangents import actions
from equitangents.errors import ShapeError
from equitangents.metrics import equivariance_error, orbit_same_predictions, relative_orbit_std, s_dist

ROT = actions.image_rotations(4)
X = np.random.default_rng(0).normal(size=(5, 3, 3, 1))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_relative_measures_do_not_depend_on_the_size_of_outputs(scale):
    f = lambda x: x[:, :2, 0, 0]
    for measure in (equivariance_error, relative_orbit_std):
        np.testing.assert_allclose(
            measure(lambda x: scale * f(x), ROT, X).values, measure(f, ROT, X).values, rtol=1e-12
        )


@pytest.mark.parametrize("rows", [lambda y: y[:-1], lambda y: np.concatenate([y, y]), lambda y: y[:1]])
def test_a_prediction_has_one_row_an_input(rows):
    f = lambda x: rows(x[:, :2, 0, 0])
    for measure in (equivariance_error, relative_orbit_std, orbit_same_predictions):
        with pytest.raises(ShapeError, match="rows for 5 inputs"):
            measure(f, ROT, X)
    with pytest.raises(ShapeError, match="rows for 5 inputs"):
        s_dist(f, f, X)
