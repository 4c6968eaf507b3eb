"""How the path is shown: S-Dist against t, to either neighbour, for every width, and accuracies."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import Estimate
from equitangents_studies.common.system_runs import COUNTED
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section
from equitangents_studies.symmetry_breaking_path.study import (
    OTHERS,
    Results,
    Settings,
    change,
    counted_widths,
    over_members,
    signed,
)


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """The table, the figure and facts."""
    text = (
        "S-Dist: squared distance between the mean predictions of two algorithms, mean over test images, sum over "
        f"classes; from {settings.members} networks of each, their noise taken out, so that a number below 0 says that "
        "noise hides the distance, if there is one. VEC is trained and tested on images moved to t, GAP on images as "
        "they are; infinitely wide VEC predicts the same at all t. Accuracy: single networks."
    )
    reached = lambda learnt: 100 * np.mean(np.concatenate(list(learnt.values())) >= COUNTED)
    facts = {
        "Data": f"{results.source}, {settings.pixels}×{settings.pixels} pixels, {settings.train_images:,} training and "
        f"{settings.test_images:,} test images",
        "Networks": f"{settings.members} of every kind by NN+, {settings.depth} hidden layers; "
        f"{reached(results.learnt):.0f} % of VEC and {reached(results.gap_learnt):.0f} % of GAP reach "
        f"{100 * COUNTED:.0f} % training accuracy in {settings.epochs} epochs",
    }
    sections = [section("Path", text, _figure(settings, results, folder))]
    tables = {"distances": table(settings, results)}
    return Presentation(tables, sections, facts, *headline(settings, results))


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    counted, ends = counted_widths(settings, results), (settings.times[0], settings.times[-1])
    limit, gap = (change(results, other, counted, settings.times) for other in ("VEC", "GAP"))
    towards = "towards" if limit.high < 0 else "away from" if limit.low > 0 else "no nearer to"
    apart = "away from" if gap.low > 0 else "towards" if gap.high < 0 else "no further from"
    mean = lambda other, t: np.mean([results.distance(other, w, t).whole for w in counted])
    channels = " and ".join(map(str, counted))
    title = f"As symmetry is broken, finite VEC goes {towards} its infinite limit and {apart} GAP"
    said = (
        f"With {channels} channels and {settings.train_images:,} images, S-Dist to infinitely wide VEC goes from "
        f"{mean('VEC', ends[0]):.3f} to {mean('VEC', ends[1]):.3f} between t = {ends[0]:g} and {ends[1]:g}, S-Dist to "
        f"GAP from {mean('GAP', ends[0]):.3f} to {mean('GAP', ends[1]):.3f} (source, 64 to 512 channels, 45,000 "
        "images: it falls, and rises)."
        + "".join(
            f" At {w} channels, where VEC does not learn its training images, S-Dist to GAP changes by "
            f"{signed(change(results, 'GAP', [w], settings.times).value)}."
            for w in settings.widths
            if w not in counted
        )
    )
    return title, said


def distance(results: Results, other: str, width: int, time: float) -> Estimate:
    """S-Dist to one of OTHERS with its interval over members."""
    return over_members(lambda d: d, results.distance(other, width, time))


def table(settings: Settings, results: Results) -> Columns:
    """One row for every neighbour, width and time."""
    rows = [
        (other, w, t, distance(results, other, w, t), results.plain(other, w, t), results.accuracy(w, t).value,
         100 * results.learnt[w, t].mean())
        for other in OTHERS for w in settings.widths for t in settings.times
    ]  # fmt: skip
    return columns(("other", "width", "time", "s_dist", "low", "high", "plain", "accuracy", "training_accuracy"), rows)


def _figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "path",
        titles=(*(f"S-Dist to {title}" for title in OTHERS.values()), "test accuracy, %"),
        xlabel="t, along exp(−tA) into O(3)^d",
        caption=f"S-Dist of VEC of finite width, without the bias of finite ensembles, and test accuracy of single "
        f"networks, with 95 % intervals over {settings.members} members. Dotted: GAP of that width on images as they "
        "are; dashed: infinitely wide VEC.",
        alt="S-Dist and accuracy against the place on the path",
    ) as drawn:
        for width, colour in drawing.shades_of(settings.widths):
            for axes, other in zip(drawn, OTHERS, strict=False):
                found = [drawing.drawable(distance(results, other, width, t)) for t in settings.times]
                drawing.estimates(axes, settings.times, found, colour, label=f"width {width}")
            right = [drawing.drawable(results.accuracy(width, t)) for t in settings.times]
            drawing.estimates(drawn[2], settings.times, right, colour)
            drawn[2].axhline(results.gap_accuracy(width).value, color=colour, lw=0.9, ls=":")
        for axes in (drawn[0], drawn[1]):
            axes.axhline(0, color=palette.MUTED.light, lw=0.8)
        drawn[2].axhline(results.limit_accuracy, color=palette.MUTED.light, lw=0.9, ls=(0, (4, 2)))
    return drawn.figure
