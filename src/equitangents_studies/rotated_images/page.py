"""How the rotated-images study is shown: agreement over training, accuracy, ensemble size, and single images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from equitangents.report import Figure, Table, figures, palette, with_interval
from equitangents.statistics import bootstrap, bootstrap_intervals
from equitangents_studies.common.input_pictures import input_pictures, visible
from equitangents_studies.framework.claims import in_words
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, Shown, columns, drawing, table
from equitangents_studies.rotated_images.study import (
    ORDER,
    ROTATIONS,
    Results,
    Settings,
    ensemble_sizes,
    judged_sets,
    stated_agreement,
    trained,
)


def _expected(settings: Settings, results: Results) -> Table:
    """Trained ensembles of M beside what is expected of them, by set and M."""
    rows = []
    for name in judged_sets(results):
        for m in ensemble_sizes(settings):
            found = trained(settings, results, name, m)
            expected = with_interval(found.expected, (found.low, found.high))
            numbers = (f"{found.scores.mean():.3f}", expected, f"{found.inside:.0%}")
            rows.append([results.images.titles[name], m, len(found.scores), *numbers])
    return table(
        f"Orbit same predictions, of {ORDER}; in brackets the range that holds 95 % of infinitely wide ensembles, and "
        "the share of the trained ones that lie in it.",
        ["inputs", "members", "ensembles", "trained, mean", "expected", "in the range"],
        rows,
    )


_SHOWN_MEMBERS = 6
_SHOWN_IMAGES = 2
_SUBSETS = 20


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    sizes = ensemble_size_table(settings, results)
    tables = {"agreement": agreement_table(results), "accuracy": accuracy_table(results), "ensemble_size": sizes}
    shown: list[Shown] = [
        agreement_figure(settings, results, folder),
        _accuracy_and_size(settings, results, sizes, folder),
        _final_table(settings, results),
        *([_expected(settings, results)] if judged_sets(results) else []),
        input_pictures(folder, ROTATIONS, results.images.sets, results.images.titles),
        _orbits(settings, results, folder),
    ]
    return Presentation(tables, shown)


def _models(results: Results, name: str) -> dict[str, np.ndarray]:
    """Predicted classes (E, |G|, N) by model."""
    members = {f"member {m}": results.members[name][:, m] for m in range(results.members[name].shape[1])}
    infinite = {"infinite width": results.infinite[name]} if results.infinite else {}
    return {**members, "ensemble mean": results.mean[name], **infinite}


def _table(results: Results, names: Sequence[str], which: str, column: str) -> Columns:
    score: Callable[[np.ndarray], np.ndarray] = getattr(results, which)
    rows = []
    for name in names:
        models = _models(results, name)
        scores = np.stack([score(labels) for labels in models.values()], axis=1)  # (E, models, N)
        mean, low, high = bootstrap_intervals(np.moveaxis(scores, -1, 0), resamples=1000, bounds=results.scales[which])
        for m, model in enumerate(models):
            for i, epoch in enumerate(results.epochs):
                rows.append((results.images.titles[name], int(epoch), model, mean[i, m], low[i, m], high[i, m]))
    return columns(("inputs", "epoch", "model", column, "low", "high"), rows)


def agreement_table(results: Results) -> Columns:
    """Orbit same predictions by set, epoch and model, with 95 % intervals over inputs."""
    return _table(results, list(results.images.sets), "agreement", "orbit_same_predictions")


def accuracy_table(results: Results) -> Columns:
    """Accuracy on the test set over all orientations, by epoch and model, with 95 % intervals over inputs."""
    return _table(results, ["test"], "accuracy", "accuracy")


def ensemble_size_table(settings: Settings, results: Results) -> Columns:
    """Orbit same predictions of the mean of M members after the last epoch: mean and range over random subsets."""
    rng = np.random.default_rng(settings.seed)
    sizes, rows = ensemble_sizes(settings), []
    for name in results.images.sets:
        outputs = results.outputs[name]
        for j, m in enumerate(sizes):
            expected = tuple(results.predicted[name][j]) if name in results.predicted else ("", "", "")
            subsets = [rng.choice(len(outputs), m, replace=False) for _ in range(_SUBSETS if m < len(outputs) else 1)]
            scores = [results.agreement(outputs[s].mean(axis=0).argmax(axis=-1)).mean() for s in subsets]
            rows.append((results.images.titles[name], m, np.mean(scores), np.min(scores), np.max(scores), *expected))
    measured = ("inputs", "members", "orbit_same_predictions", "lowest", "highest")
    return columns((*measured, "expected", "expected_low", "expected_high"), rows)


def _through_training(axes: Axes, settings: Settings, results: Results, name: str, which: str) -> None:
    """Members, their mean with its interval over inputs, and infinite width, against the epochs."""
    score: Callable[[np.ndarray], np.ndarray] = getattr(results, which)
    axes.plot(
        results.epochs, score(results.members[name]).mean(axis=-1), color=palette.MEMBER.light, lw=0.8, alpha=0.75
    )
    axes.plot([], [], color=palette.MEMBER.light, label="members")
    means = [bootstrap(score(labels), resamples=1000, bounds=results.scales[which]) for labels in results.mean[name]]
    low, high = [e.low for e in means], [e.high for e in means]
    axes.fill_between(results.epochs, low, high, color=palette.BLUE.light, alpha=0.2, lw=0)
    axes.plot(results.epochs, [e.value for e in means], color=palette.BLUE.light, lw=2.2, label="their mean")
    if results.infinite:
        later = results.epochs > 0  # before training all outputs are 0, and every class is as good as another
        exact = score(results.infinite[name]).mean(axis=-1)[later]
        look: dict[str, Any] = {
            "color": palette.VERMILLION.light,
            "lw": 2.2,
            "clip_on": False,
            "label": "infinite width",
        }
        axes.plot(results.epochs[later], exact, **look)
    axes.set_xlim(0, settings.epochs)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def agreement_figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    """The study's main figure."""
    with drawing.panels(
        folder,
        "agreement-over-training",
        titles=[drawing.heading(results.images.titles[name]) for name in results.images.sets],
        ylabel=f"orbit same predictions, of {ORDER}",
        size=(8.6, 3.4),
        sharey=True,
        caption="Orbit same predictions over training: members, the mean of their outputs (band: 95 % interval over "
        "inputs), and the infinitely wide ensemble in closed form, where it was computed. At initialisation a mean of "
        "wide networks is distributed like one of them, up to scale.",
        alt="Orbit same predictions against epochs",
    ) as drawn:
        for axes, name in zip(drawn, results.images.sets, strict=True):
            _through_training(axes, settings, results, name, "agreement")
            axes.set_ylim(1, ORDER * 1.005)
    return drawn.figure


def _accuracy_and_size(settings: Settings, results: Results, sizes: Columns, folder: RunFolder) -> Figure:
    accuracy = f"Accuracy on {results.images.titles['test']}, all orientations"
    with drawing.panels(
        folder,
        "accuracy-and-size",
        titles=(accuracy, f"Orbit same predictions, of {ORDER}, after epoch {settings.epochs}"),
        size=(8.6, 3.4),
        caption="Left: accuracy over all orientations of the test images (band: 95 % interval over inputs). Right: "
        "agreement of the mean of M members, averaged over random subsets (band: their range); dotted: what GP(μ, Σ/M) "
        "expects of infinitely wide members, where it was computed; thin dashes: perfect agreement.",
        alt="Accuracy over training; agreement against ensemble size",
    ) as drawn:
        left, right = drawn
        _through_training(left, settings, results, "test", "accuracy")
        left.set_ylim(0, 1)
        left.legend(loc="lower right")
        table = {key: np.array(values) for key, values in sizes.items()}
        ends: list[tuple[float, str, str]] = []
        for name, colour in zip(
            results.images.sets, (palette.BLUE, palette.GREEN, palette.PURPLE, palette.ORANGE), strict=False
        ):
            rows = table["inputs"] == results.images.titles[name]
            x, y = table["members"][rows], table["orbit_same_predictions"][rows]
            right.fill_between(x, table["lowest"][rows], table["highest"][rows], color=colour.light, alpha=0.15, lw=0)
            right.plot(x, y, "o-", color=colour.light)
            if name in results.predicted:
                right.plot(x, results.predicted[name][:, 0], color=colour.light, lw=1.2, ls=(0, (2, 2)))
            ends.append((float(y[-1]), results.images.titles[name], colour.light))
        right.set_xlim(0.9, settings.members * 1.04)
        right.axhline(ORDER, color=palette.INK.light, lw=0.8, ls=(0, (3, 3)))
        drawing.logarithmic(right, "x", np.unique(table["members"]), base=2)
        right.set_xlabel("members averaged, M")
        figures.label_ends(right, settings.members, ends)
    return drawn.figure


def _final_table(settings: Settings, results: Results) -> Table:
    header = ["After the last epoch", "best member", "members’ mean score", "ensemble", "infinite width"]

    def row(title: str, name: str, which: str, digits: int) -> list[str]:
        score: Callable[[np.ndarray], np.ndarray] = getattr(results, which)
        members = score(results.members[name][-1]).mean(axis=-1)
        ensemble = bootstrap(score(results.mean[name][-1]), bounds=results.scales[which])
        exact = f"{score(results.infinite[name][-1]).mean():.{digits}f}" if results.infinite else "–"
        numbers = [f"{members.max():.{digits}f}", f"{members.mean():.{digits}f}"]
        return [title, *numbers, in_words(ensemble), exact]

    titles = results.images.titles
    rows = [row(f"Agreement on {titles[name]}, of {ORDER}", name, "agreement", 2) for name in results.images.sets]
    rows.append(row(f"Accuracy on {titles['test']}", "test", "accuracy", 3))
    numbers = stated_agreement(settings)
    stated = f" The source states {numbers}." if numbers else ""
    return Table(f"After the last epoch; in brackets 95 % intervals over inputs.{stated}", header, rows)


def _orbits(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    shown = [(name, i) for name in results.images.sets for i in range(_SHOWN_IMAGES)]
    models = list(range(min(_SHOWN_MEMBERS, settings.members)))
    rows = [f"member {m + 1}" for m in models] + ["mean"] + (["infinite"] if results.infinite else [])
    with drawing.panels(
        folder,
        "single-images",
        titles=[""] * 2 * len(shown),
        rows=2,
        size=(8.6, 1.2 + 0.24 * len(rows)),
        height_ratios=[1, 0.9 * len(rows)],
        caption=(
            "The first images of each set, not selected, after the last epoch. Numbers are predicted "
            "classes; orange cells differ from the prediction for the image as it is."
        ),
        alt="Predicted classes of single images in four orientations",
    ) as drawn:
        drawn.canvas.set_layout_engine("constrained", w_pad=0.01, h_pad=0.02)
        for column, (name, i) in enumerate(shown):
            x = results.images.sets[name][i : i + 1]
            strip = visible(np.concatenate([np.asarray(ROTATIONS(g, x))[0] for g in range(ORDER)], axis=1))
            top, bottom = drawn[column], drawn[len(shown) + column]
            top.imshow(strip, cmap="gray", interpolation="nearest", aspect="equal")
            top.axis("off")
            if i == 0:
                top.set_title(drawing.heading(results.images.titles[name]), fontweight="normal", fontsize=8.5, pad=3)
            labels = [results.members[name][-1, m][:, i] for m in models] + [results.mean[name][-1][:, i]]
            if results.infinite:
                labels.append(results.infinite[name][-1][:, i])
            _cells(bottom, np.array(labels))
            for r, text in enumerate(rows if column == 0 else ()):
                bold = "bold" if text in ("mean", "infinite") else "normal"
                bottom.annotate(
                    text, (0, r + 0.5), xytext=(-5, 0), textcoords="offset points", ha="right", va="center",
                    fontsize=8, fontweight=bold, annotation_clip=False,
                )  # fmt: skip
    return drawn.figure


def _cells(axes: Axes, labels: np.ndarray) -> None:
    """A grid of predicted classes; those that differ from the first in their row stand out."""
    for r, row in enumerate(labels):
        for k, label in enumerate(row):
            differs = label != row[0]
            colour = palette.ORANGE.light if differs else palette.FRAME.light
            left, right, top, bottom = k + 0.04, k + 0.96, r + 0.06, r + 0.94
            axes.fill([left, right, right, left], [top, top, bottom, bottom], color=colour, alpha=0.55)
            axes.text(k + 0.5, r + 0.52, str(label), ha="center", va="center", fontsize=8)
    axes.set_xlim(0, labels.shape[1])
    axes.set_ylim(len(labels), 0)
    axes.axis("off")
