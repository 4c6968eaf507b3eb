"""The report of a fitted classifier: accuracy, confusion, calibration, uncertain samples, rotations, learning curve.

All scores are on left-out samples: with a choice each fold is predicted by a choice made without it; otherwise each
sample is predicted by the classifier trained on the others, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError
from equitangents.fit.result import ACCURACY, FAST, Choice, HeldOut, percentage
from equitangents.formatting import formatted
from equitangents.report import Figure, Section, Table
from equitangents.report.figures import Canvas, canvas, inline_figure, png
from equitangents.report.numbers import format_number
from equitangents.report.palette import BLUE, FRAME, MUTED, ORANGE
from equitangents.report.render import Document, Pictures
from equitangents.statistics.student import binomial_ends

LEFT_OUT_ACCURACY = "Accuracy on left-out samples (95 %)"
SHOWN = 8  # images or rows of a section
LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)  # probabilities below which predictions may be left open
_CLASSES, _SHORT = 12, 3  # of a full confusion matrix; letters of a name that heads its column
_MARGIN = 0.03  # beyond 0 and 1, so that no point is clipped


def held_out_page(
    model: InfiniteEnsembleClassifier,
    names: Sequence[str] = (),
    *,
    title: str,
    next_command: str = "",
    choice: Choice | None = None,
    min_confidence: float | None = None,
) -> Document:
    """Build the report, with thumbnails if samples are images (H, W, 1 or 3).

    names: of all samples. min_confidence: a further probability below which predictions may be left open. Raises as
    `HeldOut.of`.
    """
    held = HeldOut.of(model) if choice is None else choice.score.held
    rows, x = np.arange(len(held.labels)) if choice is None else choice.rows, np.asarray(model._data[0])
    if len(names) not in (0, len(x)):
        raise InvalidArgumentError("names", len(names), len(x), "give one for each sample", verb="has length")
    shown = [names[i] if names else f"sample {i}" for i in rows.tolist()]
    images = x[rows] if x.ndim == 4 and x.shape[-1] in (1, 3) else None
    sections = [_confusion(held), _calibration(held, min_confidence), *_uncertain(held, shown, images)]
    if choice is not None:
        accuracy = Section("Accuracy", shown=[_accuracy(choice), choice.score_table])
        sections = [accuracy, *sections]
        sections += [_rotations(choice)] if choice.rotations else []
        sections += [_learning_curve(choice)] if choice.curve else []
    if next_command:
        sections.append(Section("Next", [next_command]))
    facts = facts_of(model, held, choice, min_confidence)
    return Document(title, "Fitted classifier", f"{LEFT_OUT_ACCURACY}: {facts.pop(LEFT_OUT_ACCURACY)}", sections, facts)


def facts_of(
    model: InfiniteEnsembleClassifier, held: HeldOut, choice: Choice | None, least: float | None = None
) -> dict[str, str]:
    """Labels and values: the accuracy first, then the comparison, and how the model was fitted.

    least: a probability below which predictions are left open.
    """
    facts = {LEFT_OUT_ACCURACY: percentage(held.accuracy if choice is None else choice.score.accuracy)}
    if choice is not None and choice.baselines:
        best = max(choice.baselines, key=lambda each: each.accuracy.value)
        facts["Best baseline (95 %)"] = f"{percentage(best.accuracy)}, {best.name}"
        better = [b.name for b in choice.baselines if b.difference.has_interval and b.difference.low > 0]
        facts["Baselines shown to be better"] = ", ".join(better) or "none"
    facts["Most frequent class"] = formatted(np.bincount(held.labels).max() / len(held.labels), ".1%")
    facts["Calibration error"] = f"{held.calibration_error():.3f} ({held.chance_error():.3f} by chance)"
    if least is not None:
        share, accuracy = held.answered(least)
        facts[f"Probability of {least:g} or more"] = formatted(share, ".1%")
        facts["Accuracy on these"] = formatted(accuracy, ".1%") if share else "none"
    facts |= {"Samples": f"{len(model._data[1]):,}", "Classes": str(len(held.classes))}
    if choice is None:
        return facts | {
            "Predicted by": model.leave_one_out_.outputs.predictor,
            "Probabilities": "calibrated" if model.temperature_ is not None else "shares of networks; here calibrated",
            "Inputs standardised by": model.leave_one_out_.outputs.standardised_by,
        }
    tried, fast = choice.best, choice.best_fast
    facts |= {
        "Network": tried.name,
        "Group": tried.group or "none",
        "Kernel, ridge": f"{tried.kernel}, {format_number(tried.ridge)}",
        "Images per second": f"{tried.images_per_second:,.0f}",
        f"Best with {FAST:g} a second (--fast)": "none" if fast is None else fast.name,
        "Left out": choice.left_out,
        "Near-duplicate pairs": f"{len(choice.near_duplicates):,}",
    }
    return facts | ({"Interrupted": "the best so far"} if choice.interrupted else {})


def _figure(drawn: Canvas, name: str, title: str, caption: str = "") -> Figure:
    return Figure(name, caption, inline_figure(drawn, name), title, wide=False)


def _accuracy(choice: Choice) -> Figure:
    """The chosen model and the baselines, with their intervals."""
    models = [choice.score, *choice.baselines]
    with canvas(4.6, 0.5 + 0.4 * len(models)) as drawn:
        axes = drawn.subplots()
        for k, ends in enumerate(each.accuracy for each in models):
            bar = np.abs(np.nan_to_num([[ends.low], [ends.high]], nan=ends.value) - ends.value)
            colour = BLUE.light if k == 0 else MUTED.light
            axes.errorbar([ends.value], [-k], xerr=bar, fmt="o", color=colour, clip_on=False)
        axes.set_yticks([-k for k in range(len(models))], [each.name for each in models])
        axes.set(xlim=(0, 1), xlabel=LEFT_OUT_ACCURACY.lower())
        return _figure(drawn, "accuracy", "Accuracy")


def _confusion(held: HeldOut) -> Section:
    """The confusion matrix, with numbers for long names; for many classes the most frequent confusions."""
    classes, K = held.classes, len(held.classes)
    counts = np.zeros((K, K), int)
    np.add.at(counts, (held.labels, held.predictions), 1)
    if K <= _CLASSES:
        heads, caption = classes, "Rows: labels; columns: predictions."
        if max(map(len, classes)) > _SHORT:
            heads = tuple(map(str, range(1, K + 1)))
            caption += " " + "; ".join(map(": ".join, zip(heads, classes, strict=True))) + "."
        rows = [[f"{head} ({counts[k].sum()})", *map(str, counts[k])] for k, head in enumerate(heads)]
        return Section("Confusion", shown=[Table(caption, ["", *heads], rows)])
    wrong = counts * (1 - np.eye(K, dtype=int))
    most = [divmod(int(at), K) for at in np.argsort(-wrong, axis=None, kind="stable")[:SHOWN]]
    rows = [[classes[a], classes[b], str(wrong[a, b]), str(counts[a].sum())] for a, b in most if wrong[a, b]]
    header = ["label", "predicted", "times", "samples of the label"]
    return Section("Confusion", shown=[Table("The most frequent confusions.", header, rows)])


def _calibration(held: HeldOut, least: float | None) -> Section:
    cell = lambda share: "" if np.isnan(share) else formatted(share, ".1%")
    levels = sorted({*LEVELS} if least is None else {*LEVELS, least})
    rows = [[f"{level:g}", *map(cell, held.answered(level))] for level in levels]
    header = ["probability at least", "of all samples", "accuracy on these"]
    probability, right, counts = (np.array(of_bins) for of_bins in zip(*held.bins(), strict=True))
    ends = np.array([binomial_ends(r, n, 0.95, (0.0, 1.0)) for r, n in zip(right, counts, strict=True)])

    with canvas(4.6, 2.8) as drawn:
        axes = drawn.subplots()
        axes.plot([0, 1], [0, 1], color=FRAME.light, lw=1)
        axes.errorbar(probability, right, abs(ends.T - right), fmt="o", color=BLUE.light, lw=1.2)
        axes.set(xlim=(-_MARGIN, 1 + _MARGIN), ylim=(-_MARGIN, 1 + _MARGIN))
        axes.set(xlabel="mean probability of the prediction", ylabel="accuracy (95 %)")
        caption = f"Calibration error {held.calibration_error():.3f}; by chance about {held.chance_error():.3f}."
        reliability = _figure(drawn, "reliability", "Reliability", caption)
    return Section("Calibration", shown=[reliability, Table("Predictions that are not left open.", header, rows)])


def _uncertain(held: HeldOut, names: Sequence[str], images: np.ndarray | None) -> Iterator[Section]:
    order = np.argsort(held.of_label, kind="stable")
    wrong, unsure = order[~held.hits[order]], np.argsort(held.confidence, kind="stable")
    for title, kept in (("Least certain", unsure[:SHOWN]), ("Wrong, or mislabelled", wrong[:SHOWN])):
        if len(kept):
            yield Section(title, shown=[_samples(held, names, kept, images)])


def _samples(held: HeldOut, names: Sequence[str], rows: np.ndarray, images: np.ndarray | None) -> Pictures | Table:
    """Samples with label, prediction and the probabilities of both: as thumbnails, or as a table without images."""
    cells = [
        [names[i], held.classes[held.labels[i]], f"{held.of_label[i]:.2f}",
         held.classes[held.predictions[i]], f"{held.confidence[i]:.2f}"]
        for i in rows
    ]  # fmt: skip
    if images is None:
        return Table("", ["sample", "label", "its probability", "predicted", "its probability"], cells)
    lines = [(name, f"label {label}: {p}", f"model {predicted}: {q}") for name, label, p, predicted, q in cells]
    return Pictures([(png(images[i], images[i].min(), images[i].max()), lines[k]) for k, i in enumerate(rows)])


def _rotations(choice: Choice) -> Section:
    angles = [each.angle for each in choice.rotations]
    with canvas(4.6, 2.4) as drawn:
        axes = drawn.subplots()
        axes.plot(angles, [each.accuracy.value for each in choice.rotations], "o-", color=BLUE.light, label="accuracy")
        confidence = [each.confidence for each in choice.rotations]
        axes.plot(angles, confidence, "s--", color=ORANGE.light, label="mean probability")
        axes.set(xlabel="rotated by (degrees)", ylim=(-_MARGIN, 1 + _MARGIN))
        axes.legend()
        figure = _figure(drawn, "rotations", "Rotated images")
    return Section("Rotated images", shown=[figure, choice.rotation_table])


def _learning_curve(choice: Choice) -> Section:
    sizes, values = [each.samples for each in choice.curve], [each.accuracy.value for each in choice.curve]
    rows = [[f"{each.samples:,}", percentage(each.accuracy)] for each in choice.curve]
    with canvas(4.6, 2.4) as drawn:
        axes = drawn.subplots()
        axes.plot(sizes, values, "o-", color=BLUE.light)
        if choice.doubled is not None:
            rows.append([f"{2 * sizes[-1]:,}, extrapolated", formatted(choice.doubled, ".1%")])
            axes.plot([sizes[-1], 2 * sizes[-1]], [values[-1], choice.doubled], "o:", color=BLUE.light, mfc="none")
            sizes.append(2 * sizes[-1])
        axes.set(xscale="log", xlabel="training samples", ylabel="accuracy")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        figure = _figure(drawn, "curve", "Learning curve")
    table = Table("With the chosen network.", ["training samples", ACCURACY], rows)
    return Section("Learning curve", shown=[figure, table])
