"""How the samples that a group saves grow with its order, what a wrong group costs, and whether kernels tell both.

Targets of random signals are invariant under shifts by C_n and nothing else. The kernel of an infinitely wide MLP, the
one that C_n leaves invariant, and the one of a wrong group (the same shifts of scrambled positions) learn from the same
nested training sets. The factor f(n) is how many times the samples of the invariant kernel the plain one needs for the
same error; difficulty that grows with n enters both, and leaves it. With f(n) = n^β theory has β = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.kernels import orbit_average
from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, exactly, shared_level, t_interval
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.scores import exp_of
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Claim, Records, claim, ours, table, theirs, to_rounding
from equitangents_studies.framework.measured import Keyed, Measured, Part, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets
from equitangents_studies.framework.works import EXCHANGE_RATE as THEIRS
from equitangents_studies.framework.works import OMNISCIENT_RISK
from equitangents_studies.systems import exchange_rate

KINDS = ("plain", "right", "wrong")
PLAIN, RIGHT, WRONG = KINDS
SLOPES, CLOSE = (0.75, 1.25), 1.25
_FEW, _TIME = 20, 50.0  # samples of the check of augmentation, and its training time


@dataclass(frozen=True)
class Settings:
    """`samples` signals on a ring of `points`, a fifth of them to test on; an MLP of `hidden_layers` learns them at
    `sizes`, `repetitions` times, for every one of `orders` n, which divide `points`. `ridge`: relative.
    """

    points: int = 8
    orders: tuple[int, ...] = (2, 4, 8)
    samples: int = 300
    sizes: tuple[int, ...] = (8, 16, 32, 64, 128, 240)
    repetitions: int = 10
    hidden_layers: int = 1
    ridge: float = 1e-3
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="points=16 orders=2,4,8,16 samples=600 sizes=8,16,32,64,128,256,480 repetitions=20",
    paper="points=32 orders=2,4,8,16,32 samples=4000 sizes=8,16,32,64,128,256,512,1024,2048,3200 repetitions=50",
)


class Results(Measured):
    """Squared errors of every kernel and what is predicted of them; factors of samples, value and 95 % ends; how far
    training on all shifted copies is from the invariant kernel, relative.
    """

    errors: Keyed[np.ndarray] = by("order kind", "size repetition", of="squared-{kind}")
    predicted: Keyed[np.ndarray] = by("order kind", "size", of="predicted-{kind}")
    factors: Keyed[np.ndarray] = by("order", "end", of="factor")
    foretold: Keyed[np.ndarray] = by("order", "end", of="foretold")
    augmented: Keyed[float] = by("order", of="augmented")

    def factor(self, order: int) -> Estimate:
        """Samples that the plain kernel needs over those of the invariant one, over training sets."""
        return Estimate(*map(float, self.factors[order]))

    def expected(self, order: int) -> Estimate:
        """What kernels and targets of the signals say of the factor without training, over signals."""
        return Estimate(*map(float, self.foretold[order]))

    def cost(self, order: int, level: float = 0.95) -> Estimate:
        """Error with the wrong group over the plain kernel's, at the most samples: geometric mean over repetitions."""
        logs = np.log(self.errors[order, WRONG][-1]) - np.log(self.errors[order, PLAIN][-1])
        return exp_of(t_interval(logs, confidence=level))

    def expected_cost(self, order: int) -> float:
        """That ratio of predicted errors."""
        return float(self.predicted[order, WRONG][-1] / self.predicted[order, PLAIN][-1])


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Orders that divide the points, sizes that the samples suffice for."""
    at_least(settings, points=2, samples=40, repetitions=5, hidden_layers=1)
    check(settings.ridge > 0, "ridge", settings.ridge, "positive, since few targets are invariant")
    orders = settings.orders
    divide = len(set(orders)) == len(orders) >= 2 and all(n > 1 and settings.points % n == 0 for n in orders)
    check(divide, "orders", orders, f"two or more different divisors of {settings.points}, above 1")
    most, sizes = settings.samples - round(0.2 * settings.samples), settings.sizes
    check(list(sizes) == sorted(set(sizes)) and len(sizes) >= 2, "sizes", sizes, "two or more, increasing")
    check(sizes[-1] <= most, "sizes", sizes, f"at most {most}, four fifths of the samples")


def shifts(points: int, order: int) -> actions.Action:
    """C_n on signals (N, points, 1): element g shifts by g · points / n."""
    by_element = points // order * np.arange(order)[:, None]
    return actions.permutations(groups.cyclic(order), (np.arange(points) + by_element) % points)


def signals(settings: Settings, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian signals (samples, points, 1), and the sum of a random quadratic function over shifts of each, of mean 0
    and variance 1.
    """
    n, action = settings.points, shifts(settings.points, order)
    rng = np.random.default_rng([settings.seed, order])
    x = rng.normal(size=(settings.samples, n, 1))
    slope, curvature = rng.normal(size=n) / math.sqrt(n), rng.normal(size=(n, n)) / n
    moved = np.asarray(action.orbit(x), np.float64)[..., 0]
    y = (moved @ slope + np.einsum("gni,ij,gnj->gn", moved, curvature, moved)).sum(axis=0)
    return x, (y - y.mean()) / y.std()


def network(settings: Settings) -> nn.Sequential:
    """The MLP."""
    return mlp(8, settings.hidden_layers, flatten=True, output_std=1)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Every order is a stage."""
    part = Part("order-{order}", "C{order}", partial(_of_order, settings))
    levels = {"order": settings.orders, "kind": KINDS, "size": settings.sizes}
    return Results.read(measured(folder, part, levels=levels))


def _of_order(settings: Settings, order: int, task: Task) -> Arrays:
    s, (x, y) = settings, signals(settings, order)
    net, action = network(s), shifts(s.points, order)
    found = exchange_rate(
        net, action, x, y, sizes=s.sizes, repetitions=s.repetitions, ridge=s.ridge, seed=s.seed, predict="inputs",
        progress=task.step,
    )  # fmt: skip
    numbers = lambda e: np.array([e.value, e.low, e.high])
    arrays: Arrays = {
        "factor": numbers(found.right.measured),
        "foretold": numbers(found.right.predicted),
        "augmented": np.array(_augmented(net, action, x, y)),
    }
    for kind in KINDS:
        arrays[f"squared-{kind}"] = found.curves[kind].of("squared")
        arrays[f"predicted-{kind}"] = np.asarray(found.curves[kind].predicted)
    return arrays


def _augmented(net: nn.Sequential, action: actions.Action, x: np.ndarray, y: np.ndarray) -> float:
    """Largest difference, over the largest prediction, of training on all copies and the invariant kernel."""
    new, x, y = x[_FEW : 2 * _FEW], x[:_FEW], y[:_FEW]
    copies = np.asarray(action.orbit(x), np.float64)
    plain = InfiniteEnsemble(net, time=_TIME).fit(copies.reshape(-1, *x.shape[1:]), np.tile(y, len(copies)))
    invariant = InfiniteEnsemble(orbit_average(net, action), time=_TIME).fit(x, y).predict(new)
    return largest_difference(plain.predict(new), invariant)


def growth(factors: Mapping[int, Estimate]) -> Estimate:
    """β of f(n) = n^β by least squares on logarithms; f(1) is 1. Data of all orders are independent.

    Not a number where a factor is not, or has no interval.
    """
    lever = np.log([*factors])
    lever = lever / (lever @ lever)
    value, low, high = np.log([[e.value, *e.interval] for e in factors.values()]).T
    width = float(np.sqrt(((lever * (high - low) / 2) ** 2).sum()))
    slope = float(lever @ value) if math.isfinite(width) else math.nan
    return Estimate(slope, slope - width, slope + width)


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's three findings, and whether the kernels tell them."""
    orders = settings.orders
    level = shared_level(len(orders))
    over = ("training sets from the same signals", settings.repetitions)
    name = lambda order: f"C{order}"
    costs = {name(n): results.cost(n, level) for n in orders}
    told = {f"{name(n)}, right": results.expected(n).over(results.factor(n)) for n in orders}
    told |= {f"{name(n)}, wrong": exactly(results.expected_cost(n)).over(results.cost(n)) for n in orders}
    return [
        claim(
            "The samples that a group saves grow nearly in proportion to its order",
            {"all orders": growth({n: results.factor(n) for n in orders})},
            measure="Exponent against the order of the samples that the plain kernel needs over those of the invariant "
            "one, for the same squared errors.",
            covers=over,
            at_least=SLOPES[0],
            at_most=SLOPES[1],
            by=theirs(f"{THEIRS}; the bounds are our choice", "third finding", "1.28 (0.92 to 2.05); theory 1"),
        ),
        claim(
            "A wrong group of the same order is worse than none",
            costs,
            measure=f"Squared error with the wrong group over the plain kernel’s, from {settings.sizes[-1]} samples.",
            covers=over,
            at_least=1,
            by=theirs(THEIRS, "first finding", "worse than none"),
        ),
        to_rounding(
            "Training on all copies, with outputs averaged over orbits, is training of the invariant kernel",
            Records.over(lambda order: exactly(results.augmented[order]), name, order=orders),
            measure="Largest difference of predictions over the largest one. The mean of infinitely wide networks that "
            "are trained on all copies is invariant already.",
            by=theirs(f"{THEIRS}, of networks", "second finding", "identical"),
        ),
        claim(
            f"Kernels and targets tell what right and wrong groups are worth to within a factor of {CLOSE:g}",
            told,
            measure="Predicted over measured: the factor of samples of the right group, and how many times as large "
            "the wrong group’s error is. Predictions need no training.",
            covers=over,
            at_least=1 / CLOSE,
            at_most=CLOSE,
            by=ours(f"asked by {THEIRS}; the bound is our choice"),
        ),
    ]


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """The factor against the order of the group, and every factor."""
    return [_growth(settings, results, folder), _rows(settings, results)]


def _growth(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    orders = settings.orders
    with drawing.panels(
        folder,
        "factor-over-order",
        titles=["Samples that the group saves"],
        xlabel="order of the group, n",
        ylabel="factor of samples",
        size=(5.4, 3.6),
        caption="How many times the samples of the invariant kernel the plain one needs, with 95 % intervals over "
        "training sets; line: predicted from kernels and targets; dotted: n.",
        alt="Factor of samples against the order of the group",
    ) as drawn:
        (axes,) = drawn
        blue = palette.BLUE.light
        found = [drawing.drawable(results.factor(n)) for n in orders]
        drawing.estimates(axes, orders, found, blue, fmt="o", label="measured")
        axes.plot(orders, [results.expected(n).value for n in orders], color=blue, lw=1, label="predicted")
        drawing.power(axes, orders, orders[0], 1.0)
        drawing.logarithmic(axes, "both", orders, base=2, fine=True)
    return drawn.figure


def _rows(settings: Settings, results: Results) -> Table:
    rows = [
        [f"C{n}", results.factor(n), results.expected(n), results.cost(n), f"{results.expected_cost(n):.3g}"]
        for n in settings.orders
    ]
    header = ["", "samples saved", "predicted", "error of the wrong group", "predicted"]
    return table(
        "How many times the samples of the invariant kernel the plain one needs; and how many times as large as the "
        "plain kernel’s the wrong group’s error is, from the most samples. In brackets 95 % intervals.",
        header,
        rows,
    )


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (THEIRS, OMNISCIENT_RISK), check_settings)
