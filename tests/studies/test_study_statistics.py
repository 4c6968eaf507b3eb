"""Intervals cover what they should, and verdicts follow from intervals alone."""

import functools
import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.errors import InvalidArgumentError
from equitangents.statistics import (
    Estimate,
    bootstrap,
    power_law,
    shared_level,
    squared_mean,
    surviving_share,
)
from equitangents.statistics.bootstrap import resample
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED, decide
from equitangents_studies.framework.claims import claim, ours


class TestBootstrap:
    def test_covers_the_mean(self):
        rng = np.random.default_rng(0)
        hits = 0
        for seed in range(200):
            estimate = bootstrap(rng.exponential(1.0, 60), seed=seed, resamples=300)
            hits += estimate.low <= 1.0 <= estimate.high
        assert 0.87 <= hits / 200 <= 0.99

    def test_width_is_that_of_the_normal_theory(self):
        x = np.random.default_rng(1).normal(size=500)
        estimate = bootstrap(x, resamples=4000)
        assert estimate.value == pytest.approx(x.mean())
        assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * x.std() / np.sqrt(500), rel=0.06)

    def test_statistic_of_several_means(self):
        x = np.random.default_rng(1).normal([1.0, 3.0], 0.1, size=(50, 2))
        estimate = bootstrap(x, lambda m: m.min(axis=1))
        assert estimate.low < 1.0 < estimate.high
        assert estimate.high < 1.2

    def test_needs_two_samples(self):
        with pytest.raises(InvalidArgumentError):
            bootstrap(np.ones(1))


class TestSquaredMean:
    def test_is_unbiased(self, monkeypatch):
        # the intervals of the values, which take most of the time, are not looked at
        module = importlib.import_module("equitangents.statistics.jackknife")
        monkeypatch.setattr(module, "jackknife", lambda whole, *others: Estimate(float(whole), np.nan, np.nan))
        rng = np.random.default_rng(0)
        mean = np.array([0.3, -0.2, 0.1])
        values = [squared_mean(rng.normal(mean, 1.0, (8, 3))).value for _ in range(4000)]
        error = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - (mean**2).mean()) < 4 * error
        assert error < 0.01

    def test_literal_sum_over_pairs(self):
        d = np.random.default_rng(0).normal(size=(5, 4))
        pairs = [d[i] @ d[j] for i in range(5) for j in range(5) if i != j]
        assert squared_mean(d).value == pytest.approx(np.mean(pairs) / 4)

    def test_jackknife_against_literal_leaving_out(self):
        d = np.random.default_rng(0).normal(0.5, 1, size=(7, 4))
        left = np.array([squared_mean(np.delete(d, i, axis=0)).value for i in range(7)])
        error = np.sqrt(6 / 7 * ((left - left.mean()) ** 2).sum())
        import scipy.stats

        estimate = squared_mean(d)
        width = scipy.stats.t.ppf(0.975, 6) * error
        assert estimate.low <= estimate.value - width * (1 - 1e-12)
        assert estimate.high >= estimate.value + width * (1 - 1e-12)

    @pytest.mark.slow
    def test_interval_covers(self, monkeypatch):
        drawn = functools.cache(resample)  # as many members each time, the same resamples
        for module in ("bootstrap", "jackknife"):
            monkeypatch.setattr(importlib.import_module(f"equitangents.statistics.{module}"), "resample", drawn)
        rng = np.random.default_rng(3)
        for mean in (np.zeros(6), np.full(6, 0.4)):
            hits = 0
            for _ in range(300):
                e = squared_mean(rng.normal(mean, 1.0, (40, 6)))
                hits += e.low <= (mean**2).mean() <= e.high
            assert hits / 300 > 0.9


class TestSurvivingShare:
    def test_is_zero_without_bias_and_not_with(self):
        rng = np.random.default_rng(0)
        unbiased = surviving_share(rng.normal(0, 1, (300, 10)))
        assert unbiased.low < 0 < unbiased.high < 0.01
        biased = surviving_share(rng.normal(0.5, 1, (300, 10)))
        assert biased.low > 0.1
        assert biased.low < 0.25 / 1.25 < biased.high

    def test_of_equal_members_is_one(self):
        e = surviving_share(np.tile(np.arange(1.0, 4.0), (5, 1)))
        assert e.value == pytest.approx(1.0)
        assert e.low == pytest.approx(1.0)


def test_power_law_finds_its_exponent():
    m = np.array([1, 2, 4, 8, 16])
    samples = m**-1.0 * np.random.default_rng(0).chisquare(1, size=(400, 5))
    estimate = power_law(m, samples)
    assert estimate.low < -0.5 < estimate.high
    assert estimate.high - estimate.low < 0.1


def test_shared_level():
    assert shared_level(1) == pytest.approx(0.95)
    assert shared_level(10) == pytest.approx(0.995)


class TestDecide:
    @given(st.floats(-10, 10), st.floats(0, 5), st.floats(0, 5), st.floats(-10, 10), st.floats(0, 10))
    def test_exactly_one_of_three_and_consistent(self, value, down, up, bound, span):
        estimate = Estimate(value, value - down, value + up)
        verdict = decide(estimate, (bound, bound + span))
        inside = [bound <= v <= bound + span for v in (estimate.low, estimate.high)]
        if verdict == HOLDS:
            assert all(inside)
        elif verdict == FAILS:
            assert estimate.high < bound or estimate.low > bound + span
        else:
            assert not all(inside)

    def test_a_claim_that_must_fail_fails(self):
        assert decide(Estimate(0.5, 0.4, 0.6), (-np.inf, 0.3)) == FAILS
        assert decide(Estimate(0.5, 0.4, 0.6), (0.7, np.inf)) == FAILS

    def test_what_is_not_a_number_is_not_decided(self):
        assert decide(Estimate(np.nan, np.nan, np.nan), (-np.inf, 1)) == UNDECIDED
        assert decide(Estimate(0.0, -np.inf, 0.5), (-np.inf, 1)) == UNDECIDED


class TestJudge:
    def _judge(self, estimates=None, **bounds):
        family = {"first": Estimate(0.5, 0.4, 0.6), "second": Estimate(0.9, 0.8, 1.0)}
        return claim(
            "A claim",
            family if estimates is None else estimates,
            measure="m",
            covers="samples",
            by=ours("s"),
            **bounds,
        )

    def test_all_must_hold(self):
        verdict = self._judge(at_most=1.0)
        assert verdict.outcome == HOLDS
        assert verdict.number == 0.9

    def test_one_failure_fails_all_and_is_the_one_shown(self):
        verdict = self._judge(at_most=0.7)
        assert verdict.outcome == FAILS
        assert verdict.number == 0.9
        verdict = self._judge(at_least=0.7)
        assert verdict.outcome == FAILS
        assert verdict.number == 0.5

    def test_one_undecided_leaves_all_undecided(self):
        verdict = self._judge(at_least=0.45)
        assert verdict.outcome == UNDECIDED
        assert verdict.number == 0.5

    def test_needs_a_number(self):
        with pytest.raises(InvalidArgumentError):
            self._judge({}, at_most=1)


def test_accuracies_of_partial_orbits_stay_between_none_and_all():
    from equitangents_studies.partial_orbits import Results

    for share in (np.array([0.0, 0.02, 0.01, 0.0, 0.03, 0.02]), np.array([1.0, 0.98, 0.99, 1.0, 0.97, 0.98])):
        case = ("digits", "net", "C4", "one")
        found = Results({(*case, "unseen"): share}, {}).estimate(case, "unseen")
        assert found.value == pytest.approx(share.mean())
        assert 0 <= found.interval[0] <= found.value <= found.interval[1] <= 1


def test_agreements_of_trained_ensembles_lie_between_one_and_the_order():
    from equitangents_studies.sampling import page

    table = 1 + 0.4 * np.random.default_rng(0).random((6, 50))
    estimate = page._osp(SimpleNamespace(order=4, agreement=lambda way, name: table), "all", "test")
    assert estimate.value == pytest.approx(table.mean())
    assert 1 <= estimate.interval[0] <= estimate.value <= estimate.interval[1] <= 4
