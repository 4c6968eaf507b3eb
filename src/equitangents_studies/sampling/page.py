"""How the sampling study is shown: violation against the budget and over time, and the distance from completeness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from equitangents.report import Figure, Section, palette
from equitangents.statistics import Estimate, bootstrap, exactly
from equitangents_studies.common.sampled_groups import RANDOM, STRATEGIES
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, panels
from equitangents_studies.sampling.results import SETS, Results
from equitangents_studies.sampling.settings import Settings
from equitangents_studies.sampling.trained_claims import finding, sentence
from equitangents_studies.sampling.trained_page import trained_facts, trained_section, trained_tables

_COLOURS = dict(
    zip(
        STRATEGIES,
        (palette.GREEN, palette.MUTED, palette.ORANGE, palette.BLUE, palette.PURPLE, palette.VERMILLION),
        strict=True,
    )
)
_NOT_RANDOM = " and ".join(title for name, title in STRATEGIES.items() if name not in RANDOM)


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    sections = [
        Section(
            "The budget",
            [
                f"Training shows b of {settings.order} rotations of every image to an infinitely wide network, on "
                "rings, where rotations are exact. Shown is how much its mean prediction changes over the whole orbit "
                "of a test image. The elements of a subgroup are evenly spaced, neighbouring elements cover part of "
                "the circle, and random ones are drawn once for all inputs or anew for every input, without or with "
                "replacement.",
                "Importance sampling draws the rotations that move an image far more often, and weights the others up "
                "so that the expected loss is that of complete augmentation.",
            ],
            [_against_budget(settings, results, folder)],
        ),
        Section(
            "Training time",
            [
                "To first order in time the mean is linear in the sample, so that sampled elements give an unbiased "
                "estimate of the complete ensemble. Later it is not: directions in which the orbit average says "
                "nothing are fitted too."
            ],
            [_over_time(settings, results, folder)],
        ),
    ]
    facts = {
        "Group": f"C{settings.order} on rings of {settings.rings}×{settings.samples} samples",
        "Data": f"{settings.train_images} digits; tested on {settings.test_images} digits and as much noise",
        "Draws": f"{settings.draws} of each random choice",
    }
    tables = {"choices": choices_table(settings, results)}
    if results.trained is not None:
        tables |= trained_tables(results.trained)
        facts |= trained_facts(results.trained)
        return Presentation(
            tables,
            [trained_section(results.trained, folder), *sections],
            facts,
            finding=finding(results.trained),
            sentence=sentence(results.trained),
        )
    return Presentation(tables, sections, facts)


def choices_table(settings: Settings, results: Results) -> Columns:
    """Violation and distance from the complete ensemble for every choice."""
    rows: list[tuple[object, ...]] = []
    for t, time in enumerate(results.times):
        for s, name in enumerate(SETS):
            rows.append(("complete", settings.order, 0, time, name, results.complete[t, s], 0.0))
            for strategy in STRATEGIES:
                violation, distance = results.violation[strategy], results.distance[strategy]
                rows += [
                    (strategy, budget, d, time, name, violation[j, d, t, s], distance[j, d, t, s])
                    for j, budget in enumerate(settings.budgets)
                    for d in range(violation.shape[1])
                ]
    return columns(("elements", "budget", "draw", "time", "inputs", "violation", "distance_from_complete"), rows)


def _lines(axes: Axes, x: Sequence[float] | np.ndarray, rows: dict[str, np.ndarray]) -> None:
    """One line a strategy: geometric means over draws, `rows[strategy]` (x, draws)."""
    for k, (strategy, values) in enumerate(rows.items()):
        shift = 1 + 0.012 * (k - 2.5) if axes.get_xscale() == "log" else 1
        label = STRATEGIES[strategy].split(",")[0]
        averages = [_average(draws) for draws in values]
        drawing.estimates(axes, np.asarray(x) * shift, averages, _COLOURS[strategy].light, ms=3.5, label=label)


def _average(values: np.ndarray) -> Estimate:
    return exactly(values[0]) if len(values) == 1 else bootstrap(np.log(values), np.exp)


def _against_budget(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    chosen = (0, len(results.times) - 1)
    with panels(
        folder,
        "violation-against-budget",
        titles=[drawing.name_of(results.times[t]).capitalize() for t in chosen],
        xlabel=f"elements of each input, out of {settings.order}",
        ylabel="relative change over orbits",
        size=(8.6, 4.1),
        sharey=True,
        caption="Root mean square change of the closed-form mean over the whole group, relative to its size, on test "
        "images, at the first and the last training time. Geometric means over draws with 95 % intervals over draws; "
        f"{_NOT_RANDOM} are not random and have none. Complete augmentation has {results.complete.max():.0e} at most.",
        alt="Violation against the number of elements",
    ) as drawn:
        for axes, t in zip(drawn, chosen, strict=True):
            drawing.logarithmic(axes, "both", settings.budgets, base=2, fine=True)
            _lines(axes, settings.budgets, {name: v[:, :, t, 0] for name, v in results.violation.items()})
        drawn.legend(columns=3)
    return drawn.figure


def _over_time(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    middle = len(settings.budgets) // 2
    with panels(
        folder,
        "violation-over-time",
        titles=(
            f"{settings.budgets[middle]} of {settings.order} elements",
            drawing.name_of(results.times[0]).capitalize(),
        ),
        ylabel="relative change over orbits",
        size=(8.6, 4.1),
        caption="Left: the same over training time. Right: relative root mean square distance of the mean from that of "
        f"complete augmentation, {drawing.name_of(results.times[0])}.",
        alt="Violation over training time, distance against budget",
    ) as drawn:
        left, right = drawn
        _lines(
            left, drawing.places(results.times), {name: v[middle, :, :, 0].T for name, v in results.violation.items()}
        )
        drawing.logarithmic(left, "y", fine=True)
        drawing.time_ticks(left, results.times)
        drawing.logarithmic(right, "both", settings.budgets, base=2, fine=True)
        _lines(right, settings.budgets, {name: v[:, :, 0, 0] for name, v in results.distance.items()})
        below = 0.8 * results.distance["uniform"][0, :, 0, 0].mean()  # beside the curves, not upon them
        drawing.power(right, settings.budgets, below, -0.5, label="∝ 1/√elements")
        right.set_xlabel("elements of each input")
        right.set_ylabel("distance from the complete ensemble")
        drawn.legend(right, columns=3)
    return drawn.figure
