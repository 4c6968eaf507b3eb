"""What is claimed and shown of networks of finite width: does the exponent of their learning curves grow with data?"""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Section, Table, palette
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.framework.claims import Claim, claim, in_words, theirs
from equitangents_studies.framework.page import RunFolder, drawing, section, table
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.learning_curves.settings import GROWTH, Results, Settings, half_growth
from equitangents_studies.systems.descent import GradientInference

_ROTATED = "O(3)^d"
_PLACE = "§6.1, Figure 4"
_COLOURS = {
    ("VEC", "I"): palette.BLUE,
    ("VEC", _ROTATED): palette.VERMILLION,
    ("LCN", "I"): palette.PURPLE,
    ("GAP", "I"): palette.GREEN,
    ("GAP", _ROTATED): palette.ORANGE,
    ("FCN", "I"): palette.INK,
}
_IN_FULL = {"VEC on rotated images": "VEC on images whose positions are rotated one by one", "LCN": "LCN"}
_UNTRIED = "The source has 45,000 images of 32×32 pixels and other networks; what of that matters was not tried."
_SEEN = "runs, each with images, a rotation and initial weights of its own"


def growths(settings: Settings, results: Results) -> dict[str, Estimate]:
    """By how much the exponent of each kind of network grows, over runs; nothing of fewer than four sizes."""
    return {label: t_interval(runs) for label, runs in _growths(settings, results).items()}


def _growths(settings: Settings, results: Results) -> dict[str, np.ndarray]:
    """The same by run: run r of every kind of network has the same training and test images."""
    sizes = np.array(settings.network_sizes)
    if len(sizes) < 4:
        return {}
    return {_label(*key): half_growth(sizes, errors) for key, errors in results.networks.items()}


def trained_claims(settings: Settings, results: Results) -> list[Claim]:
    """The source's: the exponent of VEC grows with data, but not on rotated images, and not that of LCN."""
    found, covers = [], (_SEEN, settings.members)
    by_run = _growths(settings, results)
    numbers = growths(settings, results)
    measure = (
        "Exponent of the classification error over the upper half of training sizes (in logarithms) minus that over "
        f"the lower half, by run; {settings.width} channels, {settings.network_depth} hidden layers, {results.source} "
        f"at {settings.pixels}×{settings.pixels} pixels, {settings.network_sizes[0]} to {settings.network_sizes[-1]:,} "
        "images."
    )
    grown = {label: e for label, e in numbers.items() if label == _label("VEC", "I")}
    if grown:
        (by,) = map(in_words, grown.values())
        found.append(
            claim(
                "Data improve the data efficiency of trained VEC: its exponent grows",
                grown,
                measure=measure,
                covers=covers,
                at_least=0,
                by=theirs(THEIRS, _PLACE, "the curve becomes steeper"),
                holds=f"Trained networks learn faster the more they have learnt: the exponent grows by {by}.",
                fails=f"The exponent of trained VEC changes by {by}.",
                undecided=f"The exponent of trained VEC changes by {by}, which may be nothing.",
                why=_UNTRIED,
            )
        )
    others = {label: e for label, e in numbers.items() if label in _IN_FULL}
    if grown and others:
        ahead = {label: t_interval(by_run[_label("VEC", "I")] - by_run[label]) for label in others}
        said = "; ".join(f"than that of {label} by {in_words(e)}" for label, e in ahead.items())
        found.append(
            claim(
                f"It grows more than that of {' and that of '.join(_IN_FULL[label] for label in others)}",
                ahead,
                measure="Growth of the exponent of trained VEC minus the other’s, by run, with the same training and "
                "test images.",
                covers=covers,
                at_least=0,
                by=theirs(THEIRS, _PLACE, "that curve alone becomes steeper"),
                holds=f"Shared weights pay more, the more images there are that fit them: it grows more {said}.",
                fails=f"It does not grow more: {said}.",
                undecided=f"It grows more {said}: not all of that is told from 0.",
                why=_UNTRIED,
            )
        )
    if others:
        said = "; ".join(f"{label} {in_words(e)}" for label, e in others.items())
        found.append(
            claim(
                f"That effect disappears for {' and for '.join(_IN_FULL[label] for label in others)}: the exponent "
                "does not grow",
                others,
                measure=f"{measure} A growth below {GROWTH:g}, our margin, counts as none.",
                covers=covers,
                at_most=GROWTH,
                by=theirs(THEIRS, _PLACE, "the effect disappears there, too"),
                holds=f"Exponents grow by less than {GROWTH:g}: {said}.",
                fails=f"Exponents grow here, too: {said}.",
                undecided=f"Exponents grow by {said}, which the margin does not decide.",
                why=_UNTRIED,
            )
        )
    return found


def trained_finding(settings: Settings, results: Results) -> str:
    """The title of a page whose networks were trained at sizes enough; else nothing."""
    numbers = growths(settings, results)
    if _label("VEC", "I") not in numbers:
        return ""
    own, *others = _in_order(numbers)
    by = {label: in_words(e).partition(" ")[0] for label, e in numbers.items()}  # as the first sentence has them
    beside = " and of ".join(f"{label} by {by[label]}" for label in others)
    told = f"With data the exponent of trained {own} {_verb(numbers[own])} by {by[own]}"
    return f"{told}, that of {beside}" if beside else told


def trained_sentence(settings: Settings, results: Results) -> str:
    """Our numbers, with the source's words on them."""
    numbers = growths(settings, results)
    if _label("VEC", "I") not in numbers:
        return ""
    own, *others = (f"{label} {_verb(numbers[label])} by {in_words(numbers[label])}" for label in _in_order(numbers))
    beside = f"; that of {', that of '.join(others)} (source: these do not grow)" if others else ""
    return (
        f"between {settings.network_sizes[0]} and {settings.network_sizes[-1]:,} images of {settings.pixels}×"
        f"{settings.pixels} pixels the exponent of trained {own} (source: it grows){beside}"
    )


def trained_section(settings: Settings, results: Results, folder: RunFolder) -> Section:
    """Errors of trained networks, in a figure and a table."""
    told = (
        f"Networks of {settings.width} channels and {settings.network_depth} hidden layers, trained by gradient "
        f"descent with momentum until all training images are right, for {GradientInference().epochs} epochs at most, "
        f"{settings.members} times at each size."
    )
    return section("Trained networks", told, _figure(settings, results, folder), _errors(settings, results))


def _figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "trained",
        titles=("trained networks",),
        xlabel="training images",
        ylabel="classification error",
        caption="Classification error on images not trained on, means over "
        f"{settings.members} runs with 95 % intervals.",
        alt="Classification error of trained networks against training images",
    ) as drawn:
        (axes,) = drawn
        for key, errors in results.networks.items():
            values = [t_interval(row, bounds=(0, 1)) for row in errors]
            drawing.estimates(axes, settings.network_sizes, values, _COLOURS[key].light, label=_label(*key), fmt="o-")
        drawing.logarithmic(axes, "both", fine=True)
    return drawn.figure


def _errors(settings: Settings, results: Results) -> Table:
    rows = [
        [_label(*key), *(t_interval(row, bounds=(0, 1)) for row in errors)] for key, errors in results.networks.items()
    ]
    header = ["", *(f"{n:,} images" for n in settings.network_sizes)]
    return table("Classification errors of trained networks (NN); in brackets 95 % intervals.", header, rows)


def _label(model: str, group: str) -> str:
    return model if group == "I" else f"{model} on rotated images"


def _in_order(numbers: dict[str, Estimate]) -> list[str]:
    """Trained VEC, then those of which the source says that theirs do not grow."""
    return [_label("VEC", "I"), *(label for label in numbers if label in _IN_FULL)]


def _verb(e: Estimate) -> str:
    return "grows" if e.low > 0 else "changes"
