"""What is claimed of kernels that learn the largest training set: the source's accuracies, and how it orders them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, exactly, t_interval
from equitangents_studies.framework.claims import EXACT, By, Claim, agreement, claim, ours, theirs
from equitangents_studies.framework.page import RunFolder, drawing, table
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.learning_curves.settings import FIELDS, GROWTH, Results, Settings, half_growth, left, sizes_of

SOURCE = {"GAP": 77.0, "VEC": 67.0}  # per cent, infinite width, 45,000 images of CIFAR-10
FULL = 45_000
_ROUNDED = 0.5  # per cent by which its numbers may have been rounded
POINTS = "percentage points"


def whole_claims(settings: Settings, results: Results) -> list[Claim]:
    """VEC at the source's size against the source's number; with flips, and of FCN, what was measured."""
    found = []
    for model in settings.whole:
        numbers = {
            f"{field.upper()}{', with flips' if flips else ''}": share(results.whole[model, flips, field, "test"])
            for flips in (("", "-flips") if settings.flips else ("",)) for field in FIELDS
        }  # fmt: skip
        if model in SOURCE and full_size(settings) and not settings.flips:
            right = {field: results.accuracy_of_all(model, field, "test") for field in FIELDS}
            found.append(
                agreement(
                    f"Infinitely wide {model} classifies {SOURCE[model]:g} % after {FULL:,} images",
                    exactly(right["ntk"]), stated_value=SOURCE[model], stated_spread=_ROUNDED, unit="%",
                    measure=f"Accuracy of the NTK on {settings.whole_tested:,} test images of CIFAR-10; the source’s "
                    "number is rounded to one percent.",
                    covers=EXACT,
                    by=theirs(THEIRS, "Figure 2"),
                    numbers={field.upper(): exactly(value) for field, value in right.items()},
                )
            )  # fmt: skip
            continue
        found.append(
            claim(
                f"Accuracy of infinitely wide {model} after {settings.whole_images:,} training images",
                numbers,
                measure=f"Share of {settings.whole_tested:,} test images classified rightly"
                f"{'; with flips the training set is doubled' * settings.flips}.",
                covers="test images", at_least=0, unit="%",
                by=_nobody_s(settings, model),
            )
        )  # fmt: skip
    return [*found, *_in_order(settings, results)]


def ahead(models: Sequence[str], results: Results, field: str = "ntk") -> dict[str, Estimate]:
    """By how many percentage points each of the models classifies more test images than the one before it, paired."""
    right = {model: 100.0 * results.whole[model, "", field, "test"] for model in models}
    return {f"{b} over {a}": t_interval(right[b] - right[a]) for a, b in itertools.pairwise(models)}


def _in_order(settings: Settings, results: Results) -> list[Claim]:
    """Figure 2's order of architectures, where more than one learnt the largest training set."""
    named = [model for model in settings.whole if model != "LCN"]  # LCN is VEC at infinite width
    if len(named) < 2 or named != sorted(named, key=_order):
        return []
    numbers = ahead(named, results)
    return [
        claim(
            f"Infinitely wide networks classify better, the fewer symmetries they have: {' < '.join(named)}",
            numbers,
            measure=f"Accuracy of the NTK minus that of the one before, on the same {settings.whole_tested:,} test "
            f"images, after the same {settings.whole_images:,} training images.",
            covers="test images", at_least=0, unit=POINTS,
            by=theirs(THEIRS, "Figure 2"),
        )
    ]  # fmt: skip


def _order(model: str) -> tuple[int, int]:
    """From most symmetries to fewest: FCN, VEC, pools of 2×2, 4×4, …, and of all positions."""
    return ("FCN", "VEC", "LAP", "GAP").index(model[:3]), int(model[3:] or 0)


def _nobody_s(settings: Settings, model: str) -> By:
    """A number that the source does not have; that of the network without flips stands beside it."""
    if not full_size(settings):
        stated = f"{SOURCE[model]:g} % after {FULL:,}" if model in SOURCE else ""
        return ours(f"the network at a size that this run reaches; the source trains on {FULL:,} images", stated=stated)
    if model not in SOURCE:
        return ours("the source’s size; it shows no number of this network in words")
    said = "the source’s size; with its number, of no flips, the run without flips is compared"
    return ours(said, stated=f"{SOURCE[model]:g} % without flips")


def tried_images(settings: Settings, model: str, portion: float) -> int:
    """How many training images something was tried with."""
    return round(portion * int(sizes_of(settings, model)[-1]))


def full_size(settings: Settings) -> bool:
    """Whether the largest training set is the source's, with images left for validation: 45,000 of CIFAR-10."""
    s = settings
    return s.data == "cifar10" and s.whole_images == FULL and left(s) > 0 and s.pixels == 32


def share(right: np.ndarray) -> Estimate:
    """Accuracy in percent, with an interval over images."""
    return t_interval(100.0 * right, bounds=(0, 100))


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
        found.append(
            claim(
                "Data improve the data efficiency of trained VEC: its exponent grows",
                grown,
                measure=measure,
                covers=covers,
                at_least=0,
                by=theirs(THEIRS, _PLACE, "the curve becomes steeper"),
            )
        )
    others = {label: e for label, e in numbers.items() if label in _IN_FULL}
    if grown and others:
        ahead = {label: t_interval(by_run[_label("VEC", "I")] - by_run[label]) for label in others}
        found.append(
            claim(
                f"It grows more than that of {' and that of '.join(_IN_FULL[label] for label in others)}",
                ahead,
                measure="Growth of the exponent of trained VEC minus the other’s, by run, with the same training and "
                "test images.",
                covers=covers,
                at_least=0,
                by=theirs(THEIRS, _PLACE, "that curve alone becomes steeper"),
            )
        )
    if others:
        found.append(
            claim(
                f"That effect disappears for {' and for '.join(_IN_FULL[label] for label in others)}: the exponent "
                "does not grow",
                others,
                measure=f"{measure} A growth below {GROWTH:g}, our margin, counts as none.",
                covers=covers,
                at_most=GROWTH,
                by=theirs(THEIRS, _PLACE, "the effect disappears there, too"),
            )
        )
    return found


def trained_section(settings: Settings, results: Results, folder: RunFolder) -> list[Figure | Table]:
    """Errors of trained networks, in a figure and a table."""
    return [_figure(settings, results, folder), _errors(settings, results)]


def _figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "trained",
        titles=("trained networks",),
        xlabel="training images",
        ylabel="classification error",
        caption="Classification error on images not trained on, means over runs with 95 % intervals.",
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
