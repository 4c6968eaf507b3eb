"""Coverage of intervals by simulation: in which share of samples an interval holds the true number, and how wide it is.

Means of skewed, heavy-tailed and discrete values at 5, 10 and 50 samples, at 95 to 99.9 %, beside the narrowest known
interval that holds as often; exponents, ratios, squared means, and tables whose rows and columns are both samples.
`python -m benchmarks coverage` prints the tables of docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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


def of_mean(population: Population, n: int, trials: int = TRIALS, seed: int = 0, level: float = LEVEL) -> float:
    """The share of samples of n values whose interval, one must be given, holds the mean."""
    return _means(population, n, trials, seed, level)[0]


def width_of_mean(population: Population, n: int, trials: int = TRIALS) -> float:
    """Median width over that of the narrowest known interval, widened until it holds as many of the same samples.

    Known are Student's t and, for positive samples, t of the logarithm.
    """
    held, samples, widths = _means(population, n, trials, 0, LEVEL)
    mean, error = samples.mean(axis=0), samples.std(axis=0, ddof=1) / math.sqrt(n)
    steps = np.divide(population.mean - mean, error, out=np.full(trials, np.inf), where=error > 0)
    known = [2 * np.quantile(np.abs(steps), held) * np.median(error)]
    if samples.min() > 0:
        relative = error / mean
        steps = np.quantile(np.abs(np.log(population.mean / mean) / relative), held)
        known.append(np.median(mean * (np.exp(steps * relative) - np.exp(-steps * relative))))
    return float(np.median(widths) / np.min(known))


def _means(
    population: Population, n: int, trials: int, seed: int, level: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Which share of the intervals holds the mean, their samples (n, trials), and their widths."""
    from equitangents.statistics import bootstrap_intervals

    samples = np.asarray(population.draw(np.random.default_rng([n, seed]), (n, trials)), np.float64)
    found = bootstrap_intervals(samples, confidence=level, resamples=RESAMPLES, bounds=population.bounds, seed=seed)
    _, low, high = found
    return float(np.mean((low <= population.mean) & (population.mean <= high))), samples, high - low


@dataclass(frozen=True)
class Sampled:
    """Tables whose rows and columns are both samples: how one is drawn, its true mean, and its bounds."""

    name: str
    draw: Callable[[np.random.Generator, int, int], np.ndarray]
    mean: float
    bounds: tuple[float, float] | None = None


def _effects(row: float, column: float, residual: float) -> Callable[[np.random.Generator, int, int], np.ndarray]:
    normal = lambda rng, shape, size: size * rng.normal(size=shape)
    return lambda rng, E, n: normal(rng, (E, 1), row) + normal(rng, (1, n), column) + normal(rng, (E, n), residual)


def _answers(rng: np.random.Generator, E: int, n: int) -> np.ndarray:
    """Right in 80 % of the cells, by how hard the column's input is and how good the row's network."""
    ease = 0.8416212 * math.sqrt(2.04) + rng.normal(size=(1, n)) + 0.2 * rng.normal(size=(E, 1))
    return (rng.normal(size=(E, n)) < ease).astype(float)


SAMPLED = (
    Sampled("residuals alone", _effects(0, 0, 1), 0.0),
    Sampled("rows differ", _effects(1, 0, 0.1), 0.0),
    Sampled("columns differ", _effects(0, 1, 0.1), 0.0),
    Sampled("both differ", _effects(1, 1, 1), 0.0),
    Sampled("lognormal", lambda *of: np.exp(_effects(0.4, 0.8, 0.3)(*of)), math.exp(0.445), (0, math.inf)),
    Sampled("right or wrong, 80 %", _answers, 0.8, (0, 1)),
    Sampled("8, and 1 in 0.05 % of the cells", lambda rng, E, n: 8 - 7.0 * (rng.random((E, n)) < 5e-4), 7.9965, (1, 8)),
)
SHAPES = ((5, 50), (10, 50), (10, 200), (50, 50), (5, 1000))


def of_table(sampled: Sampled, shape: tuple[int, int], trials: int = TRIALS // 4, level: float = LEVEL) -> float:
    """The share of tables whose interval, one must be given, holds the mean."""
    from equitangents.statistics.bootstrap import resample
    from equitangents.statistics.two_way import table_interval

    rng = np.random.default_rng(shape)
    rows, columns = (resample(count, RESAMPLES, seed) for seed, count in enumerate(shape))
    found = (table_interval(sampled.draw(rng, *shape), rows, columns, level, sampled.bounds) for _ in range(trials))
    return _share(found, sampled.mean, trials)


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
    from equitangents.metrics.measure import Bootstrap

    rng = np.random.default_rng(inputs)
    found = []
    resampler = Resampler(inputs, elements, Bootstrap(LEVEL, RESAMPLES))
    for _ in range(trials):
        table = rng.lognormal(sigma=0.8, size=(1, inputs))
        if elements is not None:
            table = table * rng.lognormal(sigma=0.4, size=(elements, 1)) * rng.lognormal(0, 0.3, (elements, inputs))
        found.append(resampler.mean(table if elements is not None else table[0]))
    truth = math.exp(0.32) if elements is None else math.exp(0.32 + 0.08 + 0.045)
    return _share(((e.low, e.high) for e in found), truth, trials)


def _share(intervals: Iterable[tuple[float, float]], truth: float, trials: int) -> float:
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


def table(
    first: str,
    rows: Sequence[tuple[str, Callable[[Any], float]]],
    columns: Sequence[Any] = SIZES,
    header: Callable[[Any], str] = "{} samples".format,
    cell: Callable[[float], str] = lambda share: f"{100 * share:.1f} %",
) -> Iterator[str]:
    """A number for every row and column, line by line as they are found."""
    yield f"| {first} | " + " | ".join(map(header, columns)) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, of in rows:
        yield f"| {name} | " + " | ".join(cell(of(column)) for column in columns) + " |"


def main(full: bool = False) -> None:
    """Print all tables; `--full` takes four times as many samples."""
    trials = TRIALS * (4 if full else 1)
    few = trials // 4
    each = lambda of, items: [(item.name, partial(of, item)) for item in items]
    means = each(lambda p, n: of_mean(p, n, trials), POPULATIONS)
    widths = each(lambda p, n: width_of_mean(p, n, trials), [p for p in POPULATIONS if p.bounds is None])
    tables = each(lambda s, shape: of_table(s, shape, few), SAMPLED)
    high = each(lambda p, at: of_mean(p, at[0], trials, level=at[1]), POPULATIONS[:12])
    levels = [(n, level) for level in (0.99, 0.999) for n in SIZES]
    for count, lines in (
        (trials, table("95 % interval, mean of", means)),
        (trials, table("interval, mean of", high, levels, lambda at: f"{100 * at[1]:g} %, {at[0]} samples")),
        (trials, table("width, mean of", widths, cell="{:.2f}".format)),
        (few, table("95 % interval, other", others(few))),
        (few, table("95 % interval, table of", tables, SHAPES, lambda shape: "{} × {}".format(*shape))),
    ):
        for line in lines:
            print(line, flush=True)
        print(f"of {count:,} samples each; standard error at 95 %: {100 * math.sqrt(0.95 * 0.05 / count):.2f} %\n")


if __name__ == "__main__":
    main()
