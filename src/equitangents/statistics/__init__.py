"""Confidence intervals that hold for few, skewed and heavy-tailed samples; no interval if there are too few."""

from equitangents.statistics.bootstrap import bootstrap, bootstrap_intervals, mean_interval
from equitangents.statistics.estimate import Estimate, exactly, no_interval, shared_level, t_interval
from equitangents.statistics.jackknife import (
    bias_fraction,
    quotient_of_squared_means,
    second_moment_share,
    squared_mean,
)
from equitangents.statistics.rates import excess_exponent, log_ratio, power_law
from equitangents.statistics.student import FEWEST, binomial_ends

__all__ = [
    "FEWEST",
    "Estimate",
    "bias_fraction",
    "binomial_ends",
    "bootstrap",
    "bootstrap_intervals",
    "exactly",
    "excess_exponent",
    "log_ratio",
    "mean_interval",
    "no_interval",
    "power_law",
    "quotient_of_squared_means",
    "second_moment_share",
    "shared_level",
    "squared_mean",
    "t_interval",
]
