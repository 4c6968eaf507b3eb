"""One verdict on many means at once: as rarely wrong as three standard errors are for a single number."""

from __future__ import annotations

import numpy as np
import scipy.stats

LEVEL = 2 * scipy.stats.norm.sf(3)  # 0.27 %, of each of the two tests
_NULL = 1e-10  # of the largest variance: below it a combination of entries does not vary from draw to draw


def limit_of_the_largest(numbers, draws):
    """Which the largest of so many numbers in standard errors, dependent or not, exceeds at LEVEL (Šidák 1967)."""
    return float(scipy.stats.t.isf((1 - (1 - LEVEL) ** (1 / numbers)) / 2, draws - 1))


def jointly_agree(samples, expected):
    """Whether means of draws (S, …) are `expected` by both of two tests, each of which refuses what is right at LEVEL.

    Hotelling's T² takes all combinations of entries together, with their sample covariance: T² (S − r)/(r (S − 1)) is
    F(r, S − r) for r combinations that vary; in those that do not, means are exact. The largest of Student's statistics
    of single entries keeps to `limit_of_the_largest`.
    """
    draws = np.asarray(samples, np.float64).reshape(len(samples), -1)
    gap = draws.mean(axis=0) - np.ravel(expected)
    count, scale = len(draws), max(float(np.abs(draws).max()), 1e-300)
    values, vectors = np.linalg.eigh(np.cov(draws.T).reshape(len(gap), -1))
    along, varies = vectors.T @ gap, values > _NULL * values[-1]
    if not np.max(np.abs(along[~varies]), initial=0.0) <= 1e-4 * scale:
        return False
    rank = int(varies.sum())
    squared = count * float((along[varies] ** 2 / values[varies]).sum())
    joint = scipy.stats.f.sf(squared * (count - rank) / (rank * (count - 1)), rank, count - rank)
    errors = draws.std(axis=0, ddof=1) / count**0.5
    moving = errors > 1e-12 * scale
    largest = float(np.max(np.abs(gap[moving]) / errors[moving]))
    return bool(joint >= LEVEL and largest <= limit_of_the_largest(int(moving.sum()), count))


def assert_jointly(samples, expected, factor):
    """The means agree, and draws suffice to refuse means that are larger by `factor`."""
    assert jointly_agree(samples, expected)
    assert not jointly_agree(samples, factor * np.asarray(expected)), f"too few draws to tell a factor {factor}"
