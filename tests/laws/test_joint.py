"""The joint verdict on Monte Carlo means refuses what is right as rarely as it says, and what is wrong."""

import numpy as np
import scipy.stats

from laws.joint import LEVEL, jointly_agree, limit_of_the_largest


def correlated(rng, count):
    """Draws of ten numbers that share most of what varies, one of them twice."""
    shared, own = rng.normal(size=(count, 1)), rng.normal(size=(count, 9))
    draws = 1 + shared + 0.3 * own
    return np.concatenate([draws, draws[:, :1]], axis=1)


def test_right_means_are_refused_as_rarely_as_said():
    rng = np.random.default_rng(0)
    refused = sum(not jointly_agree(correlated(rng, 60), np.ones(10)) for _ in range(1500))
    assert scipy.stats.binom.sf(refused - 1, 1500, 2 * LEVEL) > 1e-3
    assert refused > 0


def test_wrong_means_are_refused_also_where_no_single_number_is_far_out():
    rng = np.random.default_rng(1)
    one = np.ones(10)
    one[3] += 1.3 * 6 / 200**0.5
    apart = np.ones(10) + 0.3 * 4 / 200**0.5 * np.array([*[1, -1] * 4, 1, 1])  # small beside what they share
    assert not jointly_agree(correlated(rng, 200), one)
    assert not jointly_agree(correlated(rng, 200), apart)
    twice = np.ones(10)
    twice[9] += 0.01  # equal numbers have equal means
    assert not jointly_agree(correlated(rng, 200), twice)
    assert not jointly_agree(correlated(rng, 200), np.full(10, np.nan))


def test_the_limit_of_one_number_is_three_standard_errors():
    assert abs(limit_of_the_largest(1, 10**9) - 3) < 1e-6
    assert 4 < limit_of_the_largest(100, 10**9) < 4.5
