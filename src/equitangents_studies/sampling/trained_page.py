"""How ensembles trained on systematic and on random elements are shown: side by side, and their differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from equitangents.report import Figure, Section, Table, palette
from equitangents.statistics import Estimate
from equitangents_studies.common.scores import covered, table_mean
from equitangents_studies.framework.page import Columns, RunFolder, columns, drawing, panels, table
from equitangents_studies.sampling.trained_results import PAIRS, TrainedEnsembles

_FLOOR = "floor of resampling"
_COLOURS = (palette.BLUE, palette.GREEN, palette.PURPLE, palette.ORANGE)


def trained_facts(found: TrainedEnsembles) -> dict[str, str]:
    """What was trained on what."""
    images, recipe = found.images, found.recipe
    foreign = ", ".join(images.titles[name] for name in found.sets[1:])
    return {
        "Trained ensembles": f"{recipe.members} CNNs each, {' and '.join(map(str, recipe.channels))} channels, "
        f"{found.repetitions} repetitions",
        "Their data": f"{len(images.train_x):,} images ({images.titles['test']}) under C{found.order}; tested on "
        f"{len(images.test_y):,} others" + (f", and on {foreign}" if foreign else ""),
    }


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


def trained_section(found: TrainedEnsembles, folder: RunFolder) -> Section:
    """Figure and table."""
    steps = sorted(set(found.steps.values()))
    foreign = " and ".join(found.images.titles[name] for name in found.sets[1:])
    unlike = f" Nothing like the foreign images ({foreign}) is in the training data." if foreign else ""
    return Section(
        "Systematic or random, in trained ensembles",
        [
            f"CNNs are trained on images under C{found.order} for {' to '.join(f'{n:,}' for n in steps)} steps in four "
            f"ways: all elements of every image in each epoch; one element, drawn anew at every visit; {found.budget} "
            f"equally spaced elements; and {found.budget} random elements of each image’s own. In a repetition all "
            f"start from the same weights and images.{unlike} The floor of resampling is the score of images that are "
            "turned there and back.",
        ],
        [_figure(found, folder), _table(found)],
    )


def _figure(found: TrainedEnsembles, folder: RunFolder) -> Figure:
    ways = list(found.answers)
    with panels(
        folder,
        "systematic-and-random",
        titles=(f"Accuracy, {found.images.titles['test']}, %", f"Orbit same predictions, of {found.order}"),
        size=(8.6, 3.6),
        caption=f"Ensembles of {found.recipe.members} CNNs, trained on systematic elements and on random ones for "
        f"equally many steps, with 95 % intervals over {covered(found.repetitions, 'repetitions')}. Left: accuracy "
        "over all orientations of the test images. Right: agreement over orbits. Squares: the floor of resampling.",
        alt="Accuracy and agreement of ensembles trained on systematic and on random elements",
    ) as drawn:
        left, right = drawn
        accuracy = lambda way: table_mean(100 * found.accuracy(way), (0.0, 100.0))
        _row(left, [accuracy(way) for way in ways], 0.0, palette.BLUE.light, "ensembles")
        floors = [100 * found.floor_accuracy(way).mean() for way in ways]
        left.plot(range(len(ways)), floors, "s", color=palette.MUTED.light, ms=4, mfc="none", label=_FLOOR)
        for i, name in enumerate(found.sets):
            colour = _COLOURS[i % len(_COLOURS)]
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
