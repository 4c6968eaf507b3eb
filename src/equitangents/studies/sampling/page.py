"""How the sampling study is shown: violation against the budget and over time, and the distance from completeness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from equitangents.report import Figure, Section, Verdict, figures
from equitangents.report.palette import BLUE, GREEN, MUTED, ORANGE, PURPLE, VERMILLION
from equitangents.statistics import Estimate, bootstrap, exactly
from equitangents.studies.common.sampled_groups import STRATEGIES
from equitangents.studies.framework import drawing
from equitangents.studies.framework.compatibility import Presentation, say
from equitangents.studies.framework.folder import Columns, RunFolder
from equitangents.studies.framework.tables import columns
from equitangents.studies.sampling.study import SETS, Results, Settings

_COLOURS = dict(zip(STRATEGIES, (GREEN, MUTED, ORANGE, BLUE, PURPLE, VERMILLION), strict=True))


def present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables = {"choices": choices_table(settings, results)}
    sections = [
        Section(
            "The budget",
            [
                f"Training shows b of {settings.order} rotations of every image to an infinitely wide network, on "
                "rings, where rotations are exact. Shown is how much its mean prediction changes over the whole orbit "
                "of a test image. The subgroup takes evenly spaced elements, and what it leaves out are the high "
                "angular frequencies, to which the kernel is almost blind: with enough elements it beats chance by a "
                "wide margin, with few it does not. Neighbouring elements cover part of the circle and do worst.",
                "Importance sampling draws the rotations that move an image far more often, and weights the others up "
                "so that the expected loss is that of complete augmentation.",
            ],
            [_against_budget(settings, results, folder)],
        ),
        Section(
            "Training time",
            [
                "Early in training the mean is linear in the sample, so that sampled elements give an unbiased "
                "estimate of the complete ensemble, with an error of one over the square root of the budget. Later it "
                "is not, and the violation grows: directions in which the orbit average says nothing are fitted too."
            ],
            [_over_time(settings, results, folder)],
        ),
    ]
    facts = {
        "Group": f"C{settings.order} on rings of {settings.rings}×{settings.samples} samples",
        "Data": f"{settings.train_images} digits; tested on {settings.test_images} digits and as much noise",
        "Draws": f"{settings.draws} of each random choice",
        "Seed": str(settings.seed),
    }
    return Presentation(_summary(settings, verdicts), tables, sections, facts)


def _summary(settings: Settings, verdicts: Sequence[Verdict]) -> str:
    parts = [
        say(
            verdicts[1],
            holds="Random elements of each input’s own beat as many shared ones",
            fails="Random elements of each input’s own do not always beat as many shared ones",
            undecided="Whether random elements of each input’s own always beat as many shared ones is not decided",
        ),
        say(
            verdicts[2],
            holds=f"a subgroup of order {settings.budgets[-1]} beats as many random elements",
            fails=f"a subgroup of order {settings.budgets[-1]} does not beat as many random elements at all times",
            undecided=f"whether a subgroup of order {settings.budgets[-1]} beats random elements is not decided",
        ),
        say(
            verdicts[3],
            holds="importance sampling by distance helps.",
            fails="importance sampling by distance does not help.",
            undecided="whether importance sampling by distance helps is not decided.",
        ),
    ]
    return "; ".join(parts)


def choices_table(settings: Settings, results: Results) -> Columns:
    """Violation and distance from the complete ensemble for every choice."""
    rows: list[tuple[object, ...]] = []
    for t, time in enumerate(results.times):
        for s, name in enumerate(SETS):
            rows.append(("complete", settings.order, 0, time, name, results.complete[t, s], 0.0))
            for strategy in STRATEGIES:
                violation, distance = results.violation[strategy], results.distance[strategy]
                for j, budget in enumerate(settings.budgets):
                    for d in range(violation.shape[1]):
                        rows.append((strategy, budget, d, time, name, violation[j, d, t, s], distance[j, d, t, s]))
    return columns(("elements", "budget", "draw", "time", "inputs", "violation", "distance_from_complete"), rows)


def _lines(axes: Axes, x: Sequence[float] | np.ndarray, table: dict[str, np.ndarray], choose: Any, s: int) -> None:
    """One line a strategy: geometric means over draws; `choose` indexes (budgets, times)."""
    for k, (strategy, values) in enumerate(table.items()):
        rows = values[..., s].transpose(0, 2, 1)[choose]
        shift = 1 + 0.012 * (k - 2.5) if axes.get_xscale() == "log" else 1
        drawing.estimates(
            axes, np.asarray(x) * shift, [_average(row) for row in rows], _COLOURS[strategy].light, ms=3.5,
            label=STRATEGIES[strategy].split(",")[0],
        )  # fmt: skip


def _average(values: np.ndarray) -> Estimate:
    if len(values) == 1:
        return exactly(values[0])
    return bootstrap(np.log(values), lambda m: np.exp(m))


def _against_budget(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    early, late = 0, len(results.times) - 1
    with figures.canvas(8.6, 3.9) as canvas:
        panels = canvas.subplots(1, 2, sharey=True)
        for axes, t in zip(panels, (early, late), strict=True):
            drawing.logarithmic(axes, "both", settings.budgets, base=2, fine=True)
            _lines(axes, settings.budgets, results.violation, np.s_[:, t], 0)
            axes.set_title(drawing.name_of(results.times[t]).capitalize())
            axes.set_xlabel(f"elements of each input, out of {settings.order}")
        panels[0].set_ylabel("relative change over orbits")
        panels[0].legend(loc="lower left")
        svg = figures.save(canvas, folder.figures, "violation-against-budget")
    caption = (
        "Root mean square change of the closed-form mean over the whole group, relative to its size, on test images, "
        "early in training and at its end. Geometric means over draws with 95 % intervals. Complete augmentation has "
        f"{results.complete.max():.0e} at most."
    )
    return Figure("violation-against-budget", caption, svg, alt="Violation against the number of elements")


def _over_time(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    middle = len(settings.budgets) // 2
    with figures.canvas(8.6, 3.4) as canvas:
        left, right = canvas.subplots(1, 2)
        _lines(left, drawing.places(results.times), results.violation, np.s_[middle, :], 0)
        drawing.logarithmic(left, "y", fine=True)
        drawing.time_ticks(left, results.times)
        left.set_title(f"{settings.budgets[middle]} of {settings.order} elements")
        left.set_ylabel("relative change over orbits")
        drawing.logarithmic(right, "both", settings.budgets, base=2, fine=True)
        _lines(right, settings.budgets, results.distance, np.s_[:, 0], 0)
        start = results.distance["uniform"][0, :, 0, 0].mean()
        budgets = np.array(settings.budgets, dtype=float)
        right.plot(budgets, start * (budgets / budgets[0]) ** -0.5, color=MUTED.light, lw=0.9, ls=(0, (2, 2)))
        right.set_title(drawing.name_of(results.times[0]).capitalize())
        right.set_xlabel("elements of each input")
        right.set_ylabel("distance from the complete ensemble")
        svg = figures.save(canvas, folder.figures, "violation-over-time")
    caption = (
        "Left: the same over training time. Right: relative root mean square distance of the mean from that of "
        "complete augmentation, early in training; dotted: one over the square root of the budget. Colours as above."
    )
    return Figure("violation-over-time", caption, svg, alt="Violation over training time, distance against budget")
