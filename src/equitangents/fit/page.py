"""The page of a fitted classifier: accuracy, confusion, calibration, doubtful samples, turned copies, learning curve.

All is of left-out samples: of a choice those of the folds, each predicted by a choice made without it; else each is
predicted by the classifier trained on the others, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.errors import InvalidArgumentError
from equitangents.fit.result import ACCURACY, FAST, Choice, HeldOut, interval
from equitangents.report import Figure, Section, Table
from equitangents.report.figures import Canvas, canvas, inline_figure, png
from equitangents.report.palette import BLUE, FRAME, ORANGE
from equitangents.report.render import Document, Pictures
from equitangents.statistics.student import binomial_ends

SHOWN = 8  # images or rows of a section
LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)  # probabilities below which predictions may be left open
_CLASSES = 12
_MARGIN = 0.03  # beyond 0 and 1, so that no point is cut


def held_out_page(
    model: InfiniteEnsembleClassifier,
    names: Sequence[str] = (),
    *,
    title: str,
    next_command: str = "",
    choice: Choice | None = None,
    min_confidence: float | None = None,
) -> Document:
    """The page; pictures stand in it where samples are images (H, W, 1 or 3).

    names: of all samples. min_confidence: a further probability below which predictions may be left open. Raises as
    `HeldOut.of`.
    """
    held = HeldOut.of(model) if choice is None else choice.score.held
    rows, x = np.arange(len(held.labels)) if choice is None else choice.rows, np.asarray(model._data[0])
    if len(names) not in (0, len(x)):
        raise InvalidArgumentError("names", len(names), len(x), "give one for each sample", verb="has length")
    called = [names[i] if names else f"sample {i}" for i in rows.tolist()]
    images = x[rows] if x.ndim == 4 and x.shape[-1] in (1, 3) else None
    sections = [_confusion(held), _calibration(held, min_confidence), *_doubtful(held, called, images)]
    if choice is not None:
        accuracy = Section("Accuracy", shown=[_accuracy(choice), choice.scores])
        sections = [accuracy, *sections, *_turning(choice), *_curve(choice)]
    if next_command:
        sections.append(Section("Next", [next_command]))
    facts = facts_of(model, held, choice, min_confidence)
    return Document(title, "Fitted classifier", f"{ACCURACY}: {facts.pop(ACCURACY)}", sections, facts)


def facts_of(
    model: InfiniteEnsembleClassifier, held: HeldOut, choice: Choice | None, least: float | None = None
) -> dict[str, str]:
    """What was fitted, how right it is, and how it was found: labels and values, the result first.

    least: a probability below which predictions are left open.
    """
    facts = {ACCURACY: interval(held.accuracy if choice is None else choice.score.accuracy)}
    if choice is not None and choice.others:
        best = max(choice.others, key=lambda each: each.accuracy.value)
        facts["Best baseline (95 %)"] = f"{interval(best.accuracy)}, {best.name}"
        ahead = [each.name for each in choice.others if each.ahead.has_interval and each.ahead.low > 0]
        facts["Shown to be behind"] = ", ".join(ahead) or "none"
    facts["Most frequent label"] = format(np.bincount(held.labels).max() / len(held.labels), ".1%")
    facts["Calibration error, by chance"] = f"{held.calibration_error():.3f}, {held.chance_error():.3f}"
    if least is not None:
        share, right = held.answered(least)
        facts[f"Probability of {least:g} or more"] = format(share, ".1%")
        facts["Of these right"] = format(right, ".1%") if share else "none"
    facts |= {"Samples": format(len(model._data[1]), ",.0f"), "Classes": str(len(held.classes))}
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
        "Kernel, ridge": f"{tried.kernel}, {tried.ridge:.0e}",
        "Predictions a second": format(tried.images_a_second, ",.1f"),
        f"Best at {FAST:g} a second (--fast)": "none" if fast is None else fast.name,
        "Left out": "each alone" if choice.sets is None else f"{choice.sets:,} sets",
        "Near-duplicate pairs": format(len(choice.near_duplicates), ",.0f"),
    }
    return facts | ({"Interrupted": "the best so far"} if choice.interrupted else {})


def _accuracy(choice: Choice) -> Figure:
    """The chosen model and the baselines, with their intervals."""
    every = [choice.score, *choice.others]
    with canvas(4.6, 0.5 + 0.4 * len(every)) as drawn:
        axes = drawn.subplots()
        for k, each in enumerate(every):
            value, ends = each.accuracy.value, each.accuracy
            low, high = (ends.low, ends.high) if ends.has_interval else (value, value)
            colour = BLUE.light if k == 0 else FRAME.light
            axes.errorbar([value], [-k], xerr=[[value - low], [high - value]], fmt="o", color=colour, clip_on=False)
        axes.set_yticks([-k for k in range(len(every))], [each.name for each in every])
        axes.set(xlim=(0, 1), xlabel="accuracy on left-out samples (95 %)")
        return _figure(drawn, "accuracy", "Accuracy")


def _figure(drawn: Canvas, name: str, title: str, caption: str = "") -> Figure:
    return Figure(name, caption, inline_figure(drawn, name), title, wide=False)


def _confusion(held: HeldOut) -> Section:
    K = len(held.classes)
    counts = np.zeros((K, K), int)
    np.add.at(counts, (held.labels, held.predictions), 1)
    if K <= _CLASSES:
        rows = [[f"{name} ({counts[k].sum()})", *map(str, counts[k])] for k, name in enumerate(held.classes)]
        return Section("Confusion", shown=[Table("Rows: labels; columns: predictions.", ["", *held.classes], rows)])
    wrong = counts * (1 - np.eye(K, dtype=int))
    most = [divmod(int(at), K) for at in np.argsort(-wrong, axis=None, kind="stable")[:SHOWN]]
    names = [(held.classes[a], held.classes[b]) for a, b in most]
    rows = [[*names[k], str(wrong[at]), str(counts[at[0]].sum())] for k, at in enumerate(most) if wrong[at]]
    header = ["label", "predicted", "times", "samples of the label"]
    return Section("Confusion", shown=[Table("The most frequent confusions.", header, rows)])


def _calibration(held: HeldOut, least: float | None) -> Section:
    levels = sorted({*LEVELS, *(() if least is None else (least,))})
    cell = lambda share: "" if np.isnan(share) else format(share, ".1%")
    rows = [[f"{level:g}", *map(cell, held.answered(level))] for level in levels]
    caption = f"Calibration error {held.calibration_error():.3f}; by chance about {held.chance_error():.3f}."
    table = Table(
        "Predictions that are not left open.", ["probability at least", "of all samples", "of these right"], rows
    )
    probability, right, counts = (np.array(of_bins) for of_bins in zip(*held.bins(), strict=True))
    ends = np.array([binomial_ends(r, n, 0.95, (0.0, 1.0)) for r, n in zip(right, counts, strict=True)])
    with canvas(4.2, 2.6) as drawn:
        axes = drawn.subplots()
        axes.plot([0, 1], [0, 1], color=FRAME.light, lw=1)
        axes.errorbar(probability, right, abs(ends.T - right), fmt="o", color=BLUE.light, lw=1.2)
        axes.set(xlim=(-_MARGIN, 1 + _MARGIN), ylim=(-_MARGIN, 1 + _MARGIN))
        axes.set(xlabel="mean probability of the prediction", ylabel="share that is right")
        figure = _figure(drawn, "reliability", "Reliability", caption)
    return Section("Calibration", shown=[figure, table])


def _doubtful(held: HeldOut, called: Sequence[str], images: np.ndarray | None) -> Iterator[Section]:
    unsure = np.argsort(held.confidence, kind="stable")[:SHOWN]
    yield Section("Least sure", shown=[_named(held, called, unsure, images)])
    order = np.argsort(held.of_label, kind="stable")
    wrong = [i for i in order if not held.hits[i]][:SHOWN]
    if wrong:
        yield Section("Wrong, or mislabelled", shown=[_named(held, called, wrong, images)])


def _named(
    held: HeldOut, called: Sequence[str], order: Sequence[int] | np.ndarray, images: np.ndarray | None
) -> Pictures | Table:
    """Samples with label, prediction and both probabilities: as pictures, or as a table where there are none."""
    rows = [
        [called[i], held.classes[held.labels[i]], format(held.of_label[i], ",.2f"),
         held.classes[held.predictions[i]], format(held.confidence[i], ",.2f")]
        for i in order
    ]  # fmt: skip
    if images is None:
        return Table("", ["sample", "label", "its probability", "predicted", "its probability"], rows)
    lines = [(name, f"label: {label} {p}", f"predicted: {said} {q}") for name, label, p, said, q in rows]
    shown = (png(image, float(image.min()), float(image.max())) for image in images[order])
    return Pictures([*zip(shown, lines, strict=True)])


def _turning(choice: Choice) -> Iterator[Section]:
    if not choice.turned:
        return
    angles = [each.angle for each in choice.turned]
    with canvas(4.6, 2.4) as drawn:
        axes = drawn.subplots()
        axes.plot(angles, [each.accuracy.value for each in choice.turned], "o-", color=BLUE.light, label="accuracy")
        confidence = [each.confidence for each in choice.turned]
        axes.plot(angles, confidence, "s--", color=ORANGE.light, label="mean probability")
        axes.set(xlabel="turned by (degrees)", ylim=(-_MARGIN, 1 + _MARGIN))
        axes.legend()
        figure = _figure(drawn, "turning", "Turning")
    yield Section("Turning", shown=[figure, choice.turning])


def _curve(choice: Choice) -> Iterator[Section]:
    if not choice.curve:
        return
    sizes, values = [each.samples for each in choice.curve], [each.accuracy.value for each in choice.curve]
    rows, more = [[f"{each.samples:,}", interval(each.accuracy)] for each in choice.curve], choice.doubled
    with canvas(4.6, 2.4) as drawn:
        axes = drawn.subplots()
        axes.plot(sizes, values, "o-", color=BLUE.light)
        if more is not None:
            rows.append([f"{2 * sizes[-1]:,}, extrapolated", f"{more:.1%}"])
            axes.plot([sizes[-1], 2 * sizes[-1]], [values[-1], more], "o:", color=BLUE.light, mfc="none")
        axes.set(xscale="log", xlabel="training samples", ylabel="accuracy")
        axes.set_xticks([*sizes, *([2 * sizes[-1]] if more is not None else [])])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.minorticks_off()
        figure = _figure(drawn, "curve", "Learning curve")
    table = Table("Of the chosen network.", ["training samples", "accuracy (95 %)"], rows)
    yield Section("More images", shown=[figure, table])
