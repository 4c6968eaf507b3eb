"""Claims about baselines, tables, and figures against cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import LogLocator

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, exactly, shared_level
from equitangents_studies import baselines
from equitangents_studies.baselines.rotated_filters import exact_on_filters
from equitangents_studies.comparison.study import (
    ACCURACY,
    AGREEMENT,
    MEASURES,
    PRESETS,
    ComparisonResults,
    ComparisonSettings,
    best_of,
    check_settings,
    covers,
    good_enough,
    lag,
    measure,
)
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import EXACT, Claim, Records, agreement, cell, claim, ours, table, theirs
from equitangents_studies.framework.study import RunFolder, Shown, Study

STATED: dict[str, dict[str, tuple[float, float]]] = {  # orbit same predictions out of distribution, and their errors
    "ensemble": {"C4": (3.85, 0.12), "C8": (7.72, 0.34), "C16": (15.24, 0.69)},
    "augmented": {"C4": (3.41, 0.18), "C8": (6.73, 0.24), "C16": (12.77, 0.71)},
    "gcnn": {"C4": (4.0, 0.0), "C8": (7.71, 0.21), "C16": (15.08, 0.34)},
    "canonicalisation": {"C4": (4.0, 0.0), "C8": (7.45, 0.14), "C16": (12.41, 0.85)},
}
PLACE = "comparison table of the slides"
UPRIGHT = ("gcnn", "canonicalisation")  # here trained on upright images
_BY_CONSTRUCTION = (
    "gcnn", "gcnn-augmented", "gcnn-ensemble", "canonicalisation", "canonicalisation-augmented", "test-time",
)  # fmt: skip


def claims(settings: ComparisonSettings, results: ComparisonResults) -> Sequence[Claim]:
    """The source's claims, and our comparison of baselines."""
    judged: list[Claim] = []
    present, over = results.labels, covers(settings)
    osp = f"Orbit same predictions on {', '.join(results.images.titles[name] for name in results.foreign)}"
    if {"ensemble", "augmented"} <= present.keys():
        whole = results.difference(present["ensemble"], present["augmented"], "outside", 0.95)
        of = lambda name: results.ahead(present["ensemble"], present["augmented"], name)
        judged.append(
            claim(
                "Out of distribution the augmented ensemble agrees with itself more often than one augmented network",
                Records.over(of, lambda name: results.images.titles[name], name=results.foreign),
                measure=f"{osp}: ensemble of {settings.members} minus one network, out of {results.order}.",
                covers=over,
                at_least=0,
                aggregate=("all of these inputs", whole),
                by=theirs(EMERGENT_EQUIVARIANCE, PLACE, _stated_pair(settings.group)),
            )
        )
    exact = [name for name in _BY_CONSTRUCTION if name in present]
    if exact and results.problem.action.exact:
        least = lambda name: exactly(results.least(present[name]))
        judged.append(
            claim(
                "Baselines with built-in invariance give every orientation of every image the same class",
                Records.over(least, lambda name: results.titles[name], name=tuple(exact)),
                measure=f"Orbit same predictions on the worst input of all sets and repetitions, of {results.order}.",
                covers=EXACT,
                at_least=results.order,
                by=theirs(EMERGENT_EQUIVARIANCE, PLACE, "4 ± 0 for C4"),
            )
        )
    others = [name for name in present if name != "plain"]
    if "plain" in present and others:
        level = shared_level(len(others))
        judged.append(
            claim(
                "Every baseline that knows of the group is more accurate on rotated images than the plain network",
                Records.over(
                    lambda name: results.difference(present[name], present["plain"], "rotated", level),
                    lambda name: results.titles[name],
                    name=tuple(others),
                ),
                measure="Accuracy over the orbits of the test images, minus the plain network’s.",
                covers=over,
                at_least=0,
                by=ours("ours: the plain network is the reference"),
            )
        )
    if results.curves and "gcnn" in present:
        judged.append(_small_against_one(results, over))
    if settings.data == "fashion_mnist":
        judged += [
            _as_stated(settings, results, name, over)
            for name in STATED
            if stand_in(results, name) in present and stated(name, settings.group)
        ]
    if not judged:
        worst = lambda name: results.estimate(present[name], "outside", shared_level(len(present)))
        judged.append(
            claim(
                "Every baseline gives at least half of the orientations of foreign images the same class",
                Records.over(worst, lambda name: results.titles[name], name=tuple(present)),
                measure=f"{osp}, out of {results.order}.",
                covers=over,
                at_least=results.order / 2,
                by=ours("ours"),
            )
        )
    return judged


def _small_against_one(results: ComparisonResults, over: str) -> Claim:
    level = shared_level(len(results.curves))

    def ahead(shrink: int) -> Estimate:
        largest = {name: labels[-1] for name, labels in results.curves[shrink].labels.items()}
        return results.difference(largest, results.labels["gcnn"], "rotated", level)

    def label(shrink: int) -> str:
        curve = results.curves[shrink]
        return f"{curve.sizes[-1]} networks of {' and '.join(map(str, curve.channels))} channels"

    return claim(
        "At no more than the cost of one group-convolutional network, ensembles of small augmented networks are at "
        "least as accurate on rotated images",
        Records.over(ahead, label, shrink=tuple(results.curves)),
        measure="Accuracy over the orbits of the test images: ensemble minus the group-convolutional network, at no "
        "more multiplications.",
        covers=over,
        at_least=0,
        by=ours("ours: the question of cost"),
    )


def stated(name: str, group: str) -> tuple[float, float] | None:
    """The source's number and error for a baseline or the one it stands in for; None if there is none."""
    return STATED.get(name.removesuffix("-augmented"), {}).get(group)


def stated_text(name: str, group: str) -> str:
    """The source's number as text; empty if there is none."""
    value = STATED.get(name, {}).get(group)
    return "" if value is None else f"{value[0]:g} ± {value[1]:g}"


def _stated_pair(group: str) -> str:
    texts = [stated_text(name, group) for name in ("ensemble", "augmented")]
    return f"{texts[0]} against {texts[1]} (rotated Fashion-MNIST)" if all(texts) else ""


def stand_in(results: ComparisonResults, name: str) -> str:
    """Our baseline for the source's `name`: preferably one trained on rotated images, as the source's are."""
    return f"{name}-augmented" if f"{name}-augmented" in results.labels else name


def _as_stated(settings: ComparisonSettings, results: ComparisonResults, name: str, over: str) -> Claim:
    """Agreement of one baseline's number with the source's; `stand_in` chooses the baseline."""
    value, error = STATED[name][settings.group]
    chosen = stand_in(results, name)
    number, title = results.estimate(results.labels[chosen], "outside"), results.titles[chosen]
    if error == 0:  # stated to be exact: the mean is at its bound if every input is
        number, over = exactly(number.value), EXACT
    upright = " It was trained on upright images, the source’s on rotated ones." * (chosen in UPRIGHT)
    by_set = {results.images.titles[s]: results.on(results.labels[chosen], s) for s in results.foreign}
    return agreement(
        f"Orbit same predictions out of distribution: {title}",
        number,
        stated_value=value,
        stated_std=error,
        numbers=by_set,
        measure=f"{title}, out of {results.order}, mean over {', '.join(by_set)}.{upright}",
        covers=over,
        by=theirs(EMERGENT_EQUIVARIANCE, PLACE),
    )


_MARKS = "osD^vPX"
_SET_LOOK = (palette.GREEN, palette.PURPLE, palette.ORANGE, palette.VERMILLION, palette.MUTED)


_SHORT = {
    "ensemble": "ensemble", "augmented": "one network", "gcnn": "group convolutions",
    "gcnn-augmented": "group convolutions,\non rotated images", "canonicalisation": "canonicalisation",
    "canonicalisation-augmented": "canonicalisation,\non rotated images",
}  # fmt: skip


def _against_the_source(settings: ComparisonSettings, results: ComparisonResults, folder: RunFolder) -> list[Figure]:
    """Figure of the source's numbers and ours."""
    named = [name for base in STATED for name in (base, stand_in(results, base)) if name in results.labels]
    chosen, order = list(dict.fromkeys(named)), results.order
    if not chosen:
        return []
    with drawing.panels(
        folder,
        "against-the-source",
        size=(8.6, 3.6),
        ylabel=f"orbit same predictions, of {order}",
        caption=(
            "Out of distribution: our mean with its 95 % interval (blue), by set of inputs (small), and "
            "the source’s number with its error (grey)."
        ),
        alt="Orbit same predictions of the baselines and of the source",
    ) as drawn:
        (axes,) = drawn
        for i, name in enumerate(chosen):
            labels, once = results.labels[name], lambda text, i=i: text if i == 0 else None
            if (of_source := stated(name, settings.group)) is not None:
                value, error = of_source
                grey = palette.MUTED.light
                axes.errorbar([i - 0.18], [value], [error], fmt="D", ms=6, color=grey, capsize=3, label=once("source"))
            whole = results.estimate(labels, "outside")
            drawing.estimates(axes, [i], [whole], palette.BLUE.light, fmt="o", ms=7, label=once("ours"))
            for k, foreign in enumerate(results.foreign):
                place, title = i + 0.14 + 0.08 * k, once(results.images.titles[foreign])
                value, colour = results.on(labels, foreign).value, _SET_LOOK[k % 5].light
                axes.plot([place], [value], _MARKS[k % 7], ms=4, color=colour, label=title)
        axes.axhline(order, color=palette.INK.light, lw=0.8, ls=(0, (3, 3)))
        axes.set_xticks(range(len(chosen)), [_SHORT.get(name, name) for name in chosen])
        axes.set_xlim(-0.5, len(chosen) - 0.2)
    return [drawn.figure]


_WORDS = {
    "upright": "accuracy, upright",
    "rotated": "accuracy, all orientations",
    "inside": "OSP, test images",
    "outside": "OSP, foreign images",
}
HEADER = ("", "parameters", "training, s", "1,000 images, s", "multiplications", *_WORDS.values(), "source, OSP")
_NOISE_FLOOR = "resampling noise floor"
_LOOK = (palette.BLUE, palette.VERMILLION, palette.GREEN, palette.PURPLE, palette.ORANGE, palette.INK, palette.MUTED)


def present(settings: ComparisonSettings, results: ComparisonResults, folder: RunFolder) -> list[Shown]:
    """Baselines against the source, against the best baseline, in a table, and against cost."""
    shown: list[Shown] = [
        *_against_the_source(settings, results, folder),
        lag_table(settings, results),
        _main_table(settings, results),
        _cost_figure(results, folder),
    ]
    if results.left_out:
        rows = [(baselines.find(name).title, why) for name, why in results.left_out.items()]
        shown.append(table("Baselines that cannot run on this problem.", ["", "reason"], rows))
    return shown


def _amount(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _main_table(settings: ComparisonSettings, results: ComparisonResults) -> Table:
    rows = []
    for name, labels in results.labels.items():
        kind = "" if exact_on_filters(settings.group) or not name.startswith("gcnn") else ", steerable filters"
        cost = lambda which, name=name: results.cost(name, which)
        times = f"{cost('training_seconds'):.3g}", f"{cost('inference_seconds'):.2g}"
        numbers = [results.estimate(labels, m) for m in MEASURES]
        amounts = _amount(cost("parameters")), *times, _amount(cost("multiplications"))
        rows.append([results.titles[name] + kind, *amounts, *numbers, stated_text(name, settings.group)])
    if results.noise_floor:
        numbers = [results.estimate(results.noise_floor, m) for m in MEASURES]
        rows.append([_NOISE_FLOOR, "", "", "", "", *numbers, ""])
    return table(
        f"Means over repetitions ({settings.repetitions}); in brackets 95 % intervals over {covers(settings)}. "
        "Costs are medians. The source’s numbers (arXiv 2403.03103) are of rotated Fashion-MNIST, out of distribution, "
        f"out of {results.order}.",
        HEADER,
        rows,
    )


def _cost_figure(results: ComparisonResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy-and-invariance-against-cost",
        titles=(_WORDS["rotated"].capitalize(), f"OSP on foreign images, of {results.order}"),
        size=(8.6, 4.0),
        xlabel="training, seconds of processors",
        caption="Every baseline: mean over repetitions with its 95 % interval against the seconds of one training. "
        "Dashed: the noise floor of resampling, for groups that resample pixels.",
        alt="Accuracy and orbit same predictions of every baseline against training time",
    ) as drawn:
        for axes, which in zip(drawn, ("rotated", "outside"), strict=True):
            for i, (name, labels) in enumerate(results.labels.items()):
                e = results.estimate(labels, which)
                look = {"fmt": "osD^vPX<>h"[i % 10], "label": results.titles[name]}
                drawing.estimates(
                    axes, [max(results.cost(name, "training_seconds"), 1e-3)], [e], _LOOK[i % 7].light, **look
                )
            if results.noise_floor and which == "outside":
                axes.axhline(
                    results.estimate(results.noise_floor, which).value,
                    color=palette.MUTED.light,
                    lw=0.9,
                    ls=(0, (3, 3)),
                )
            drawing.logarithmic(axes, "x")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        drawn.legend(columns=3)
    return drawn.figure


def lag_table(settings: ComparisonSettings, results: ComparisonResults) -> Table:
    """Training cost of every baseline and its difference from the best, the cheapest first."""
    order = sorted(results.labels, key=lambda name: results.cost(name))
    enough = {measure: good_enough(settings, results, measure) for measure in (ACCURACY, AGREEMENT)}
    rows = [
        [
            results.titles[name],
            f"{results.cost(name):.3g}",
            *("best" if name == best_of(results, m) else cell(lag(results, m, name)) for m in enough),
            " and ".join(what for m, what in ((ACCURACY, "accuracy"), (AGREEMENT, "OSP")) if name in enough[m]) or "–",
        ]
        for name in order
    ]
    return table(
        "Differences from the best baseline, from the cheapest to train up; in brackets intervals over "
        f"{settings.repetitions} repetitions that hold together at 95 %. Little is at most "
        f"{100 * settings.tolerated:g} % of the images, or of the orientations.",
        ["", "training, s", "accuracy, all orientations", "OSP, foreign images", "shown to lose little in"],
        rows,
    )


STUDY = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
