"""How VEC against width is shown: Figure 3, the images, and a table of runs."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Section, Table, palette, with_interval
from equitangents_studies.common.counted_runs import COUNTED
from equitangents_studies.common.input_pictures import picture_grid
from equitangents_studies.finite_width_vec.results import GROUPS, INFERENCES, Results, Settings
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, panels, table

_COLOURS = {"I": palette.BLUE, "O(3)^d": palette.VERMILLION}
_TITLES = {"I": "as they are", "O(3)^d": "rotated by O(3)^d"}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """The table, figures and facts."""
    s = settings
    text = (
        f"{s.runs} runs of every kind, each with {s.train_images:,} training and {s.test_images:,} test images, a "
        f"rotation and initial weights of its own, and the highest test accuracy along training. A run counts from "
        f"{100 * COUNTED:.0f} % training accuracy on; widths are shown with {s.needed} runs or more that count."
    )
    sections = [
        Section("Images", [], [_pictures(s, results, folder)]),
        Section("Accuracy against width", [text], [_figure(s, results, folder), _table(s, results)]),
    ]
    facts = {
        "Data": f"{results.source}, {s.pixels}×{s.pixels} pixels",
        "Networks": f"VEC of {s.depth} hidden layers, NTK parametrisation, trained for at most {s.epochs:,} epochs",
    }
    return Presentation({"runs": _rows(results)}, sections, facts)


def _rows(results: Results) -> Columns:
    """One row for every run; of the NTK without a width."""
    rows: list[tuple[object, ...]] = [
        (how, group, width, r, results.best[how, group][i, r], results.last[how, group][i, r],
         results.learnt[how, group][i, r])
        for how, group in results.best for i, width in enumerate(results.widths)
        for r in range(results.best[how, group].shape[1])
    ]  # fmt: skip
    rows += [("NTK", g, "", r, float(v), float(v), 1.0) for g in GROUPS for r, v in enumerate(results.limit[g])]
    return columns(("inference", "group", "width", "run", "best_accuracy", "last_accuracy", "training_accuracy"), rows)


def _pictures(s: Settings, results: Results, folder: RunFolder) -> Figure:
    count = results.pictures.shape[1]
    return picture_grid(
        folder,
        "images",
        list(results.pictures),
        [_TITLES[g] if i == 0 else "" for g in GROUPS for i in range(count)],
        size=(1.5 * count, 3.4),
        caption=f"The first run’s images as the networks see them, {s.pixels}×{s.pixels} pixels.",
        alt="Sample images as they are and with channels rotated at every position",
        fontsize=8,
    )


def _figure(s: Settings, results: Results, folder: RunFolder) -> Figure:
    with panels(
        folder,
        "accuracy",
        titles=INFERENCES,
        xlabel="channels",
        ylabel="test accuracy, %",
        sharey=True,
        caption=f"Mean test accuracy of VEC with 95 % intervals over runs that count, at widths with {s.needed} or "
        "more of them. Bands: infinitely wide VEC, 95 % intervals over the same images.",
        alt="Accuracy of VEC against width, with and without rotations",
    ) as drawn:
        for axes, how in zip(drawn, INFERENCES, strict=True):
            for k, group in enumerate(GROUPS):
                colour, wide = _COLOURS[group].light, drawing.drawable(results.wide(group))
                values = {w: results.accuracy(how, group, w) for w in results.widths}
                shown = {w: drawing.drawable(e) for w, e in values.items() if np.isfinite(e.value)}
                place = np.array(list(shown)) * 1.04 ** (k - 0.5)
                drawing.estimates(axes, place, list(shown.values()), colour, label=_TITLES[group])
                axes.axhspan(wide.low, wide.high, color=colour, alpha=0.12, lw=0)
                axes.axhline(wide.value, color=colour, lw=0.9, ls=(0, (4, 2)), label=f"NTK, {_TITLES[group]}")
            axes.set_xlim(results.widths[0] * 0.8, results.widths[-1] * 1.25)
            drawing.logarithmic(axes, "x", results.widths, base=2)
            axes.tick_params(colors=palette.MUTED.light)
        drawn.legend()
    return drawn.figure


def _table(s: Settings, results: Results) -> Table:
    rows: list[list[object]] = []
    for how, group in results.best:
        cells = []
        for w in results.widths:
            e, count = results.accuracy(how, group, w), results.successful(how, group, w)
            number = with_interval(e.value, e.interval) if np.isfinite(e.value) else "–"
            cells.append(f"{number}; {count} of {s.runs}")
        rows.append([f"{how}, {group}", *cells])
    for group in GROUPS:
        rows.append([f"NTK, {group}", *[""] * (len(results.widths) - 1), results.wide(group)])
    caption = (
        "Test accuracy in percent by width, in brackets 95 % intervals, and how many runs count; in the last column "
        "that of the NTK."
    )
    return table(caption, ["", *(str(w) for w in results.widths)], rows)
