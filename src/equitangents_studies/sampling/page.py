"""How the sampling study is shown: violation against the budget and over time, and the distance from completeness."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, bootstrap, exactly
from equitangents_studies.common.scores import table_mean
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, Shown, columns, drawing, table
from equitangents_studies.sampling.study import PAIRS, SETS, STRATEGIES, Results, Settings, TrainedEnsembles

_COLOURS = dict(
    zip(
        STRATEGIES,
        (palette.GREEN, palette.MUTED, palette.ORANGE, palette.BLUE, palette.PURPLE, palette.VERMILLION),
        strict=True,
    )
)


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    shown: list[Shown] = [
        _against_budget(settings, results, folder),
        _over_time(settings, results, folder),
    ]
    tables = {"choices": choices_table(settings, results)}
    if results.trained is not None:
        tables |= trained_tables(results.trained)
        shown = [*trained_section(results.trained, folder), *shown]
    return Presentation(tables, shown)


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
    with drawing.panels(
        folder,
        "violation-against-budget",
        titles=[drawing.name_of(results.times[t]).capitalize() for t in chosen],
        xlabel=f"elements of each input, out of {settings.order}",
        ylabel="relative change over orbits",
        size=(8.6, 4.1),
        sharey=True,
        caption=(
            "Root mean square change of the closed-form mean over the whole group, relative to its size, "
            "on test images, at the first and the last training time. Geometric means over draws with 95 "
            "% intervals over draws; choices that are not random have none."
        ),
        alt="Violation against the number of elements",
    ) as drawn:
        for axes, t in zip(drawn, chosen, strict=True):
            drawing.logarithmic(axes, "both", settings.budgets, base=2, fine=True)
            _lines(axes, settings.budgets, {name: v[:, :, t, 0] for name, v in results.violation.items()})
        drawn.legend(columns=3)
    return drawn.figure


def _over_time(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    middle = len(settings.budgets) // 2
    with drawing.panels(
        folder,
        "violation-over-time",
        titles=(
            f"{settings.budgets[middle]} of {settings.order} elements",
            drawing.name_of(results.times[0]).capitalize(),
        ),
        ylabel="relative change over orbits",
        size=(8.6, 4.1),
        caption=(
            "Left: the same over training time. Right: relative root mean square distance of the mean "
            "from that of complete augmentation, at the first time."
        ),
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


_FLOOR = "floor of resampling"
_TRAINED_COLOURS = (palette.BLUE, palette.GREEN, palette.PURPLE, palette.ORANGE)


def trained_tables(found: TrainedEnsembles) -> dict[str, Columns]:
    """Scores by way, repetition and set; and differences with intervals."""
    scores = [
        (way, r, found.images.titles[name], found.steps[way], found.agreement(way, name)[r].mean(),
         found.floor(way, name)[r].mean(), found.of_members(way, name)[r].mean(),
         found.accuracy(way)[r].mean() if name == "test" else "",
         found.floor_accuracy(way)[r].mean() if name == "test" else "")
        for way in found.answers
        for r in range(found.repetitions)
        for name in found.sets
    ]  # fmt: skip
    names = (
        "elements", "repetition", "inputs", "steps", "orbit_same_predictions", "floor", "of_members", "accuracy",
        "accuracy_floor",
    )  # fmt: skip
    differences = []
    for pair in PAIRS:
        estimates = {("accuracy", "test"): found.more_accurate(*pair)}
        estimates |= {("orbit_same_predictions", name): found.steadier(*pair, name) for name in found.sets}
        differences += [(*pair, measure, found.images.titles[name], e) for (measure, name), e in estimates.items()]
    return {
        "trained": columns(names, scores),
        "trained_differences": columns(
            ("systematic", "random", "measure", "inputs", "difference", "low", "high"), differences
        ),
    }


def trained_section(found: TrainedEnsembles, folder: RunFolder) -> list[Figure | Table]:
    """Figure and table."""
    return [_figure(found, folder), _table(found)]


def _figure(found: TrainedEnsembles, folder: RunFolder) -> Figure:
    ways = list(found.answers)
    with drawing.panels(
        folder,
        "systematic-and-random",
        titles=(f"Accuracy, {found.images.titles['test']}, %", f"Orbit same predictions, of {found.order}"),
        size=(8.6, 3.6),
        caption=(
            "Ensembles of CNNs, trained on systematic elements and on random ones for equally many steps,"
            " with 95 % intervals over repetitions. Left: accuracy over all orientations of the test "
            "images. Right: agreement over orbits. Squares: the floor of resampling."
        ),
        alt="Accuracy and agreement of ensembles trained on systematic and on random elements",
    ) as drawn:
        left, right = drawn
        accuracy = lambda way: table_mean(100 * found.accuracy(way), (0.0, 100.0))
        _row(left, [accuracy(way) for way in ways], 0.0, palette.BLUE.light, "ensembles")
        floors = [100 * found.floor_accuracy(way).mean() for way in ways]
        left.plot(range(len(ways)), floors, "s", color=palette.MUTED.light, ms=4, mfc="none", label=_FLOOR)
        for i, name in enumerate(found.sets):
            colour = _TRAINED_COLOURS[i % len(_TRAINED_COLOURS)]
            shift = 0.14 * (i - (len(found.sets) - 1) / 2)
            scores = [_osp(found, way, name) for way in ways]
            _row(right, scores, shift, colour.light, found.images.titles[name])
            floors = [found.floor(way, name).mean() for way in ways]
            right.plot(np.arange(len(ways)) + shift, floors, "s", color=colour.light, ms=4, mfc="none")
        right.plot([], [], "s", color=palette.MUTED.light, ms=4, mfc="none", label=_FLOOR)
        labels = [f"all {found.order}", "random,\nevery visit", f"{found.budget} equally\nspaced",
                  f"{found.budget} random,\neach its own"]  # fmt: skip
        for axes in drawn:
            axes.set_xticks(range(len(ways)), labels, fontsize=8)
            axes.set_xlim(-0.5, len(ways) - 0.5)
        drawn.legend(right)
    return drawn.figure


def _osp(found: TrainedEnsembles, way: str, name: str) -> Estimate:
    return table_mean(found.agreement(way, name), (1.0, float(found.order)))


def _row(axes: Axes, values: list[Estimate], shift: float, colour: str, label: str) -> None:
    drawing.estimates(axes, np.arange(len(values)) + shift, values, colour, fmt="o", label=label)


def _table(found: TrainedEnsembles) -> Table:
    def row(way: str) -> list[object]:
        accuracy = table_mean(100 * found.accuracy(way), (0.0, 100.0))
        return [found.titles[way], f"{found.steps[way]:,}", accuracy] + [_osp(found, way, name) for name in found.sets]

    def floor(way: str) -> list[str]:
        of: Callable[[np.ndarray], str] = lambda scores: f"{scores.mean():.4g}"
        return [f"{found.titles[way]}: {_FLOOR}", "", of(100 * found.floor_accuracy(way))] + [
            of(found.floor(way, name)) for name in found.sets
        ]

    header = ["Shown of every image", "steps", "accuracy, %", *(f"OSP, {found.images.titles[n]}" for n in found.sets)]
    return table(
        f"Accuracy and orbit same predictions (of {found.order}) over all orientations, each with its 95 % interval "
        "and, below, the floor of resampling.",
        header,
        [line for way in found.answers for line in (row(way), floor(way))],
    )
