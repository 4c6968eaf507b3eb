"""How learning curves are shown: errors with fitted power laws, and predicted over measured errors."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.learning_curves.features_page import (
    approximated,
    approximated_finding,
    approximated_rows,
    approximated_sentence,
)
from equitangents_studies.learning_curves.largest import FULL, SOURCE, full_size, share, tried_images
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
    pool_size,
)
from equitangents_studies.learning_curves.trained import trained_finding, trained_section, trained_sentence
from equitangents_studies.verdict import FAILS, HOLDS, UNDECIDED

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
    """Tables, figures and words."""
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
    told = (
        f"{settings.images:,} images of {results.source} at {settings.pixels}×{settings.pixels} pixels"
        f"{_fewer(settings)}. Every repetition leaves a "
        "fifth to test on, and its training sets are nested. Lines are two power laws, joined at a cusp. Intervals of "
        "exponents and cusp hold together at 95 %."
    )
    pool = (
        f"The kernel of an MLP on {settings.predicted_images:,} images of each set predicts the squared error of "
        "training on some of them. The spectrum alone treats all images alike; where some are far easier than others "
        "(digits, MNIST), it is too low once training sets are a large part of the pool."
    )
    sections = [
        *([section("Learning curves", told, _curves(settings, results, folder), _laws(results))] if curves else []),
        *(approximated(settings, results, folder, model) for model in results.feature_right),
        *([section("Predicted and measured", pool, _ratios(settings, results, folder))] if predicted else []),
    ]
    if results.networks:
        sections.insert(0, trained_section(settings, results, folder))
    facts = {
        "Kernels": f"NTK of {', '.join(settings.models + settings.approximated)}, {settings.depth} hidden layers",
        **({"Ridge of the curves": f"{settings.ridge:g} of the mean diagonal"} if settings.models else {}),
    }
    if settings.prepared != PLAIN[1.0]:
        facts["Images and networks"] = PREPARED[settings.prepared].words
    if results.feature_right:
        tables |= approximated_rows(settings, results)
    if results.whole:
        tables["whole"] = _whole_rows(results)
        tables["tried"] = results.tried.table("classification_error")
        tried = [_tried(settings, results)] if results.tried else []
        size = "At the source’s size" if full_size(settings) else f"After {settings.whole_images:,} training images"
        sections.insert(1, section(size, _whole(settings, results), *tried))
    return Presentation(
        tables, sections, facts, finding=_finding(settings, results), sentence=_sentence(settings, results)
    )


def _finding(settings: Settings, results: Results) -> str:
    if not results.laws:
        return approximated_finding(settings, results)
    if settings.whole and full_size(settings):
        model = settings.whole[-1]
        flips = f", {results.accuracy_of_all(model, 'ntk', 'test', True):.1f} % with flips" if settings.flips else ""
        theirs = f" (source: {SOURCE[model]:g} %)" if model in SOURCE else ""
        prepared = "" if settings.prepared == PLAIN[1.0] else f", {PREPARED[settings.prepared].words}"
        return (
            f"Infinitely wide {model} classifies {results.accuracy_of_all(model, 'ntk', 'test'):.1f} % of CIFAR-10’s "
            f"test images after training on {FULL:,}{flips}{prepared}{theirs}"
        )
    if settings.whole:
        last, *others = reversed(settings.whole)
        right = lambda model: f"{results.accuracy_of_all(model, 'ntk', 'test'):.1f} %"
        beside = "".join(f", {model} {right(model)}" for model in others)
        return (
            f"Infinitely wide {last} classifies {right(last)} of {settings.whole_tested:,} test images after training "
            f"on {settings.whole_images:,}{beside}{_prepared(settings)}"
        )
    if trained := trained_finding(settings, results):
        return trained
    growths = [t_interval(row) for (_, g), row in results.half_growths().items() if g == "I"]
    if max(e.high for e in growths) <= GROWTH:
        return "Kernels of infinite width learn by one power law: their exponents hardly grow with data"
    return "How errors of infinitely wide networks fall with data"


def _sentence(settings: Settings, results: Results) -> str:
    if not results.laws:
        return approximated_sentence(settings, results)
    exponents = [f"{results.exponent(m, 'I'):.3f} ({m})" for m in results.sizes]
    said = [trained] if (trained := trained_sentence(settings, results)) else []
    for model in settings.whole:
        which = f"with {settings.whole_images:,} images{_prepared(settings)} {model} has"
        of = " of the test images right"
        if model != settings.whole[0]:
            which, of = model, ""
        plain = results.accuracy_of_all(model, "ntk", "test")
        nngp = results.accuracy_of_all(model, "nngp", "test")
        flipped = lambda field, model=model: f"{results.accuracy_of_all(model, field, 'test', True):.1f} %"
        more = f", with left-right flips {flipped('ntk')} ({flipped('nngp')})" if settings.flips else ""
        theirs = "; the source shows this network in a figure alone (Figure 2)" * full_size(settings)
        if model in SOURCE:
            theirs = f"; source {SOURCE[model]:g} %{f' after {FULL:,}' * (not full_size(settings))}"
        said.append(f"{which} {plain:.1f} %{of} (NNGP {nngp:.1f} %){more}{theirs}")
    said.append(
        f"from {settings.smallest} to {max(n[-1] for n in results.sizes.values()):,} images of {results.source} the "
        f"error of the NTK falls with the exponent {', '.join(exponents)} (source: clean power laws, Figure S6)"
    )
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def _fewer(settings: Settings) -> str:
    """How many images networks that pool get, where that is not as many as the others, in words."""
    fewer = [model for model in settings.models if pool_size(settings, model) != settings.images]
    return f" ({settings.pooled_images:,} for {' and '.join(fewer)})" if fewer else ""


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


def _curves(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "curves",
        titles=[_TITLES[group] for group in GROUPS],
        xlabel="training images",
        ylabel="classification error",
        sharey=True,
        caption="Classification error on images not trained on: dots, means over "
        f"{settings.repetitions} repetitions with 95 % intervals; lines, two power laws joined at a cusp.",
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
