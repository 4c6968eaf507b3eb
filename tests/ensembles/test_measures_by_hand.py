"""Measures of a few numbers that can be counted."""

import numpy as np

from equitangents.ensembles.orbits import OrbitStatistic
from equitangents.metrics.on_orbits import predicted_classes


def test_a_single_output_is_of_class_one_where_it_is_positive():
    np.testing.assert_array_equal(predicted_classes(np.array([[-1.0], [0.0], [2.0]])), [0, 0, 1])


def test_an_interval_leaves_half_of_the_rest_out_on_either_side():
    values = np.arange(1.0, 101.0).reshape(1, 100, 1)
    statistic = OrbitStatistic("osp", (1,), values, 0.9, "mean")
    np.testing.assert_array_equal(statistic.interval, [[5, 95]])
