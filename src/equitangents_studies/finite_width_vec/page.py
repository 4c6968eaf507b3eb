"""How VEC against width is shown: Figure 3, the images, and a table of runs."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents_studies.common.input_pictures import picture_grid
from equitangents_studies.common.system_runs import COUNTED
from equitangents_studies.finite_width_vec.study import GROUPS, INFERENCES, Results, Settings, best_width
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.framework.records import in_words

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
        section("Accuracy against width", text, _figure(s, results, folder), _table(s, results)),
        section("Images", _pictures(s, results, folder)),
    ]
    facts = {
        "Data": f"{results.source}, {s.pixels}×{s.pixels} pixels",
        "Networks": f"VEC of {s.depth} hidden layers, NTK parametrisation, trained for at most {s.epochs:,} epochs",
    }
    return Presentation(
        {"runs": _rows(results)}, sections, facts, finding=_finding(results), sentence=_sentence(s, results)
    )


def _finding(results: Results) -> str:
    """What was found of the source's best widths: against the mean, and against one infinitely wide network."""
    best = [(how, best_width(results.widths, how)) for how in INFERENCES]
    mean, single = (results.mean_of(best, "I", of) for of in ("mean", "draws"))
    sign = lambda e: 1 if e.low > 0 else -1 if e.high < 0 else 0
    words = {1: "better than", 0: "about as well as", -1: "worse than"}
    first, second = words[sign(single)], words[sign(mean)]
    if first == second:
        return f"VEC of finite width predicts {first} one infinitely wide network, and {second} their mean"
    return f"VEC of finite width predicts {first} one infinitely wide network, but {second} the mean of many"


def _sentence(s: Settings, results: Results) -> str:
    how = INFERENCES[0]
    width = best_width(results.widths, how)
    return (
        f"With {s.train_images:,} images of {s.pixels}×{s.pixels} pixels, single VEC networks of {width} channels "
        f"({how}) have {results.accuracy(how, 'I', width).value:.1f} % test accuracy, one infinitely wide network "
        f"{results.single('I').value:.1f} %, the mean of infinitely many {results.wide('I').value:.1f} % (source, with "
        "45,000 images of 32×32 pixels: 78 % at 64 channels, 67 % at infinite width)."
    )


def _rows(results: Results) -> Columns:
    """One row for every run; of the NTK without a width."""
    trained = results.best.table("best_accuracy", last_accuracy=results.last, training_accuracy=results.learnt)
    rows = list(zip(*trained.values(), strict=True))
    rows += [("NTK", g, "", r, float(v), float(v), 1.0) for g in GROUPS for r, v in enumerate(results.limit[g])]
    rows += [("one draw", g, "", r, float(v.mean()), float(v.mean()), 1.0)
             for g in GROUPS for r, v in enumerate(results.draws[g])]  # fmt: skip
    return columns(tuple(trained), rows)


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
    with drawing.panels(
        folder,
        "accuracy",
        titles=INFERENCES,
        xlabel="channels",
        ylabel="test accuracy, %",
        sharey=True,
        caption=f"Mean test accuracy of VEC with 95 % intervals over runs that count, at widths with {s.needed} or "
        "more of them. Dashed, with bands: infinitely wide VEC as the NTK, the mean of infinitely many; dotted: "
        f"one infinitely wide network, mean of {results.draws['I'].shape[1]} draws from its law on the same images.",
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
                one = results.single(group).value
                axes.axhline(one, color=colour, lw=0.9, ls=(0, (1, 2)), label=f"one draw, {_TITLES[group]}")
            axes.set_xlim(results.widths[0] * 0.8, results.widths[-1] * 1.25)
            drawing.logarithmic(axes, "x", results.widths, base=2)
            axes.tick_params(colors=palette.MUTED.light)
    return drawn.figure


def _table(s: Settings, results: Results) -> Table:
    rows: list[list[object]] = []
    for how, group in results.best:
        cells = []
        for w in results.widths:
            e, count = results.accuracy(how, group, w), results.successful(how, group, w)
            number = in_words(e) if np.isfinite(e.value) else "–"
            cells.append(f"{number}; {count} of {s.runs}")
        rows.append([f"{how}, {group}", *cells])
    for group in GROUPS:
        rows.append([f"NTK, {group}", *[""] * (len(results.widths) - 1), results.wide(group)])
        rows.append([f"one draw, {group}", *[""] * (len(results.widths) - 1), results.single(group)])
    caption = (
        "Test accuracy in percent by width, in brackets 95 % intervals, and how many runs count; in the last column "
        "that of the NTK and of one draw of GP(μ, Σ), one infinitely wide network."
    )
    return table(caption, ["", *(str(w) for w in results.widths)], rows)
