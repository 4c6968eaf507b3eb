"""Intervals cover what they should, and verdicts follow from intervals alone."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents.statistics import (
    Estimate,
    shared_level,
)
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED, decide


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
