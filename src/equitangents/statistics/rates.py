"""Exponents and ratios on a logarithmic scale, with intervals over independent samples."""

from __future__ import annotations

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.errors import ShapeError
from equitangents.statistics.bootstrap import RESAMPLES, bootstrap, mean_interval, resample
from equitangents.statistics.estimate import Estimate, check_confidence, exactly
from equitangents.statistics.student import FEWEST, student_interval


def power_law(
    x: Float[np.ndarray, " points"], samples: Float[np.ndarray, "n points"], *, confidence: float = 0.95, seed: int = 0
) -> Estimate:
    """Exponent a of mean-square values ∝ x^(2a), by least squares on logarithms, studentised over samples.

    `samples` are squared quantities, one row per independent sample; their mean over rows is fitted.
    """
    centred = np.log(x) - np.log(x).mean()
    slope = lambda means: 0.5 * np.log(means) @ centred / (centred @ centred)
    with np.errstate(divide="ignore", invalid="ignore"):  # a mean of 0 has no logarithm: no interval
        return bootstrap(samples, slope, confidence=confidence, seed=seed)


def log_ratio(
    numerator: Float[np.ndarray, " n"], denominator: Float[np.ndarray, " m"], *, confidence: float = 0.95
) -> Estimate:
    """Ratio of the geometric means of two independent positive samples, with Welch's interval on the logarithms.

    NaN if a sample contains 0 or infinity; no interval if one has fewer than 5 values.
    """
    check_confidence(confidence)
    for name, sample in (("numerator", numerator), ("denominator", denominator)):
        if np.ndim(sample) != 1 or not len(sample):
            raise ShapeError(name, np.shape(sample), "(n,), n ≥ 1")
    both = np.concatenate([numerator, denominator])
    if both.min() <= 0 or not np.isfinite(both).all():
        return Estimate(np.nan, np.nan, np.nan, confidence)
    logs = [np.log(np.asarray(s, dtype=np.float64)) for s in (numerator, denominator)]
    centre = logs[0].mean() - logs[1].mean()
    if np.ptp(logs[0]) == np.ptp(logs[1]) == 0 and min(map(len, logs)) > 1:
        return exactly(np.exp(centre))
    if min(map(len, logs)) < FEWEST:
        return Estimate(float(np.exp(centre)), np.nan, np.nan, confidence)
    parts = [x.var(ddof=1) / len(x) for x in logs]
    degrees = sum(parts) ** 2 / sum(p**2 / (len(x) - 1) for p, x in zip(parts, logs, strict=True))
    width = scipy.special.stdtrit(degrees, (1 + confidence) / 2) * np.sqrt(sum(parts))
    low, value, high = np.exp([centre - width, centre, centre + width])
    return Estimate(float(value), float(low), float(high), confidence)


def excess_exponent(
    x: Float[np.ndarray, " points"],
    samples: list[np.ndarray],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Exponent a of means ∝ x^a, by weighted least squares on logarithms; the interval is over independent samples.

    `samples[i]` are independent values whose mean is the quantity at x[i]; weights are those of the logarithms' errors.
    The interval is a studentised bootstrap over all points, with Student's t for the degrees of freedom of the smallest
    sample, which determines weights and errors. Its coverage is 95 % from 5 normally distributed values per point on;
    for log-normal ones (σ = 1) 91 % from 10 on, since logarithms of means are biased. NaN if the interval of any mean
    contains 0: then there is no excess to fit.
    """
    samples = [np.asarray(s, dtype=np.float64) for s in samples]
    ends = np.array([mean_interval(s, confidence=confidence, resamples=resamples, seed=seed) for s in samples])
    if not ((ends[:, 0] > 0).all() or (ends[:, 1] < 0).all()):
        return Estimate(np.nan, np.nan, np.nan, confidence)
    means = np.stack([resample(len(s), resamples, seed + i) @ s for i, s in enumerate(samples)], axis=1)
    sample_means = np.array([s.mean() for s in samples])
    logs, size = np.log(np.maximum(np.abs(means), np.finfo(float).tiny)), np.log(np.abs(sample_means))
    weights = 1 / logs.var(axis=0)
    centred = np.log(x) - np.average(np.log(x), weights=weights)
    lever = weights * centred / (weights @ centred**2)
    slope, few = float(size @ lever), min(map(len, samples))
    arms = [(a / m) * (s - m) / len(s) for a, m, s in zip(lever, sample_means, samples, strict=True)]
    error = np.sqrt(sum(float(arm @ arm) * len(arm) / (len(arm) - 1) for arm in arms))
    low, high = student_interval(
        slope,
        float(error),
        samples=few,
        level=confidence,
        skew=float(sum((arm**3).sum() for arm in arms)),
        resampled=logs @ lever,
        errors=np.sqrt(np.stack(_squares(samples, means, resamples, seed), axis=1) @ lever**2),
    )
    return Estimate(slope, low, high, confidence)


def _squares(samples: list[np.ndarray], means: np.ndarray, resamples: int, seed: int) -> list[np.ndarray]:
    """The squared standard error of the logarithm for every resample, point by point."""
    found = []
    for i, s in enumerate(samples):
        variance = resample(len(s), resamples, seed + i) @ (s - s.mean()) ** 2 - (means[:, i] - s.mean()) ** 2
        safe = np.maximum(means[:, i] ** 2, np.finfo(float).tiny)
        found.append(np.maximum(variance, 0.0) / (len(s) - 1) / safe)
    return found
