"""How the comparison is shown: one table, a recommendation, accuracy and invariance against cost, the inputs."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import LogLocator

from equitangents.extending import formatting
from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate
from equitangents_studies import contenders
from equitangents_studies.common.images import is_own
from equitangents_studies.common.input_pictures import corners, input_pictures, why_foreign
from equitangents_studies.common.scores import FLOOR, floor_control
from equitangents_studies.comparison.claims import TURNED, UPRIGHT, lag_table, recommendation, stated_text
from equitangents_studies.comparison.settings import COSTS, MEASURES, Results, Settings, covers, pairs, small_channels
from equitangents_studies.comparison.source_page import beside_the_source, found_of
from equitangents_studies.contenders.turned_filters import exact_on_filters
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.framework.records import in_words

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
    """Tables, figures and words."""
    problem = results.problem
    tables = {
        "contenders": contender_table(results),
        "costs": cost_table(results),
        "by_set": set_table(results),
        "pairs": pair_table(results),
    }
    if results.curves:
        tables["small_networks"] = curve_table(results)
    over, foreign = covers(settings), ", ".join(results.images.titles[name] for name in results.foreign)
    sections = [
        *beside_the_source(settings, results, folder),
        section("What to use", *(recommendation(settings, results)), lag_table(settings, results)),
        section(
            "All contenders",
            f"Trained on {_training_images(results)}, in "
            f"{_repetitions(settings)}; {len(results.images.test_y):,} test images and foreign ones "
            f"({foreign}) are shown in all {results.order} orientations. Orbit same predictions (OSP) count the "
            f"orientations with the class of the image as it is, of {results.order}. All networks see every "
            f"training image {settings.epochs} times and have about as many parameters; an ensemble has them in "
            "every member. Seconds are of processors; multiplications are those of one prediction.",
            *why_foreign(results.images.titles),
            *_notes(settings, results),
            _main_table(settings, results),
            _cost_figure(results, folder),
        ),
    ]
    if results.curves:
        sections.append(
            section(
                "Many small networks, or one equivariant one",
                "Augmented ensembles of networks with as many or fewer channels against one group-convolutional "
                "network, at no more multiplications. All take the same number of training steps, so "
                "multiplications per prediction measure the cost of training too.",
                *_too_dear(settings, results),
                _trade_off(settings, results, folder),
            )
        )
    sections.append(
        section(
            "The inputs as the networks see them",
            "The first image of each set, standardised, in some of its orientations.",
            *corners(problem.action, settings.zero),
            input_pictures(folder, problem.action, results.images.sets, results.images.titles),
        )
    )
    split = "Own file" + (f", split by seed {settings.seed} unless it has x_test" if is_own(settings.data) else "")
    height, width, _ = problem.shape
    facts = {
        "Data": f"{results.images.titles['test']}, {height}×{width}" + (f". {split}" if is_own(settings.data) else ""),
        "Group": f"{settings.group}, " + ("pixels move to pixels" if problem.action.exact else _resampled(settings)),
        "Networks": f"{' and '.join(map(str, settings.channels))} channels, Adam, step {settings.learning_rate:g}",
        "Intervals": f"95 %, over {over}",
    }
    return Presentation(tables, sections, facts, finding(settings, results), sentence(settings, results))


def _training_images(results: Results) -> str:
    """How many of which images, and whether every contender sees them turned."""
    count, title = f"{len(results.images.train_x):,}", results.images.titles["test"]
    if results.labels.keys() <= set(TURNED):
        return f"{count} upright images of {title}, turned at random in training"
    return f"{count} images of {title} as they are"


def _resampled(settings: Settings) -> str:
    """What fills corners tells two runs of one group apart."""
    return "resampled, corners filled with the " + ("image’s mean" if settings.zero == "mean" else "border’s shade")


def _notes(settings: Settings, results: Results) -> list[str]:
    notes = []
    if settings.zero == "border":
        notes.append("Then every image is shifted once more, so that the median of its outermost pixels is 0.")
    notes += [f"Left out: {contenders.find(name).title}: {why}." for name, why in results.left_out.items()]
    notes += _not_run(settings, results)
    if not exact_on_filters(settings.group) and any(name.startswith("gcnn") for name in results.labels):
        notes.append(
            f"Filters of the group-convolutional networks for {settings.group} are 5×5 and sums of smooth functions, "
            "each turned as a function of the plane: invariance holds up to what pixels of filters and images lose."
        )
    if results.floor:
        scores = np.mean(
            [floor_control(results.problem.action, results.floor[name]).mean() for name in results.images.sets]
        )
        notes.append(
            f"{FLOOR} the same function reaches {scores:.4g} of 4. The networks are those of “"
            f"{results.titles[results.floor_of]}”."
        )
    if {"infinite", "invariant-kernel"} & results.labels.keys():
        said = f"Kernel machines are trained on the first {results.problem.kernel_images:,} training images"
        blocks = "; the invariant kernel sees them averaged over blocks of pixels"
        if "infinite" in results.labels and not results.problem.action.exact:
            rows = results.order * results.problem.kernel_images
            said += f", infinitely wide networks on all {results.order} orientations of each: {rows:,} inputs"
        notes.append(said + (blocks if "invariant-kernel" in results.labels else "") + ".")
    return notes


def _repetitions(settings: Settings) -> str:
    return f"{settings.repetitions} repetition" + ("" if settings.repetitions == 1 else "s")


def _not_run(settings: Settings, results: Results) -> list[str]:
    """Which of the standard contenders the settings leave out, and what the dearest of them would have cost."""
    notes, missing = [], [name for name in Settings().contenders if name not in settings.contenders]
    if missing:
        titles = ", ".join(contenders.find(name).title for name in missing)
        notes.append(f"Not among the contenders of this run: {titles}.")
    if "gcnn-ensemble" in missing and "gcnn" in results.labels:
        one, networks = results.cost("gcnn", "training_seconds"), settings.group_members * settings.repetitions
        notes[-1] += (
            f" The {settings.group_members} networks of a group-convolutional ensemble in {_repetitions(settings)} "
            f"would take about {formatting.duration(networks * one)} of processors, at {one:.3g} s a network."
        )
    if not settings.shrink and {"gcnn", "plain"} <= results.labels.keys():
        times = results.gcnn_multiplications / results.cost("plain", "multiplications")
        notes.append(
            "No ensembles of small networks were trained at the cost of one group-convolutional network "
            f"(`shrink` is empty): one such network takes as many multiplications as {times:.0f} plain ones."
        )
    return notes


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


def contender_table(results: Results) -> Columns:
    """One row per contender and measure."""
    rows = []
    for name, labels in {**results.labels, **({_FLOOR: results.floor} if results.floor else {})}.items():
        for which in MEASURES:
            e = results.estimate(labels, which)
            of_source = stated_text(name, results.problem.group) if which == "outside" else ""
            rows.append((name, which, e, of_source))
    return columns(("contender", "measure", "value", "low", "high", "source"), rows)


def cost_table(results: Results) -> Columns:
    """What every contender took in every repetition."""
    rows = [
        (name, r + 1, *(float(costs[which][r]) for which in COSTS))
        for name, costs in results.costs.items()
        for r in range(len(costs[COSTS[0]]))
    ]
    return columns(("contender", "repetition", *COSTS), rows)


def set_table(results: Results) -> Columns:
    """Orbit same predictions by contender, repetition and set."""
    rows = [
        (name, r + 1, results.images.titles[s], float(mean))
        for name, labels in results.labels.items()
        for s, y in labels.items()
        for r, mean in enumerate(results.agreement(y).mean(axis=-1))
    ]
    return columns(("contender", "repetition", "inputs", "orbit_same_predictions"), rows)


def pair_table(results: Results) -> Columns:
    """Paired differences with intervals that hold together."""
    rows = []
    for which in ("rotated", "outside"):
        found = pairs(results, which)
        for (a, b), e in zip(found.rows, found.estimates, strict=True):
            rows.append((which, a, b, e, _apart(e)))
    return columns(("measure", "contender", "other", "difference", "low", "high", "distinguishable"), rows)


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
        caption="Every contender: mean over repetitions with its 95 % interval against the seconds that one training "
        "took." + (f" Dashed: the {_FLOOR}." if results.floor else ""),
        alt="Accuracy and orbit same predictions of every contender against training time",
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


def _trade_off(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "many-small-or-one-equivariant",
        titles=(_WORDS["rotated"].capitalize(), f"OSP on foreign images, of {results.order}"),
        size=(8.6, 3.8),
        xlabel="multiplications per prediction",
        caption="Augmented ensembles of 1, 2, 4, … networks by their channels, and one group-convolutional network "
        f"(diamond), with 95 % intervals over {covers(settings)}.",
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


def _too_dear(settings: Settings, results: Results) -> list[str]:
    dear = [small_channels(settings, k) for k in settings.shrink if k not in results.curves]
    return [f"Left out, since one network costs more: {' and '.join(map(str, c))} channels." for c in dear]


def finding(settings: Settings, results: Results) -> str:
    """The page's title: the ensemble beside one of its networks, or else what was trained on turned images."""
    found = found_of(results)
    kept = {name: f"{whole.value:.2f}" for name, (whole, _) in found.items()}
    height, width, _ = results.problem.shape
    under = [
        *["grey corners"] * (settings.zero == "mean" and not results.problem.action.exact),
        *[f"{height}×{width} pixels"] * (settings.pixels is None),
    ]
    of = f"of {results.order} orientations of unfamiliar images" + f" with {' and '.join(under)}" * bool(under)
    if {"ensemble", "augmented"} <= found.keys():
        return (
            f"An ensemble of {settings.members} keeps its class in {kept['ensemble']} {of}, one augmented network in "
            f"{kept['augmented']}"
        )
    turned = [name for name in found if name not in UPRIGHT]
    if not turned:
        return ""
    source = {name: stated_text(name.removesuffix("-augmented"), settings.group) for name in turned}
    first, *others = (
        (_one(results.titles[name].split(",")[0]), kept[name], f" (source: {source[name]})" * bool(source[name]))
        for name in turned
    )
    more = "".join(f", {who} in {number}{said}" for who, number, said in others)
    return f"Trained on turned images, {first[0]} keeps its class in {first[1]} {of}{first[2]}{more}"


def _one(title: str) -> str:
    """One of the kind, as a sentence names it."""
    return f"one {title}" if title.endswith("network") and not title.startswith("one ") else title


def sentence(settings: Settings, results: Results) -> str:
    """Our numbers beside the source's."""
    found = found_of(results)
    upright = () if results.problem.action.exact else UPRIGHT
    named = [
        f"{results.titles[name]}{', trained on images as they are,' * (name in upright)} {in_words(whole)}"
        + (f", the source {said}" if (said := stated_text(name.removesuffix("-augmented"), settings.group)) else "")
        for name, (whole, _) in found.items()
    ]
    if not named:
        return ""
    data = results.images.titles["test"]
    return (
        f"All were trained on {data}; in so many of {results.order} orientations images unlike those keep their class: "
        f"{'; '.join(named)}."
    )
