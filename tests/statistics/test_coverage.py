"""Intervals hold the truth as often as they say, for few, skewed, heavy-tailed and discrete samples."""

import numpy as np
import pytest

from equitangents.audit.measure.task import Resampler
from equitangents.metrics.measure import BootstrapSettings
from equitangents.statistics import bootstrap, excess_exponent, log_ratio, mean_interval, power_law, squared_mean

POPULATIONS = {  # how values are drawn, their mean, between which bounds they lie
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0, None),
    "lognormal": (lambda rng, shape: rng.lognormal(size=shape), np.exp(0.5), None),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0, None),
    "lognormal less 2": (lambda rng, shape: rng.lognormal(size=shape) - 2, np.exp(0.5) - 2, None),
    "negative lognormal": (lambda rng, shape: -rng.lognormal(size=shape), -np.exp(0.5), None),
    "Pareto": (lambda rng, shape: 1 + rng.pareto(3, size=shape), 1.5, None),
    "left-skewed": (lambda rng, shape: -rng.exponential(size=shape), -1.0, None),
    "squared normal": (lambda rng, shape: rng.normal(size=shape) ** 2, 1.0, None),
    "t of 3 degrees": (lambda rng, shape: rng.standard_t(3, size=shape), 0.0, None),
    "counts of 4": (lambda rng, shape: rng.binomial(4, 0.7, size=shape), 2.8, (0, 4)),
    "yes or no": (lambda rng, shape: rng.binomial(1, 0.9, size=shape), 0.9, (0, 1)),
    "rarely no": (lambda rng, shape: rng.binomial(1, 0.98, size=shape), 0.98, (0, 1)),
    "near-constant": (lambda rng, shape: 1 + 1e-9 * rng.exponential(size=shape), 1 + 1e-9, None),
}


def least(trials, errors=2.0):
    """What so many samples find at least, by so many standard errors, of a coverage of 95 %."""
    return 0.95 - errors * np.sqrt(0.05 * 0.95 / trials)


def held(name, n, trials, resamples, interval):
    """In which share of samples an interval was given that holds the mean; in all of them one has to be given."""
    draw, mean, bounds = POPULATIONS[name]
    samples = np.asarray(draw(np.random.default_rng(n), (trials, n)), float)
    ends = np.array([interval(x, resamples, bounds, seed % 7) for seed, x in enumerate(samples)])
    assert not np.isnan(ends).any()
    if bounds is not None:
        assert bounds[0] <= ends.min()
        assert ends.max() <= bounds[1]
    return np.mean((ends[:, 0] <= mean) & (mean <= ends[:, 1]))


def of_metrics(x, resamples, bounds, seed):
    return mean_interval(x, resamples=resamples, bounds=bounds, seed=seed)


def of_studies(x, resamples, bounds, seed):
    return bootstrap(x, resamples=resamples, bounds=bounds, seed=seed).interval


def of_audits(x, resamples, bounds, seed):
    found = Resampler(len(x), None, BootstrapSettings(0.95, resamples, seed)).mean(x, bounds)
    return found.low, found.high


USUAL = {(name, 10) for name in POPULATIONS} | {(name, n) for name in ("lognormal", "rarely no") for n in (5, 50)}


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("name", "n"),
    [pytest.param(k, n, marks=() if (k, n) in USUAL else pytest.mark.slow) for k in POPULATIONS for n in (5, 10, 50)],
)
def test_most_intervals_hold_the_mean(name, n):
    assert held(name, n, 200, 300, of_metrics) >= least(200, errors=2.5)


@pytest.mark.slow
@pytest.mark.parametrize("interval", [of_metrics, of_studies, of_audits])
@pytest.mark.parametrize("n", [5, 10, 50])
@pytest.mark.parametrize("name", POPULATIONS)
def test_95_percent_intervals_of_means_hold_95_percent(name, n, interval):
    assert held(name, n, 1500, 1000, interval) >= least(1500)


M, X3, X5 = np.array([1.0, 2, 4, 8]), 2.0 ** np.arange(3), 2.0 ** np.arange(5)


def over_inputs_and_elements(rng, n):
    rows, noise = rng.lognormal(0, 0.4, (10, 1)), rng.lognormal(0, 0.3, (10, n))
    return Resampler(n, 10, BootstrapSettings()).mean(rng.lognormal(0, 0.8, (1, n)) * rows * noise)


def of_scaled(x, n, rng):
    return excess_exponent(x, [rng.normal(1 / at, 0.1 / at, n) for at in x], resamples=200)


def root_of_ratio(means):
    return np.sqrt(means[:, 0] / means[:, 1])


OTHERS = {  # an interval of n samples, what it is of, trials
    "exponents": (lambda rng, n: power_law(M, M**-1.0 * rng.chisquare(1, size=(n, 4))), -0.5, 600),
    "ratios of means": (
        lambda rng, n: bootstrap(rng.exponential([2.0, 1.0], (n, 2)), root_of_ratio), 2**0.5, 600
    ),
    **{
        f"what more members leave of {mean}, {values}": (
            lambda rng, n, mean=mean, values=values: squared_mean(rng.normal(mean, 1.0, (n, values))), mean**2, 1000
        )
        for mean in (0.0, 0.3, 1.0, 3.0) for values in (1, 6)
    },
    **{
        f"what more skewed members leave of {mean}": (
            lambda rng, n, mean=mean: squared_mean(mean - 1 + rng.exponential(size=(n, 1))), mean**2, 1000
        )
        for mean in (0.0, 1.0)
    },
    "means over inputs and elements": (over_inputs_and_elements, np.exp((0.64 + 0.16 + 0.09) / 2), 1000),
    "excess exponents of 3 points": (lambda rng, n: of_scaled(X3, n, rng), -1.0, 400),
    "excess exponents of 5 points": (lambda rng, n: of_scaled(X5, n, rng), -1.0, 400),
    "ratios of logarithms": (lambda rng, n: log_ratio(rng.lognormal(size=n), rng.lognormal(size=n + 3)), 1.0, 400),
}  # fmt: skip


def share(name, n, trials=None):
    """In which share of samples the interval is given and holds."""
    interval, truth, usual = OTHERS[name]
    rng = np.random.default_rng(n)
    found = [interval(rng, n) for _ in range(trials or usual)]
    return np.mean([e.low <= truth <= e.high for e in found]), trials or usual


QUICKLY = [(name, 5, 200) for name in ("exponents", "ratios of logarithms")]
SLOWLY = [pytest.param(name, n, None, marks=pytest.mark.slow) for name in OTHERS for n in (5, 10, 50)]


@pytest.mark.parametrize(("name", "n", "trials"), [*QUICKLY, *SLOWLY])
def test_intervals_of_other_numbers_hold(name, n, trials):
    found, trials = share(name, n, trials)
    assert found >= least(trials)


@pytest.mark.slow
def test_excess_exponents_of_log_normal_means_cover_as_little_as_the_docstring_says():
    rng = np.random.default_rng(9)
    drawn = [list(rng.lognormal(-np.log(X5)[:, None], 1, (5, 10))) for _ in range(400)]
    found = [excess_exponent(X5, samples, resamples=200) for samples in drawn]
    covered = np.mean([e.low <= -1 <= e.high for e in found if e.has_interval])
    assert 0.88 <= covered <= 0.95
    assert "91 %" in excess_exponent.__doc__


@pytest.mark.parametrize("n", [2, 3, 4])
def test_below_five_samples_there_is_no_interval(n):
    x = np.random.default_rng(0).lognormal(size=n)
    for interval in (of_metrics, of_studies, of_audits):
        assert np.isnan(interval(x, 100, None, 0)).all()
    assert not bootstrap(x).has_interval
