"""How learning curves are shown: errors with fitted power laws, and predicted over measured errors."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, Shown, columns, drawing, table
from equitangents_studies.learning_curves.features import (
    approximated,
    approximated_rows,
)
from equitangents_studies.learning_curves.largest import share, trained_section, tried_images
from equitangents_studies.learning_curves.settings import (
    FIELDS,
    GROUPS,
    GROWTH,
    PLAIN,
    PREPARED,
    TRIED_RIDGES,
    Results,
    Settings,
    off,
    parts,
)

_COLOURS = {
    "FCN": palette.VERMILLION,
    "VEC": palette.BLUE,
    "GAP": palette.GREEN,
    "LCN": palette.PURPLE,
    "LAP4": palette.ORANGE,
    "LAP8": palette.INK,
}
_ABOVE = {HOLDS: "yes", FAILS: "no", UNDECIDED: "open"}
_TITLES = {"I": "images as they are", "O(3)^d": "channels rotated at every position"}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    curves = [
        (model, group, int(n), r, results.classification[model, group][i, r], results.squared[model, group][i, r],
         results.predicted[model, group][i])
        for model, group in results.classification
        for i, n in enumerate(results.sizes[model])
        for r in range(settings.repetitions)
    ]  # fmt: skip
    laws = [
        (model, group, what, e)
        for (model, group), law in results.laws.items()
        for what, e in (
            *((f"exponent {i}", e) for i, e in enumerate(law.exponents, 1)),
            ("cusp", law.cusp),
            ("growth of the exponent", law.grows.difference),
        )
    ]
    predicted = [
        (name, n, r, results.measured[name][i, r], results.omniscient[name][i], results.inputs[name][i])
        for name in results.measured
        for i, n in enumerate(settings.predicted_sizes)
        for r in range(results.measured[name].shape[1])
    ]
    trained = dict(results.networks.table("classification_error"))
    tables = {
        "curves": columns(
            ("model", "group", "training_images", "repetition", "classification_error", "squared_error", "predicted"),
            curves,
        ),
        "power_laws": columns(("model", "group", "quantity", "value", "low", "high"), laws),
        "predictions": columns(
            ("data", "training_images", "repetition", "squared_error", "omniscient", "by_input"), predicted
        ),
        "networks": {"model": trained.pop("network"), **trained},
    }
    shown: list[Shown] = []
    if curves:
        shown += [_curves(results, folder), _laws(results)]
    for model in results.feature_right:
        shown += approximated(settings, results, folder, model)
    if predicted:
        shown.append(_ratios(settings, results, folder))
    if results.networks:
        shown = [*trained_section(settings, results, folder), *shown]
    if results.feature_right:
        tables |= approximated_rows(settings, results)
    if results.whole:
        tables["whole"] = _whole_rows(results)
        tables["tried"] = results.tried.table("classification_error")
        shown[1:1] = [_whole(settings, results), *([_tried(settings, results)] if results.tried else [])]
    return Presentation(tables, shown)


def _prepared(settings: Settings) -> str:
    """How images and networks are made otherwise than in the study's own run, in words."""
    return "" if settings.prepared == PLAIN[1.0] else f" ({PREPARED[settings.prepared].words})"


def _whole_rows(results: Results) -> Columns:
    whole = results.whole.items()
    rows = [
        (model, flips.lstrip("-"), field, part, len(right), share(right))
        for (model, flips, field, part), right in whole
    ]
    names = ("model", "flips", "kernel", "part", "images", "accuracy", "low", "high")
    return columns(names, rows)


def _whole(settings: Settings, results: Results) -> Table:
    rows = []
    for model in settings.whole:
        for flips in ("", "-flips") if settings.flips else ("",):
            for field in FIELDS:
                cells = [share(results.whole[model, flips, field, part]) for part in parts(settings)]
                rows.append([f"{model}, {field.upper()}{', with flips' if flips else ''}", *cells])
    caption = (
        f"Accuracy in percent after {settings.whole_images:,} training images of {settings.pixels}×{settings.pixels} "
        f"pixels, {settings.depth} hidden layers; in brackets 95 % intervals over images. Kernels in "
        f"{settings.whole_precision}, with a ridge of {settings.whole_ridge:g} of the mean diagonal"
        f"{_prepared(settings)}."
    )
    if settings.flips:
        caption += " With flips every image is learnt in both orientations, exactly."
    return table(caption, ["", *parts(settings)], rows)


def _tried(settings: Settings, results: Results) -> Table:
    rows = [
        [
            f"{model}, {PREPARED[name].words}, {tried_images(settings, model, portion):,} images",
            *(t_interval(100 * (1 - row), bounds=(0, 100)) for row in results.tried[model, name]),
        ]
        for model in settings.whole
        for portion, plain in PLAIN.items()
        if (model, plain) in results.tried
        for name in (plain, *results.tried_otherwise(model, portion))
    ]
    caption = (
        "What else could differ: accuracy in percent of the NTK, where the NNGP is not named, on the images of the "
        "curves, after their largest training set or half of it, by ridge (of the mean diagonal); standardised is what "
        "has mean 0 and standard deviation 1; in brackets 95 % intervals over "
        f"{settings.repetitions} repetitions, the same for all."
    )
    return table(caption, ["", *(f"ridge {ridge:g}" for ridge in TRIED_RIDGES)], rows)


def _curves(results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "curves",
        titles=[_TITLES[group] for group in GROUPS],
        xlabel="training images",
        ylabel="classification error",
        sharey=True,
        caption=(
            "Classification error on images not trained on: dots, means over repetitions with 95 % "
            "intervals; lines, two power laws joined at a cusp."
        ),
        alt="Classification error against training images",
    ) as drawn:
        for axes, group in zip(drawn, GROUPS, strict=True):
            for model, n in results.sizes.items():
                colour = _COLOURS[model].light
                errors = [t_interval(row, bounds=(0, 1)) for row in results.classification[model, group]]
                drawing.estimates(axes, n, errors, colour, label=model, fmt="o")
                if (results.classification[model, group].mean(axis=1) > 0).all():
                    fine = np.geomspace(n[0], n[-1], 60)
                    axes.plot(fine, results.laws[model, group].curve(fine), color=colour, lw=1)
            drawing.logarithmic(axes, "both", fine=True)
    return drawn.figure


def _laws(results: Results) -> Table:
    rows = []
    for (model, group), law in results.laws.items():
        cells = [results.exponent(model, group), *law.exponents, law.cusp, law.grows.difference]
        rows.append([f"{model}, {group}", f"{cells[0]:.3f}", *cells[1:], _ABOVE[law.grows.verdict]])
    header = ["", "one exponent", "exponent before", "after", "cusp", "growth", "growth above 0?"]
    caption = (
        "Fitted power laws, one and two joined at a cusp; in brackets 95 % intervals. Claims that an exponent does not "
        f"grow compare those of the lower and the upper half of sizes, with a margin of {GROWTH:g}."
    )
    return table(caption, header, rows)


def _ratios(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "predictions",
        titles=("spectrum alone", "a variance for each image"),
        xlabel="training images",
        ylabel="predicted over measured squared error",
        sharey=True,
        caption="Predicted over measured squared error of an MLP’s kernel, with 95 % intervals of the measured, over "
        "repetitions; between the dotted lines predictions are within 10 %.",
        alt="Predicted over measured errors",
    ) as drawn:
        shades = [palette.INK, palette.BLUE, palette.VERMILLION, palette.GREEN, palette.PURPLE]
        for axes, predicted in zip(drawn, (results.omniscient, results.inputs), strict=True):
            for i, (name, measured) in enumerate(results.measured.items()):
                ratio = lambda percent: 1 + percent / 100
                values = [
                    Estimate(ratio(e.value), ratio(e.low), ratio(e.high)) for e in off(predicted[name], measured, 0.95)
                ]
                place = np.array(settings.predicted_sizes) * 1.02 ** (i - 1.5)
                drawing.estimates(axes, place, values, shades[i % len(shades)].light, label=name.replace("_", " "))
            for bound in (0.9, 1.1):
                axes.axhline(bound, color=palette.MUTED.light, lw=0.8, ls=":")
            drawing.logarithmic(axes, "x", settings.predicted_sizes)
    return drawn.figure
