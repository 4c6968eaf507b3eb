"""Which parts a violation has, architecture by architecture, as claims and as figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.stats

from equitangents.report import palette
from equitangents.statistics import (
    Estimate,
    bootstrap,
    exactly,
    excess_exponent,
    no_interval,
    power_law,
    shared_level,
    surviving_share,
)
from equitangents_studies.common.infinite import squares_of_means
from equitangents_studies.finite_width.study import (
    ARCHITECTURES,
    KINDS,
    NOUNS,
    PRESETS,
    TITLES,
    Cell,
    Results,
    Settings,
    check_settings,
    measure,
    width_name,
)
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import EXACT, Claim, Records, after, claim, identity, ours, proved
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE

OPEN = "open question of arXiv 2403.03103"
EXACT_AT_ANY_WIDTH = "arXiv 2410.01452; the bound is our choice"
_ORDER = (-1.25, -0.75)  # around the exponent −1 of theory
_ROUNDING = 1e-5  # single precision
_EXPONENTS = np.linspace(-3.0, -0.25, 551)  # that are tried; at 0 the second power would be the first of theory


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The six claims about the violation of every architecture; group-convolutional networks have none."""
    of_ensembles = [one for name in ARCHITECTURES for one in architecture_claims(settings, results, name)]
    return [*of_ensembles, group_claim(settings, results)]


def members_exponent(
    settings: Settings, architecture: str, cell: Cell, width: int, time: int, level: float = 0.95
) -> Estimate:
    """The exponent of the root mean square change against M, complete augmentation."""
    sizes = settings.sizes_of(architecture)
    return power_law(
        np.array(sizes), squares_of_means(cell.changes_of("complete", width, time), sizes), confidence=level
    )


def width_exponent(settings: Settings, architecture: str, cell: Cell, time: int, level: float = 0.95) -> Estimate:
    """The exponent of A(n)/A(∞) − 1 against n, complete augmentation."""
    widths = settings.widths_of(architecture)
    return excess_exponent(np.array(widths), [excess(cell, width, time) for width in widths], confidence=level)


def leading_exponent(widths: np.ndarray, means: np.ndarray, errors: np.ndarray, level: float = 0.95) -> Estimate:
    """The exponent a of means = c n^a + c' n^(a−1), given the means' standard errors.

    By weighted least squares; the interval holds the a at which χ² is above its least value by less than the quantile
    of one degree of freedom. Not a number where that is so of all a that are tried.
    """

    def misfit(a: float) -> float:
        powers = np.stack([widths**a, widths ** (a - 1)], axis=1) / errors[:, None]
        powers /= np.linalg.norm(powers, axis=0)
        factors = np.linalg.lstsq(powers, means / errors)[0]
        return float(((powers @ factors - means / errors) ** 2).sum())

    found = np.array([misfit(a) for a in _EXPONENTS])
    within = _EXPONENTS[found <= found.min() + scipy.stats.chi2.ppf(level, 1)]
    if within[0] == _EXPONENTS[0] or within[-1] == _EXPONENTS[-1]:
        return no_interval(np.nan, level)
    return Estimate(float(_EXPONENTS[found.argmin()]), float(within[0]), float(within[-1]), level)


def excess(cell: Cell, width: int, time: int) -> np.ndarray:
    """A(n)/A(∞) − 1, one sample a member."""
    return cell.fluctuations("complete", width, time) / cell.fluctuation["complete"][time] - 1


def group_claim(settings: Settings, results: Results) -> Claim:
    """Exact at any width."""
    largest = Records.over(
        lambda task, width, t: exactly(float(np.abs(results.group[task][width][t]).max())),
        lambda task, width, t: f"{results.titles[task]}, {width_name('gcnn', width)}, {after(int(results.steps[t]))}",
        task=tuple(results.group),
        width=settings.widths_of("gcnn"),
        t=range(len(results.steps)),
    )
    return claim(
        "Group-convolutional networks are invariant at every width, to rounding, without turned copies and without "
        "averaging",
        largest,
        measure="Largest change of a prediction when its input is turned, of any network and any test input, in units "
        "of the targets’ size.",
        covers=EXACT,
        at_most=_ROUNDING,
        by=identity("construction: lifting, convolutions on the group and the mean over it", stated="0"),
    )


def _words(results: Results, architecture: str) -> Callable[[str, int, int], str]:
    return lambda task, width, t: (
        f"{results.titles[task]}, {width_name(architecture, width)}, {after(int(results.steps[t]))}"
    )


def surviving(settings: Settings, results: Results, architecture: str) -> Records:
    """What averaging over ever more members leaves of the mean square change, in percent, everywhere."""
    cells = results.of(architecture)
    everywhere = {"task": tuple(cells), "width": settings.widths_of(architecture), "t": range(len(results.steps))}
    level = shared_level(math.prod(map(len, everywhere.values())))
    share = lambda task, width, t: surviving_share(cells[task].changes_of("complete", width, t), confidence=level)
    return Records.over(
        lambda task, width, t: share(task, width, t).times(100), _words(results, architecture), **everywhere
    )


def architecture_claims(settings: Settings, results: Results, architecture: str) -> list[Claim]:
    """No bias after complete augmentation, exponents in members and width, and the parts that theory gives."""
    cells, nouns = results.of(architecture), NOUNS[architecture]
    tasks, times = tuple(cells), range(len(results.steps))
    widths = settings.widths_of(architecture)
    wide, middle = widths[-1], len(results.steps) // 2
    one, at_width = shared_level(len(tasks) * len(widths) * len(times)), width_name(architecture, wide)
    when = lambda t: after(int(results.steps[t]))
    words = _words(results, architecture)
    sizes, members = settings.sizes_of(architecture), settings.members_of(architecture)
    chosen = [m for m in sizes if members // m >= 32] or [min(sizes)]
    everywhere = {"task": tasks, "width": widths, "t": times}

    def total(task: str, kind: str, t: int, m: int) -> Estimate:
        cell = cells[task]
        squares = squares_of_means(cell.changes_of(kind, wide, t), tuple(chosen))[:, chosen.index(m)]
        expected = cell.fluctuation[kind][t] / m + cell.bias[kind][t]
        return bootstrap(squares, confidence=shared_level(len(tasks) * len(KINDS) * len(times) * len(chosen))).times(
            1 / expected
        )

    exponent = lambda task, width, t: members_exponent(settings, architecture, cells[task], width, t, one)
    fall = lambda task: width_exponent(settings, architecture, cells[task], middle, shared_level(len(tasks)))

    def leading(task: str) -> Estimate:
        seen = [excess(cells[task], width, middle) for width in widths]
        means, errors = (np.array([of(s) for s in seen]) for of in (np.mean, scipy.stats.sem))
        return leading_exponent(np.array(widths, float), means, errors, shared_level(len(tasks)))

    left = _remaining(results, cells, wide, when)
    totals = Records.over(
        total,
        lambda task, kind, t, m: f"{results.titles[task]}, {TITLES[kind]}, M = {m}, {when(t)}",
        task=tasks,
        kind=KINDS,
        t=times,
        m=chosen,
    )
    return [
        claim(
            f"After complete augmentation at most 3 % of the mean square change of {nouns} survives averaging, at "
            "every width",
            surviving(settings, results, architecture),
            measure="Share of the members’ mean square change that averaging over ever more members would leave "
            "(unbiased, so it may come out negative).",
            covers="members",
            at_most=3,
            unit="%",
            by=proved(EXACT_AT_ANY_WIDTH, "arXiv 2410.01452, main theorem", "0"),
        ),
        claim(
            f"The violation of {nouns} falls as one over the square root of the number of members, at every width",
            Records.over(exponent, words, **everywhere),
            measure="Exponent of the root mean square change of M members against M, complete augmentation.",
            covers="disjoint batches of members",
            at_least=-0.6,
            at_most=-0.4,
            by=ours("theory of independent members; the bounds are our choice", stated="−1/2"),
        ),
        claim(
            f"Finite width’s effect on the violation of {nouns} falls as the inverse of the width",
            Records.over(fall, lambda task: f"{results.titles[task]}, {when(middle)}", task=tasks),
            measure=f"Exponent of A(n)/A(∞) − 1 against width n {when(middle)}, complete augmentation; not a number "
            "where A(n) cannot be told from A(∞) at some width.",
            covers="members",
            at_least=_ORDER[0],
            at_most=_ORDER[1],
            by=ours(f"{OPEN}; theory of very wide networks has −1; the bounds are our choice", stated="−1"),
        ),
        claim(
            f"Of {nouns} at {at_width} incomplete augmentation leaves what the closed form says, to within a factor of "
            "1.25",
            left,
            measure="B(n)/B(∞): mean square change of the mean of infinitely many members over the closed form’s, half "
            "turns alone.",
            covers="members",
            at_least=0.8,
            at_most=1.25,
            by=ours(OPEN + "; the bounds are our choice"),
        ),
        claim(
            f"Of M {nouns} at {at_width} the mean square violation is A(∞)/M + B(∞), to within a third",
            totals,
            measure="Mean square change of means of M members over that of the closed form.",
            covers="disjoint batches of members",
            at_least=0.75,
            at_most=1.33,
            by=ours(OPEN + "; the bounds are our choice"),
        ),
        order_claim({f"{results.titles[task]}, {when(middle)}": leading(task) for task in tasks}, nouns, when(middle)),
    ]


def order_claim(fits: Mapping[str, Estimate], nouns: str, when: str) -> Claim:
    """Whether the leading order of theory is seen once the next is taken out."""
    return claim(
        f"Once the next order is taken out, finite width’s effect on the violation of {nouns} falls as the inverse of "
        "the width",
        fits,
        measure=f"Exponent a of A(n)/A(∞) − 1 = c nᵃ + c′ nᵃ⁻¹ {when}, complete augmentation.",
        covers="members",
        at_least=_ORDER[0],
        at_most=_ORDER[1],
        by=ours(f"{OPEN}; theory of very wide networks has orders −1, −2, …; the bounds are our choice", stated="−1"),
    )


def _remaining(results: Results, cells: dict[str, Cell], wide: int, when: Callable[[int], str]) -> Records:
    """B(n)/B(∞) of half turns alone, where B(∞) is large enough to be seen beside A(∞)."""
    times, at = range(len(results.steps)), "partial"
    pairs = [
        (task, t) for task, cell in cells.items() for t in times if cell.bias[at][t] > cell.fluctuation[at][t] / 10
    ] or [(task, t) for task in cells for t in times]
    level = shared_level(len(cells) * len(times))
    over = lambda pair: _over(cells[pair[0]].bias_of(at, wide, pair[1], level), cells[pair[0]].bias[at][pair[1]])
    return Records.over(over, lambda pair: f"{results.titles[pair[0]]}, {when(pair[1])}", pair=pairs)


def _over(estimate: Estimate, scale: float) -> Estimate:
    return estimate.times(1 / scale) if scale > 0 else no_interval(np.nan, estimate.confidence)


def single_changes(results: Results, architecture: str, task: str, width: int, time: int) -> Estimate:
    """Root mean square change of one network, with an interval over networks."""
    if architecture == "gcnn":
        changes = results.group[task][width][time].astype(np.float64)
    else:
        changes = results.cells[architecture, task].changes_of("complete", width, time)
    return bootstrap((changes**2).mean(axis=1)[:, None], lambda means: np.sqrt(means[:, 0]))


_COLOURS = {"mlp": palette.BLUE, "cnn": palette.ORANGE, "gcnn": palette.GREEN}


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Single networks of every architecture."""
    last = len(results.steps) - 1
    with drawing.panels(
        folder,
        "architectures",
        titles=list(results.titles.values()),
        xlabel="width, or channels",
        ylabel="change of one network",
        sharey=True,
        caption=(
            "Single networks, before any averaging: root mean square change of their predictions under "
            "turns, after the last step, with 95 % intervals over networks. MLPs and CNNs train on all "
            "four turns; group-convolutional networks train on none, and change by rounding alone."
        ),
        alt="Violation of single networks against width, by architecture",
    ) as drawn:
        for axes, task in zip(drawn, results.titles, strict=True):
            for name in NOUNS:
                widths = settings.widths_of(name)
                values = [single_changes(results, name, task, width, last) for width in widths]
                drawing.estimates(axes, widths, values, _COLOURS[name].light, label=NOUNS[name])
            drawing.logarithmic(axes, "both", sorted({*settings.widths, *settings.group_channels}), base=2)
    return [drawn.figure]


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
