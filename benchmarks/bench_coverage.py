"""Coverage of 95 % intervals by simulation: in which share of samples an interval holds the true number.

Means of skewed, heavy-tailed and discrete values at 5, 10 and 50 samples, exponents, ratios, squared means and the
tables of audits. `python -m benchmarks coverage` prints the tables of docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZES = (5, 10, 50)
TRIALS = 4000
RESAMPLES = 1000
LEVEL = 0.95
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


@dataclass(frozen=True)
class Population:
    """How values are drawn, their mean, and between which bounds they lie."""

    name: str
    draw: Draw
    mean: float
    bounds: tuple[float, float] | None = None
    beyond: bool = False
    """Whether its tail is heavier than what 95 % is promised for."""


POPULATIONS = (
    Population("normal", lambda rng, shape: rng.normal(size=shape), 0.0),
    Population("lognormal, σ = 1", lambda rng, shape: rng.lognormal(size=shape), math.exp(0.5)),
    Population("the same, less 2", lambda rng, shape: rng.lognormal(size=shape) - 2, math.exp(0.5) - 2),
    Population("the same, negative", lambda rng, shape: -rng.lognormal(size=shape), -math.exp(0.5)),
    Population("exponential", lambda rng, shape: rng.exponential(size=shape), 1.0),
    Population("exponential, negative", lambda rng, shape: -rng.exponential(size=shape), -1.0),
    Population("squared normal", lambda rng, shape: rng.normal(size=shape) ** 2, 1.0),
    Population("t of 3 degrees", lambda rng, shape: rng.standard_t(3, size=shape), 0.0),
    Population("Pareto, α = 3", lambda rng, shape: 1 + rng.pareto(3, size=shape), 1.5),
    Population("counts of 4", lambda rng, shape: rng.binomial(4, 0.7, size=shape), 2.8, (0, 4)),
    Population("yes or no, 90 %", lambda rng, shape: rng.binomial(1, 0.9, size=shape), 0.9, (0, 1)),
    Population("yes or no, 98 %", lambda rng, shape: rng.binomial(1, 0.98, size=shape), 0.98, (0, 1)),
    Population("1 + exponential/10⁹", lambda rng, shape: 1 + 1e-9 * rng.exponential(size=shape), 1 + 1e-9),
    Population("lognormal, σ = 1.5", lambda rng, s: rng.lognormal(sigma=1.5, size=s), math.exp(1.125), beyond=True),
    Population("Pareto, α = 2", lambda rng, shape: 1 + rng.pareto(2, size=shape), 2.0, beyond=True),
)


def of_mean(population: Population, n: int, trials: int = TRIALS, seed: int = 0) -> float:
    """The share of samples of n values whose interval, one must be given, holds the mean."""
    from equitangents.statistics import bootstrap_intervals

    samples = np.asarray(population.draw(np.random.default_rng([n, seed]), (n, trials)), np.float64)
    _, low, high = bootstrap_intervals(samples, resamples=RESAMPLES, bounds=population.bounds, seed=seed)
    return float(np.mean((low <= population.mean) & (population.mean <= high)))


def of_exponent(n: int, trials: int = TRIALS // 4) -> float:
    """Exponents of squared normal values that fall as 1/x, n samples at each of 4 places."""
    from equitangents.statistics import power_law

    x, rng = np.array([1.0, 2.0, 4.0, 8.0]), np.random.default_rng(n)
    found = (power_law(x, rng.chisquare(1, (n, 4)) / x) for _ in range(trials))
    return _share((e.interval for e in found), -0.5, trials)


def of_ratio(n: int, trials: int = TRIALS // 4) -> float:
    """Roots of the ratio of the means of two exponential values."""
    from equitangents.statistics import bootstrap

    root = lambda m: np.sqrt(m[:, 0] / m[:, 1])
    rng = np.random.default_rng(n)
    found = (bootstrap(rng.exponential([2.0, 1.0], (n, 2)), root, resamples=RESAMPLES) for _ in range(trials))
    return _share((e.interval for e in found), math.sqrt(2), trials)


def of_limit(members: int, values: int, mean: float, draw: Draw | None = None, trials: int = TRIALS // 4) -> float:
    """What infinitely many members leave: the squared mean of `values` numbers of each, of this mean and variance 1."""
    from equitangents.statistics import squared_mean

    draw = draw or (lambda rng, shape: rng.normal(size=shape))
    rng = np.random.default_rng([members, values])
    found = (squared_mean(mean + draw(rng, (members, values))) for _ in range(trials))
    return _share((e.interval for e in found), mean**2, trials)


def of_audit(inputs: int, elements: int | None, trials: int = TRIALS // 4) -> float:
    """The mean error of an audit over inputs, lognormal, and over sampled elements, where there are any."""
    from equitangents.audit.measure.intervals import Resampler

    rng = np.random.default_rng(inputs)
    found = []
    resampler = Resampler(inputs, elements, LEVEL, RESAMPLES, 0)
    for _ in range(trials):
        table = rng.lognormal(sigma=0.8, size=(1, inputs))
        if elements is not None:
            table = table * rng.lognormal(sigma=0.4, size=(elements, 1)) * rng.lognormal(0, 0.3, (elements, inputs))
        found.append(resampler.mean(table if elements is not None else table[0]))
    truth = math.exp(0.32) if elements is None else math.exp(0.32 + 0.08 + 0.045)
    return _share(((e.low, e.high) for e in found), truth, trials)


def _share(intervals: Iterator[tuple[float, float]], truth: float, trials: int) -> float:
    return sum(low <= truth <= high for low, high in intervals) / trials


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Exponential values of mean 0."""
    return rng.exponential(size=shape) - 1


def others(trials: int = TRIALS // 4) -> list[tuple[str, Callable[[int], float]]]:
    """What else has intervals: its name, and its coverage for so many samples."""
    rows: list[tuple[str, Callable[[int], float]]] = [
        ("exponent of squared normal values", lambda n: of_exponent(n, trials)),
        ("root of a ratio of exponential means", lambda n: of_ratio(n, trials)),
        ("audit: mean error over inputs", lambda n: of_audit(n, None, trials)),
        ("audit: the same over 10 elements too", lambda n: of_audit(n, 10, trials)),
    ]
    for values in (1, 6):
        for mean in (0.0, 0.3, 1.0, 3.0):
            of: Any = lambda n, values=values, mean=mean: of_limit(n, values, mean, trials=trials)
            rows.append((f"limit, {values} normal, mean {mean:g}", of))
    for mean in (0.0, 0.3, 1.0):
        of = lambda n, mean=mean: of_limit(n, 1, mean, skewed, trials)
        rows.append((f"limit, 1 exponential, mean {mean:g}", of))
    return rows


def table(first: str, rows: list[tuple[str, Callable[[int], float]]]) -> Iterator[str]:
    """Percentages for every number of samples, line by line as they are found."""
    yield f"| {first} | " + " | ".join(f"{n} samples" for n in SIZES) + " |"
    yield "|---" * (len(SIZES) + 1) + "|"
    for name, of in rows:
        yield f"| {name} | " + " | ".join(f"{100 * of(n):.1f} %" for n in SIZES) + " |"


def main(full: bool = False) -> None:
    """Print both tables; `--full` takes four times as many samples."""
    trials = TRIALS * (4 if full else 1)
    means: list[tuple[str, Callable[[int], float]]] = []
    for p in POPULATIONS:
        means.append((p.name, lambda n, p=p: of_mean(p, n, trials)))  # type: ignore[misc]
    for first, rows, count in (("mean of", means, trials), ("other", others(trials // 4), trials // 4)):
        for line in table(f"95 % interval, {first}", rows):
            print(line, flush=True)
        print(f"of {count:,} samples each; standard error at 95 %: {100 * math.sqrt(0.95 * 0.05 / count):.2f} %\n")


if __name__ == "__main__":
    main()
