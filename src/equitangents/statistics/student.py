"""The ends of an interval from few and skewed samples: the widest of three on the side of the longer tail.

Student's t          θ ± t s
bootstrap-t          quantiles of (θ* − θ)/s* over resamples, at 0.22 of the tail (Efron & Tibshirani 1993, chapter 12)
t of the logarithm   θ exp(± t s/θ) for positive samples, at 0.17 of the tail

These tail fractions hold for 10 samples and grow to 1. Fewer than 10 samples often lean to the wrong side: then both
sides are widened, by the bootstrap to at most 3.5 times Student's, and the logarithm is at 0.35 of the tail. For more
samples, the short side is Student's, or for positive samples with a long upper tail that of the logarithm, which stays
positive if values cannot be negative, or if so many samples of one sign cannot be chance.

Student's t for the mean of 10 lognormal values (σ = 1) covers it in 83 % of samples instead of 95 %. The coverage of
these ends is tested in tests/statistics/test_coverage.py; it is too low for heavier tails.
Resamples without variance say nothing about t: if they reach into the tail (nearly all values alike, such as
counts), the end is that of Clopper & Pearson on the values' range. Fewer than 5 samples give no interval, and samples
that are all equal give one only if the quantity has known bounds.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.statistics.estimate import check_confidence

FEWEST = 5
_RESAMPLED_TAIL = 0.22
_LOGARITHMIC_TAIL = 0.17
_LOGARITHMIC_TAIL_OF_FEW = 0.35
_FEW = 10  # samples up to which both stand so, and below which either side may be the longer one
_CHANCE = 0.1  # of the tail: how rarely samples may all be positive although their mean is not
_MOST = 3.5  # Student's steps, of fewer: their resamples hold few different values, and reach further than any mean
_NO_ERROR = 1e-6  # of the standard error: rounding gives this much to a resample of equal values


def student_interval(
    value: float,
    error: float,
    *,
    samples: int,
    level: float,
    skew: float,
    resampled: Float[np.ndarray, " resamples"] | None = None,
    errors: Float[np.ndarray, " resamples"] | None = None,
    positive: bool = False,
    nonnegative: bool = False,
    span: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """(low, high) about `value` with its standard error from `samples` samples; (NaN, NaN) if there is none.

    skew: its sign is that of the longer tail. resampled, errors: the statistic and its standard error for every
    resample. positive: whether all samples are positive. nonnegative: whether they cannot be negative. span: the
    range of the samples' values.
    """
    if samples < FEWEST or not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return math.nan, math.nan
    tail, few = (1 - level) / 2, min(1.0, math.sqrt(_FEW / samples))
    t = lambda part: float(scipy.special.stdtrit(samples - 1, 1 - part * tail))
    below = above = t(1.0)  # how many standard errors the ends lie from the value
    below_is_long, above_is_long = (samples < _FEW or side <= 0 for side in (skew, -skew))
    pearson = None
    if resampled is not None and errors is not None:
        varies = errors > _NO_ERROR * error
        ratio = np.where(varies, resampled - value, 0.0) / np.where(varies, errors, 1.0)
        part = _RESAMPLED_TAIL**few * tail
        ends = np.quantile(ratio, [part, 1 - part])
        most = _MOST * below if samples < _FEW else math.inf
        below = max(below, min(float(ends[1]), most)) if below_is_long else below
        above = max(above, min(-float(ends[0]), most)) if above_is_long else above
        if span is not None and float(np.mean(~varies)) > part:
            pearson = binomial_ends(value, samples, level, span)
    low, high = value - below * error, value + above * error
    if positive and value > 0:
        exponent = t(_LOGARITHMIC_TAIL**few if samples >= _FEW else _LOGARITHMIC_TAIL_OF_FEW) * error / value
        if above_is_long:
            high = max(high, value * math.exp(exponent) if exponent < 700 else math.inf)
        if skew > 0 and (nonnegative or 2.0**-samples <= _CHANCE * tail):
            low = value * math.exp(-below * error / value)
    if pearson is not None:
        low = min(low, pearson[0]) if below_is_long else low
        high = max(high, pearson[1]) if above_is_long else high
    return low, high


def binomial_ends(value: float, samples: int, confidence: float, span: tuple[float, float]) -> tuple[float, float]:
    """Clopper & Pearson's interval of a mean of values in `span`, as if all values were at its ends.

    >>> [round(end, 3) for end in binomial_ends(1.0, 5, 0.95, (0.0, 1.0))]
    [0.478, 1.0]
    """
    check_confidence(confidence)
    tail, size = (1 - confidence) / 2, span[1] - span[0]
    if size <= 0:
        return math.nan, math.nan
    hits = min(max((value - span[0]) / size, 0.0), 1.0) * samples
    low = float(scipy.special.betaincinv(hits, samples - hits + 1, tail)) if hits > 0 else 0.0
    high = float(scipy.special.betaincinv(hits + 1, samples - hits, 1 - tail)) if hits < samples else 1.0
    return span[0] + size * low, span[0] + size * high
