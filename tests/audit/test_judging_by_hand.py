"""When an error is above a limit: by its interval, of many by one that holds for all at once."""

import numpy as np
import pytest
import scipy.stats

from equitangents.audit.measure.judge import compared
from equitangents.audit.report.numbers import Estimate, Spread


def exceeds(error, limit, tests=1, confidence=0.95):
    return compared(error, 0.0, limit, tests, confidence)[1]


def error(mean, low, median=1.0):
    return Spread(Estimate(mean, low, 2 * mean - low), 0.0, 0.5, median, 1.5, 2.0, 3.0)


@pytest.mark.parametrize("tests", [1, 2, 60])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_lower_end_of_an_interval_that_holds_for_all_at_once(tests, confidence):
    """Of normal errors: as many standard errors below the mean as (1 − confidence) / 2 tests leaves on one side."""
    steps = scipy.stats.norm.isf((1 - confidence) / 2 / tests)
    one = error(1.0, 1 - 0.1 * scipy.stats.norm.isf((1 - confidence) / 2))
    assert exceeds(one, 1 - 0.1 * steps - 1e-9, tests, confidence)
    assert not exceeds(one, 1 - 0.1 * steps + 1e-9, tests, confidence)


def test_without_an_interval_it_is_the_median():
    assert exceeds(error(2.0, np.nan, median=1.0), 0.9)
    assert not exceeds(error(2.0, np.nan, median=1.0), 1.1)
