"""How the classification of tissue is shown: accuracy against training images, paired differences, and the images."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import t_interval
from equitangents_studies.framework.page import Presentation, Records, RunFolder, drawing, section, table
from equitangents_studies.medical_kernels.study import GROUPS, TITLES, Results, Settings, headline, leads

_COLOURS = dict(zip(TITLES, (palette.INK, palette.BLUE, palette.VERMILLION), strict=True))
_SHOWN = 6


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    ahead = leads(settings, results)
    tables = {
        "accuracy": results.accuracy.table("accuracy", "split training_images model", ridge=results.ridge),
        "difference": ahead.table("accuracy_minus_that_of_the_cnn"),
    }
    n, s = len(results.tissue.x), settings
    strided = (
        f"The first layer reads {s.patch}×{s.patch} pixels every {s.stride} pixels: the kernel of a pair of images "
        f"then costs about 1/{s.stride**4} of what it costs at stride 1, which is what makes this run affordable. "
        if s.stride > 1
        else ""
    )
    leak = (
        ""
        if results.tissue.knows_specimens
        else (
            " The data do not say which images come from one slide, so neighbours may lie on both sides of a split, "
            "which raises all accuracies."
        )
    )
    sections = [
        section(
            "Accuracy against training images",
            f"{n:,} images of {s.pixels}×{s.pixels} pixels are split into {s.folds} parts; each is the test part "
            "once. Of every size up to "
            f"{s.draws} disjoint training sets are taken from the rest, and their accuracies averaged: all kernels "
            "see the same splits. The ridge is the one that gets most training images right, each left out in "
            f"turn, so that no test image enters it. {strided}After {s.hidden_layers} further convolutions the "
            "mean over positions is read out." + leak,
            "A group-convolutional network of infinite width has the CNN’s kernel averaged over turned copies of "
            "one image, and a CNN that is trained on all copies predicts what that kernel does; the claims check "
            "both. So there are three kernels, not five.",
            _accuracy(settings, results, ahead, folder),
            _table(settings, results),
        ),
        section("The images as the networks see them", _images(settings, results, folder)),
    ]
    facts = {
        "Data": f"{s.data.replace('_', ' ')}, {n:,} images, {results.tissue.classes} classes",
        "Kernels": f"{4 * n * n:,} pairs of images in float32, for the CNN, C4 and D4 together",
        "Networks": f"{s.patch}×{s.patch} windows at stride {s.stride}, {s.hidden_layers} further convolutions, ReLU",
    }
    return Presentation(tables, sections, facts, *headline(settings, results))


def _accuracy(settings: Settings, results: Results, ahead: Records, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=("Accuracy on images not trained on", "Accuracy minus that of the CNN, paired"),
        xlabel="training images",
        caption=f"Left: accuracy of the three kernels, mean over {settings.folds} splits with 95 % intervals over "
        "splits. Right: what invariance under turns (C4) and under turns and reflections (D4) adds, in percentage "
        "points of the images, split by split, with 95 % intervals over splits, whose training parts share images.",
        alt="Accuracy against training images",
    ) as drawn:
        left, right = drawn
        accuracy = {
            title: [t_interval(column, bounds=(0, 1)) for column in results.accuracy[model].T]
            for model, title in TITLES.items()
        }
        points = {group: ahead.where(group=group).times(100).estimates for group in GROUPS}
        drawing.curves(left, settings.sizes, accuracy, _COLOURS.values(), apart=1.03)
        drawing.curves(right, settings.sizes, points, [_COLOURS[group] for group in GROUPS], apart=1.03, label=None)
        right.axhline(0, color=palette.GREEN.light, lw=0.8)
        right.set_ylabel("percentage points")
        for axes in drawn:
            drawing.logarithmic(axes, "x", settings.sizes)
    return drawn.figure


def _table(settings: Settings, results: Results) -> Table:
    header = ["Training images", *TITLES.values(), *(f"{group} minus CNN, points" for group in GROUPS)]
    rows = []
    for j, size in enumerate(settings.sizes):
        cells = [t_interval(results.accuracy[model][:, j], bounds=(0, 1)) for model in TITLES]
        cells += [results.lead(group, j).times(100) for group in GROUPS]
        rows.append([f"{size:,}", *cells])
    return table(f"Accuracy; in brackets 95 % intervals over {settings.folds} splits.", header, rows)


def _images(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    names = results.tissue.class_names
    shown = [int(np.flatnonzero(results.tissue.y == c)[0]) for c in range(min(_SHOWN, len(names)))]
    turned = GROUPS["D4"]()
    with drawing.panels(
        folder,
        "images",
        titles=[""] * len(shown),
        size=(8.6, 2.0),
        caption=f"The first image of each class ({', '.join(names[: len(shown)])}) as it is, below it turned and "
        f"reflected by an element of D4, at {settings.pixels}×{settings.pixels} pixels.",
        alt="One image of every class, and a turned and reflected copy",
    ) as drawn:
        for axes, i in zip(drawn, shown, strict=True):
            x = results.tissue.x[i : i + 1]
            pair = np.concatenate([x[0], np.asarray(turned(turned.group.order - 1, x))[0]], axis=0)
            axes.imshow(np.clip(0.5 + 0.25 * pair, 0, 1).squeeze(), cmap="gray", interpolation="nearest")
            axes.axis("off")
    return drawn.figure
