"""How learning curves are shown: errors with fitted power laws, and predicted over measured errors."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import t_interval
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import table
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.framework.works import OMNISCIENT_RISK, SYNERGY_AND_SYMMETRY
from equitangents_studies.learning_curves.claims import FULL, SOURCE, claims, network_label, share
from equitangents_studies.learning_curves.settings import (
    FIELDS,
    GROUPS,
    GROWTH,
    PRESETS,
    Results,
    Settings,
    check_settings,
    feature_sizes,
    parts,
)
from equitangents_studies.learning_curves.study import measure

_COLOURS = {
    "FCN": palette.VERMILLION,
    "VEC": palette.BLUE,
    "GAP": palette.GREEN,
    "LCN": palette.PURPLE,
    "LAP4": palette.ORANGE,
    "LAP8": palette.INK,
}
_TRAINED_COLOURS = {
    ("VEC", "I"): palette.BLUE,
    ("VEC", "O(3)^d"): palette.VERMILLION,
    ("LCN", "I"): palette.PURPLE,
    ("GAP", "I"): palette.GREEN,
    ("GAP", "O(3)^d"): palette.ORANGE,
    ("FCN", "I"): palette.INK,
}
_ABOVE = {HOLDS: "yes", FAILS: "no", UNDECIDED: "open"}
_TITLES = {"I": "images as they are", "O(3)^d": "channels rotated at every position"}


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Tables and figures of what was measured: not all settings have every part."""
    shown: list[Shown] = []
    if results.networks:
        shown.append(_trained(settings, results, folder))
    if results.classification:
        shown += [_curves(results, folder), _laws(results)]
    for model in results.feature_right:
        shown += [_features(settings, results, folder, model), _learnt(settings, results, model)]
    if results.whole:
        shown.insert(1, _whole(settings, results))
    return shown


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
        f"{settings.whole_precision}, with a ridge of {settings.whole_ridge:g} of the mean diagonal. "
        "With flips every image is learnt in both orientations, exactly."
    )
    return table(caption, ["", *parts(settings)], rows)


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


def _features(s: Settings, results: Results, folder: RunFolder, model: str) -> Figure:
    with drawing.panels(
        folder,
        f"features-{model}",
        size=(6.4, 3.6),
        xlabel="training images",
        ylabel="accuracy on test images, %",
        caption="Random features: accuracy with its 95 % interval over test images; the exact kernel on fewer images, "
        "in folds; the source’s number, where it has one, of the exact kernel and all images.",
        alt="Accuracy of random features against training images",
    ) as drawn:
        (axes,) = drawn
        reached = [share(right) for right in results.feature_right[model]]
        drawing.estimates(axes, feature_sizes(s), reached, palette.BLUE.light, label=f"{s.features:,} features")
        exact = share(results.exact_right[model][0])
        few = round(0.75 * s.exact_images)
        drawing.estimates(axes, [few], [exact], palette.GREEN.light, fmt="s", ms=6, label="exact kernel, ours")
        if model in SOURCE:
            colour = palette.MUTED.light
            axes.plot([FULL], [SOURCE[model]], "D", ms=7, color=colour, label="exact kernel, source")
        drawing.logarithmic(axes, "x")
    return drawn.figure


def _learnt(s: Settings, results: Results, model: str) -> Table:
    rows = [
        [f"{n:,}", f"{ridge:.2g}", f"{100 * validation:.1f}", share(right)]
        for n, ridge, validation, right in zip(
            feature_sizes(s),
            results.feature_ridge[model],
            results.feature_validation[model],
            results.feature_right[model],
            strict=True,
        )
    ]
    caption = (
        f"Accuracy in percent of {s.features:,} random features of {model}; in brackets 95 % intervals over test "
        "images. The ridge, of the mean of the kernel’s diagonal, is the best in validation."
    )
    return table(caption, ["training images", "ridge", "validation", "test"], rows)


def _trained(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "trained",
        titles=("trained networks",),
        xlabel="training images",
        ylabel="classification error",
        caption="Classification error on images not trained on, means over runs with 95 % intervals.",
        alt="Classification error of trained networks against training images",
    ) as drawn:
        (axes,) = drawn
        for key, errors in results.networks.items():
            values = [t_interval(row, bounds=(0, 1)) for row in errors]
            drawing.estimates(
                axes, settings.network_sizes, values, _TRAINED_COLOURS[key].light, label=network_label(*key), fmt="o-"
            )
        drawing.logarithmic(axes, "both", fine=True)
    return drawn.figure


STUDY: Study[Settings, Results] = Study(
    PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY, OMNISCIENT_RISK), check_settings
)
