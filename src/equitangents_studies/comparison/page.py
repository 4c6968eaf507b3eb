"""How the comparison is shown: one table, a recommendation, accuracy and invariance against cost, the inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.ticker import LogLocator

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate
from equitangents_studies import baselines
from equitangents_studies.baselines.turned_filters import exact_on_filters
from equitangents_studies.common.input_pictures import input_pictures
from equitangents_studies.comparison.claims import STATED, lag_table, stand_in, stated, stated_text
from equitangents_studies.comparison.settings import COSTS, MEASURES, Results, Settings, covers, pairs
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, Shown, columns, drawing, table
from equitangents_studies.framework.records import in_words

_MARKS = "osD^vPX"
_SET_LOOK = (palette.GREEN, palette.PURPLE, palette.ORANGE, palette.VERMILLION, palette.MUTED)


_SHORT = {
    "ensemble": "ensemble", "augmented": "one network", "gcnn": "group convolutions",
    "gcnn-augmented": "group convolutions,\non turned images", "canonicalisation": "canonicalisation",
    "canonicalisation-augmented": "canonicalisation,\non turned images",
}  # fmt: skip


Found = Mapping[str, tuple[Estimate, Mapping[str, Estimate]]]
"""By baseline: its number over all foreign inputs, and that on each set."""


def found_of(results: Results) -> Found:
    """What the source has numbers of, and what stands in for it."""
    chosen = dict.fromkeys(name for base in STATED for name in (base, stand_in(results, base)))
    return {
        name: (
            results.estimate(results.labels[name], "outside"),
            {results.images.titles[s]: results.on(results.labels[name], s) for s in results.foreign},
        )
        for name in chosen
        if name in results.labels
    }


def beside_the_source(settings: Settings, results: Results, folder: RunFolder) -> list[Figure | Table]:
    """The first section of the page, where there is something to set beside the source's."""
    found = found_of(results)
    if not found:
        return []
    group, over = settings.group, covers(settings)
    return [_beside_figure(found, group, results.order, folder), _by_set(results, found, group, over)]


def _beside_figure(found: Found, group: str, order: int, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "beside-the-source",
        size=(8.6, 3.6),
        ylabel=f"orbit same predictions, of {order}",
        caption=(
            "Out of distribution: our mean with its 95 % interval (blue), by set of inputs (small), and "
            "the source’s number with its error (grey)."
        ),
        alt="Orbit same predictions of the baselines beside those of the source",
    ) as drawn:
        (axes,) = drawn
        first = next(iter(found.values()))[1]
        for i, (name, (whole, by_set)) in enumerate(found.items()):
            theirs = stated(name, group)
            if theirs is not None:
                label = "source" if i == 0 else None
                axes.errorbar(
                    [i - 0.18], [theirs[0]], yerr=[theirs[1]], fmt="D", ms=6, color=palette.MUTED.light, capsize=3,
                    label=label,
                )  # fmt: skip
            drawing.estimates(axes, [i], [whole], palette.BLUE.light, fmt="o", ms=7, label="ours" if i == 0 else None)
            for k, e in enumerate(by_set.values()):
                label = list(first)[k] if i == 0 else None
                axes.plot(
                    [i + 0.14 + 0.08 * k], [e.value], _MARKS[k % 7], ms=4, color=_SET_LOOK[k % 5].light, label=label
                )
        axes.axhline(order, color=palette.INK.light, lw=0.8, ls=(0, (3, 3)))
        axes.set_xticks(range(len(found)), [_SHORT.get(name, name) for name in found])
        axes.set_xlim(-0.5, len(found) - 0.2)
    return drawn.figure


def _by_set(results: Results, found: Found, group: str, over: str) -> Table:
    sets = list(next(iter(found.values()))[1])
    rows = [
        [
            results.titles[name],
            in_words(whole),
            stated_text(name.removesuffix("-augmented"), group) or "–",
            *(f"{by_set[s].value:.2f}" for s in sets),
        ]
        for name, (whole, by_set) in found.items()
    ]
    return table(
        f"Orbit same predictions, of {results.order}; in brackets 95 % intervals over {over}.",
        ["", "ours", "source", *sets],
        rows,
    )


_WORDS = {
    "upright": "accuracy, upright",
    "rotated": "accuracy, all orientations",
    "inside": "OSP, test images",
    "outside": "OSP, foreign images",
}
HEADER = ("", "parameters", "training, s", "1,000 images, s", "multiplications", *_WORDS.values(), "source, OSP")
_FLOOR = "resampling floor"
_LOOK = (palette.BLUE, palette.VERMILLION, palette.GREEN, palette.PURPLE, palette.ORANGE, palette.INK, palette.MUTED)


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    problem = results.problem
    tables = {
        "baselines": baseline_table(results),
        "costs": cost_table(results),
        "by_set": set_table(results),
        "pairs": pair_table(results),
    }
    if results.curves:
        tables["small_networks"] = curve_table(results)
    shown: list[Shown] = [
        *beside_the_source(settings, results, folder),
        lag_table(settings, results),
        _main_table(settings, results),
        _cost_figure(results, folder),
    ]
    if results.curves:
        shown += [_trade_off(results, folder)]
    if results.left_out:
        rows = [(baselines.find(name).title, why) for name, why in results.left_out.items()]
        shown.append(table("Baselines that cannot run on this problem.", ["", "reason"], rows))
    shown += [input_pictures(folder, problem.action, results.images.sets, results.images.titles)]
    return Presentation(tables, shown)


def _repetitions(settings: Settings) -> str:
    return f"{settings.repetitions} repetition" + ("" if settings.repetitions == 1 else "s")


def _amount(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _main_table(settings: Settings, results: Results) -> Table:
    rows = []
    for name, labels in results.labels.items():
        kind = "" if exact_on_filters(settings.group) or not name.startswith("gcnn") else ", steerable filters"
        costs = [results.cost(name, c) for c in ("parameters", "training_seconds", "inference_seconds")]
        numbers = [results.estimate(labels, m) for m in MEASURES]
        times, products = (f"{costs[1]:.3g}", f"{costs[2]:.2g}"), _amount(results.cost(name, "multiplications"))
        rows.append(
            [
                results.titles[name] + kind,
                _amount(costs[0]),
                *times,
                products,
                *numbers,
                stated_text(name, settings.group),
            ]
        )
    if results.floor:
        numbers = [results.estimate(results.floor, m) for m in MEASURES]
        rows.append([_FLOOR, "", "", "", "", *numbers, ""])
    return table(
        f"Means over {_repetitions(settings)}; in brackets 95 % intervals over {covers(settings)}. "
        "Costs are medians. The source’s numbers (arXiv 2403.03103) are of rotated Fashion-MNIST, out of distribution, "
        f"out of {results.order}.",
        HEADER,
        rows,
    )


def baseline_table(results: Results) -> Columns:
    """One row per baseline and measure."""
    rows = []
    for name, labels in {**results.labels, **({_FLOOR: results.floor} if results.floor else {})}.items():
        for which in MEASURES:
            e = results.estimate(labels, which)
            of_source = stated_text(name, results.problem.group) if which == "outside" else ""
            rows.append((name, which, e, of_source))
    return columns(("baseline", "measure", "value", "low", "high", "source"), rows)


def cost_table(results: Results) -> Columns:
    """What every baseline took in every repetition."""
    rows = [
        (name, r + 1, *(float(costs[which][r]) for which in COSTS))
        for name, costs in results.costs.items()
        for r in range(len(costs[COSTS[0]]))
    ]
    return columns(("baseline", "repetition", *COSTS), rows)


def set_table(results: Results) -> Columns:
    """Orbit same predictions by baseline, repetition and set."""
    rows = [
        (name, r + 1, results.images.titles[s], float(mean))
        for name, labels in results.labels.items()
        for s, y in labels.items()
        for r, mean in enumerate(results.agreement(y).mean(axis=-1))
    ]
    return columns(("baseline", "repetition", "inputs", "orbit_same_predictions"), rows)


def pair_table(results: Results) -> Columns:
    """Paired differences with intervals that hold together."""
    rows = []
    for which in ("rotated", "outside"):
        found = pairs(results, which)
        for (a, b), e in zip(found.rows, found.estimates, strict=True):
            rows.append((which, a, b, e, _apart(e)))
    return columns(("measure", "baseline", "other", "difference", "low", "high", "distinguishable"), rows)


def _apart(e: Estimate) -> bool:
    return bool(e.low > 0 or e.high < 0)


def curve_table(results: Results) -> Columns:
    """Ensembles of small networks by channels and members."""
    rows = []
    for curve in results.curves.values():
        for j, size in enumerate(curve.sizes):
            labels = {name: y[j] for name, y in curve.labels.items()}
            for which in MEASURES:
                e = results.estimate(labels, which)
                channels = " ".join(map(str, curve.channels))
                rows.append((channels, int(size), int(size) * curve.multiplications, which, e))
    return columns(("channels", "members", "multiplications", "measure", "value", "low", "high"), rows)


def _cost_figure(results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy-and-invariance-against-cost",
        titles=(_WORDS["rotated"].capitalize(), f"OSP on foreign images, of {results.order}"),
        size=(8.6, 4.0),
        xlabel="training, seconds of processors",
        caption="Every baseline: mean over repetitions with its 95 % interval against the seconds of one training. "
        "Dashed: the resampling floor, of groups that resample pixels.",
        alt="Accuracy and orbit same predictions of every baseline against training time",
    ) as drawn:
        for axes, which in zip(drawn, ("rotated", "outside"), strict=True):
            for i, (name, labels) in enumerate(results.labels.items()):
                e = results.estimate(labels, which)
                look = {"fmt": "osD^vPX<>h"[i % 10], "label": results.titles[name]}
                drawing.estimates(
                    axes, [max(results.cost(name, "training_seconds"), 1e-3)], [e], _LOOK[i % 7].light, **look
                )
            if results.floor and which == "outside":
                axes.axhline(
                    results.estimate(results.floor, which).value, color=palette.MUTED.light, lw=0.9, ls=(0, (3, 3))
                )
            drawing.logarithmic(axes, "x")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        drawn.legend(columns=3)
    return drawn.figure


def _trade_off(results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "many-small-or-one-equivariant",
        titles=(_WORDS["rotated"].capitalize(), f"OSP on foreign images, of {results.order}"),
        size=(8.6, 3.8),
        xlabel="multiplications per prediction",
        caption=(
            "Augmented ensembles of 1, 2, 4, … networks by their channels, and one group-convolutional "
            "network (diamond), with 95 % intervals."
        ),
        alt="Accuracy and orbit same predictions against multiplications for ensembles of small networks",
    ) as drawn:
        for axes, which in zip(drawn, ("rotated", "outside"), strict=True):
            for colour, curve in zip(_LOOK, results.curves.values(), strict=False):
                at = [
                    results.estimate({s: y[j] for s, y in curve.labels.items()}, which) for j in range(len(curve.sizes))
                ]
                label = f"{' and '.join(map(str, curve.channels))} channels"
                drawing.estimates(axes, curve.sizes * curve.multiplications, at, colour.light, label=label)
            if "gcnn" in results.labels:
                e = results.estimate(results.labels["gcnn"], which)
                look = {"fmt": "D", "ms": 6, "label": results.titles["gcnn"]}
                drawing.estimates(axes, [results.gcnn_multiplications], [e], palette.INK.light, **look)
            axes.set_xscale("log")
        drawn.legend(columns=4)
    return drawn.figure
