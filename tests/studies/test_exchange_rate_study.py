"""Claims of the study `exchange-rate` on made-up curves, and that its signals have the symmetry that they should."""

import dataclasses

import numpy as np
import pytest

from equitangents.statistics import Estimate
from equitangents_studies import exchange_rate as exchange

SETTINGS = exchange.Settings()


def results(*, power=1.0, cost=3.0, foretold=1.0, foretold_cost=1.0, augmented=0.0):
    """Factors n^power to 5 %, and errors of the wrong group `cost` times the plain kernel's; predictions by factors."""
    rng = np.random.default_rng(0)
    shape = len(SETTINGS.sizes), SETTINGS.repetitions
    errors, predicted, factors, told = {}, {}, {}, {}
    for n in SETTINGS.orders:
        plain = np.exp(0.05 * rng.standard_normal(shape))
        for kind, scale in ((exchange.PLAIN, 1.0), (exchange.RIGHT, 1.0 / n), (exchange.WRONG, cost)):
            errors[n, kind] = scale * plain * np.exp(0.05 * rng.standard_normal(shape))
            predicted[n, kind] = np.full(shape[0], scale * (foretold_cost if kind == exchange.WRONG else 1.0))
        factors[n] = n**power * np.array([1.0, 0.95, 1.05])
        told[n] = foretold * factors[n]
    return exchange.Results(errors, predicted, factors, told, dict.fromkeys(SETTINGS.orders, augmented))


@pytest.mark.parametrize(
    ("planted", "missed"),
    [
        ({}, None),
        ({"power": 0.5}, 0),
        ({"power": np.nan}, 0),
        ({"cost": 0.8}, 1),
        ({"augmented": 1e-3}, 2),
        ({"foretold": 1.6}, 3),
        ({"foretold_cost": 0.5}, 3),
    ],
)
def test_verdicts_follow_what_is_planted(planted, missed):
    found = [c.outcome for c in exchange.claims(SETTINGS, results(**planted))]
    if np.isnan(planted.get("power", 1.0)):
        assert found == ["undecided", "holds", "holds", "undecided"]
    else:
        assert found == ["fails" if i == missed else "holds" for i in range(4)]


def test_the_growth_is_that_of_a_power_through_one():
    e = exchange.growth({2: Estimate(3.0, 2.7, 3.3), 8: Estimate(27.0, 24.0, 30.0)})
    assert e.value == pytest.approx(np.log2(3.0), rel=1e-12)
    assert e.low < e.value < e.high
    alone = exchange.growth({4: Estimate(4.0, 2.0, 8.0)})  # half of log 4 about log 4
    assert (alone.value, alone.low, alone.high) == pytest.approx((1.0, 0.5, 1.5))


def test_targets_are_invariant_under_their_shifts_alone():
    settings = dataclasses.replace(SETTINGS, samples=50)
    x, y = exchange.signals(settings, 4)
    action = exchange.shifts(8, 4)
    for g in range(4):
        np.testing.assert_array_equal(action(g, x), np.roll(x, 2 * g, axis=1))
    lifted = lambda x: np.concatenate(
        [x[..., 0], (x * x.transpose(0, 2, 1)).reshape(len(x), -1), np.ones((len(x), 1))], 1
    )
    many, of = exchange.signals(dataclasses.replace(settings, samples=400), 4)
    quadratic = np.linalg.lstsq(lifted(many), of)[0]
    at = lambda x: lifted(x) @ quadratic
    np.testing.assert_allclose(at(many), of, atol=1e-8)
    np.testing.assert_allclose(at(np.roll(many, 2, axis=1)), of, atol=1e-8)
    assert np.abs(at(np.roll(many, 1, axis=1)) - of).max() > 0.1
    assert (y.mean(), y.std()) == pytest.approx((0.0, 1.0))
