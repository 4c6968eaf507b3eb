"""Shares of an orbit are whole numbers of points: what meets a target exactly counts as meeting it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import InfiniteEnsemble, InfiniteEnsembleClassifier, actions, nn, plan_ensemble
from equitangents.ensembles.orbits import OrbitLaw, OrbitMeasures, sample_quantiles
from equitangents.planning.violations import MEASURES, Violations, largest_share, smallest

ROT = actions.image_rotations(4)


def net():
    return nn.Sequential(nn.Flatten(), nn.Dense(1, W_std=1.4, b_std=0.5), nn.Relu(), nn.Dense(1))


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    return InfiniteEnsemble(net(), augmentation=ROT, time=20.0).fit(rng.normal(size=(8, 2, 2, 1)), rng.normal(size=8))


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [0.05, *(pytest.param(t, marks=pytest.mark.slow) for t in (0.1, 0.15, 0.2, 1 - 0.95, 1 - 0.9)), 1 - 3.8 / 4],
)
def test_a_target_that_is_met_exactly_is_met(model, target):
    """Of 5 inputs times 4 elements 0.05 is one point: half a point more allows no more."""
    x = np.random.default_rng(9).normal(size=(5, 2, 2, 1))
    members = lambda t: plan_ensemble(model, ROT, x, t, "osp", draws=300).members
    assert members(target) == members(target + 1e-9) == members(target + 0.02)
    plan = plan_ensemble(model, ROT, x, target, "osp", draws=300)
    same = model.orbit_statistics(ROT, x, [plan.members], draws=300).osp.values[0]
    changed = (4 - same).sum(axis=1)
    assert (changed <= round(target * 20)).mean() >= 0.95
    assert plan.meets(plan.violation(plan.members).upper)


def test_half_a_point_less_needs_more_members(model):
    x = np.random.default_rng(9).normal(size=(5, 2, 2, 1))
    exact, less = (plan_ensemble(model, ROT, x, t, "osp", draws=300).members for t in (0.05, 0.05 - 1e-9))
    assert exact < less


@given(st.integers(0, 400), st.integers(1, 400))
def test_every_share_is_its_own_threshold_however_it_was_computed(k, n):
    k = min(k, n)
    assert largest_share(k / n, n) == k / n
    assert largest_share(1 - (n - k) / n, n) == k / n
    assert largest_share(k / n + 0.5 / n, n) == k / n


@pytest.mark.parametrize(("over_inputs", "expected"), [("mean", 3 / 8), ("median", 3 / 8), ("max", 2 / 4)])
def test_the_worst_input_is_that_with_fewest_same_predictions(over_inputs, expected):
    """One input keeps 3 of 4 classes, the other 2 of 4."""
    f = np.array([[1.0, 1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])[..., None]
    law = OrbitLaw(f, np.zeros((2, 2, 4, 1)))
    violations = Violations(OrbitMeasures(0), MEASURES["osp"], law, 4, over_inputs)
    assert violations.of(7).tolist() == [expected, expected]
    assert violations.threshold(expected) == expected


@pytest.mark.parametrize("over_inputs", ["mean", "median", "max"])
def test_points_of_a_field_are_its_positions_at_every_element(over_inputs):
    """One of 3 positions has another class at one of 4 elements: one point of 12, which a target of 0.1 allows."""
    f = np.ones((1, 4, 3))
    f[0, 1, 0] = -1.0
    law = OrbitLaw(f, np.zeros((2, 1, 4, 3)))
    violations = Violations(OrbitMeasures(0, fields=(3, 1)), MEASURES["osp"], law, 4, over_inputs)
    assert violations.of(7).tolist() == [1 / 12, 1 / 12]
    assert violations.threshold(1 / 12) == 1 / 12 <= violations.threshold(0.1) <= 0.1


def test_an_excess_of_wrong_classes_is_one_division_of_whole_numbers():
    """3 wrong of 10 beside 2 wrong: 0.3 / 0.2 − 1 is 0.4999…, and 3/2 − 1 is a half."""
    labels = np.zeros(10, int)
    mean = np.zeros((10, 1, 2))
    mean[:, 0, 0] = 1.0
    mean[:2, 0] = (0.0, 1.0)
    fluctuations = np.zeros((2, 10, 1, 2))
    fluctuations[:, 2, 0, 1] = 9.0
    law = OrbitLaw(mean, fluctuations)
    violations = Violations(OrbitMeasures(0, None, labels), MEASURES["error"], law, 1, "mean")
    assert (violations.of(1).tolist(), violations.of(1000).tolist()) == ([0.5, 0.5], [0.0, 0.0])


@given(st.integers(1, 60), st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_quantiles_are_counted(k, values):
    """The k/n-quantile is the k-th smallest, also where k/n is computed as 1 − (n − k)/n."""
    n = len(values)
    k = min(k, n)
    for q in (k / n, 1 - (n - k) / n):
        assert sample_quantiles(np.array(values), q) == sorted(values)[k - 1]


def test_a_target_of_no_point_at_all_is_searched_for():
    values = [3.0, 2.0, 1.0, 1.0, 0.0, 0.0]
    assert smallest(lambda m: values[m - 1], 0.0, 6) == 5


def test_classifiers_meet_targets_exactly_too():
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(12, 2, 2, 1)), np.array(list("abc" * 4))
    model = InfiniteEnsembleClassifier(net(), augmentation=ROT, time=30.0).fit(x, labels)
    new = np.random.default_rng(2).normal(size=(5, 2, 2, 1))
    members = lambda t: plan_ensemble(model, ROT, new, t, "osp", draws=200).members
    assert members(0.15) == members(0.15 + 1e-9)
