"""Intervals and sets of classes that hold as often as asked for: ensembles inside MAPIE, as the guide shows them."""

from __future__ import annotations

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from mapie.regression import SplitConformalRegressor

import equitangents as et

NET = et.nn.Sequential(et.nn.Dense(1, W_std=1.5, b_std=0.1), et.nn.Relu(), et.nn.Dense(1))
LEVEL = 0.9


def noisy(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 4))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * rng.normal(size=count)


def quantile(scores):
    """The ⌈(n + 1) 0.9⌉-th smallest: with it a new score is below as often as asked for, or a little more often."""
    return np.sort(scores)[int(np.ceil((len(scores) + 1) * LEVEL)) - 1]


@pytest.mark.slow
def test_intervals_are_the_mean_and_a_quantile_of_held_back_errors_and_hold_as_often():
    held = []
    new, truth = noisy(1000, seed=99)
    for seed in range(10):
        x, y = noisy(200, seed)
        model = et.InfiniteEnsemble(NET, ridge=0.1, standardise=True).fit(x[:100], y[:100])
        conformal = SplitConformalRegressor(model, confidence_level=LEVEL, prefit=True).conformalize(x[100:], y[100:])
        mean, intervals = conformal.predict_interval(new)
        np.testing.assert_array_equal(mean, model.predict(new))
        half = quantile(np.abs(y[100:] - model.predict(x[100:])))
        np.testing.assert_allclose(intervals[:, :, 0], mean[:, None] + half * np.array([-1, 1]), rtol=1e-12)
        held.append(np.mean((intervals[:, 0, 0] <= truth) & (truth <= intervals[:, 1, 0])))
    # one share has mean 0.901 and deviation 0.03, by the law of the 91st of 101 places, Beta(91, 10)
    assert abs(np.mean(held) - 0.901) <= 4 * 0.03 / np.sqrt(10)


@pytest.mark.parametrize("calibrate", [False, True])
def test_sets_of_classes_hold_every_class_that_is_likely_enough(calibrate):
    digits = et.data.digits().subset(train=200, test=300)
    x, new = (z.reshape(len(z), -1) for z in (digits.train_x, digits.test_x))
    model = et.InfiniteEnsembleClassifier(NET, ridge=1e-3, standardise=True, calibrate=calibrate)
    model.fit(x[:100], digits.train_y[:100])
    conformal = SplitConformalClassifier(model, confidence_level=LEVEL, prefit=True)
    labels, sets = conformal.conformalize(x[100:], digits.train_y[100:]).predict_set(new)
    np.testing.assert_array_equal(labels, model.predict(new))
    places = np.searchsorted(model.classes_, digits.train_y[100:])
    unlikely = quantile(1 - model.predict_proba(x[100:])[np.arange(100), places])
    expected = model.predict_proba(new) >= 1 - unlikely - 1e-8
    assert np.mean(sets[:, :, 0] != expected) <= 1e-3  # where a probability is the quantile itself, rounding decides
    right = np.mean(sets[np.arange(300), digits.test_y, 0])
    assert right >= LEVEL - 4 * 0.035  # Beta(91, 10), and 300 new images
