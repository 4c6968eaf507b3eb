"""What the source claims of VEC against width, and the like comparison, of one network with one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from equitangents.statistics import Estimate, exactly, no_interval
from equitangents_studies.finite_width_vec.results import GROUPS, INFERENCES, Results, Settings
from equitangents_studies.framework.claims import EXACT, Claim, claim

WORK, FIGURE = "arXiv 2207.04612", "Figure 3"
BEST = {"NN": 64, "NN+": 128}  # the widths past which the source's accuracies fall
STATED = "68, 78, 78, 79, 79 % at 64 channels; 67 % of infinitely wide VEC (45,000 images of 32×32 pixels)"
RUNS = "runs, each with images, a rotation and initial weights of its own"
_POINTS = "percentage points"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's claims as it compares, and those of ours that compare like with like."""
    return [
        *(_falls(settings, results, how) for how in INFERENCES),
        _ahead(settings, results),
        _behind(settings, results),
        _unmoved(results),
        _like(settings, results, "I"),
        _like(settings, results, "O(3)^d"),
        _cost(settings, results),
    ]


def best_width(widths: Sequence[int], how: str) -> int:
    """The nearest of the widths that were trained to that past which the source's accuracies fall."""
    return min(widths, key=lambda w: abs(math.log2(w / BEST[how])))


def _falls(settings: Settings, results: Results, how: str) -> Claim:
    last, width = results.widths[-1], best_width(results.widths, how)
    known = BEST[how] in results.widths[:-1]
    e = results.falls(how, width)
    return claim(
        f"Trained as {how}, accuracy on images as they are falls past {BEST[how]} channels",
        {f"{how}, {width} against {last} channels": e if known else no_interval(e.value, e.level)},
        measure=f"Mean accuracy at {width} channels minus that at {last}, run by run.",
        covers=RUNS, at_least=0, unit=_POINTS, origin="source", source=WORK, place=FIGURE, repeated=settings.runs,
        holds=f"Wider is not better: with {how} take VEC of moderate width.",
        fails=f"Here accuracy grows on past {BEST[how]} channels.",
        undecided=f"Accuracies at {width} and {last} channels are too near to one another for this many runs.",
    )  # fmt: skip


def _ahead(settings: Settings, results: Results) -> Claim:
    widths = {how: best_width(results.widths, how) for how in INFERENCES}
    numbers = {f"{how}, {w} channels": results.ahead(how, "I", w) for how, w in widths.items()}
    like = results.mean_of([(how, w) for how, w in widths.items()], "I", "draws")
    return claim(
        "VEC of the source’s best width predicts better than infinitely wide VEC, the mean of infinitely many networks",
        numbers,
        measure="Accuracy of single networks minus that of the NTK on the same images, images as they are.",
        covers=RUNS, at_least=0, unit=_POINTS, origin="source", source=WORK, place=FIGURE, stated=STATED,
        aggregate=("the mean of both inferences", results.mean_of(list(widths.items()), "I", "mean")),
        repeated=settings.runs,
        why=f"The comparison is of single networks with a mean: the NTK predicts {results.wide('I').value:.1f} %, one "
        f"infinitely wide network, drawn from its exact law, {results.single('I').value:.1f} %, since its random "
        f"initial outputs stay in what it predicts after {settings.train_images:,} images. Against such draws the "
        f"networks are {_points(like)} percentage points ahead.",
        holds="Networks of finite width use neighbourhoods that the infinite limit is blind to.",
        fails=f"With {settings.train_images:,} images the mean of infinitely many networks is ahead of single ones.",
        undecided="The difference is within its errors.",
    )  # fmt: skip


def _behind(settings: Settings, results: Results) -> Claim:
    every = [(how, w) for how in INFERENCES for w in results.widths]
    like = results.mean_of(every, "O(3)^d", "draws")
    return claim(
        "On rotated images infinitely wide VEC, the mean, predicts at least as well as VEC of finite width",
        {f"{how}, {w} channels": results.ahead(how, "O(3)^d", w) for how, w in every},
        measure="Accuracy of single networks minus that of the NTK on the same rotated images, at widths where enough "
        "runs count.",
        covers=RUNS, at_most=0, unit=_POINTS, origin="source", source=WORK, place=FIGURE, repeated=settings.runs,
        aggregate=("the mean over widths and inferences", results.mean_of(every, "O(3)^d", "mean")),
        holds="Where neighbourhoods are of no use, take the kernel’s mean. It would be ahead for being a mean alone: "
        f"of one infinitely wide network these are {_points(like)} percentage points ahead.",
        fails="Networks are ahead of the NTK on rotated images, too.",
        undecided="The difference is within its errors.",
    )  # fmt: skip


def _unmoved(results: Results) -> Claim:
    moved = abs(results.limit["O(3)^d"] - results.limit["I"]).max()
    return claim(
        "Infinitely wide VEC predicts as well on rotated images as on images as they are",
        {"the largest of all runs": exactly(100 * float(moved))},
        measure="Difference of the NTK’s accuracies on rotated images and images as they are.",
        covers=EXACT, at_most=0.5, unit=_POINTS, origin="source", source=WORK, place="Theorem 4.1 and Figure 3",
        stated="equal",
        holds="At infinite width VEC has the symmetry O(3)^d, and rotations cost it nothing.",
        fails="Rotations change the kernel’s predictions by more than rounding.",
    )  # fmt: skip


def _like(settings: Settings, results: Results, group: str) -> Claim:
    widths = {how: best_width(results.widths, how) for how in INFERENCES}
    numbers = {
        f"{how}, {w} channels": results.ahead(how, group, w, "draws") for how in INFERENCES for w in results.widths
    }
    e = results.mean_of(list(widths.items()), group, "draws")
    which = "images as they are" if group == GROUPS[0] else "rotated images"
    of = f"{results.single(group).value:.1f} % (its mean: {results.wide(group).value:.1f} %)"
    return claim(
        f"Like for like: on {which}, one network of the source’s best width against one infinitely wide network",
        numbers,
        measure="Accuracy of single networks after the last epoch minus that of single draws of GP(μ, Σ), the law of "
        "one infinitely wide network after training, on the same images.",
        covers=RUNS, at_least=0, unit=_POINTS, origin="ours", source="our question: the like comparison",
        aggregate=("the mean of both inferences", e), repeated=settings.runs,
        holds=f"Single networks are {_points(e)} percentage points ahead of one infinitely wide network, which has "
        f"{of}.",
        fails=f"One infinitely wide network, with {of}, is ahead of single networks by {_points(e, -1)} points.",
        undecided=f"Single networks and one infinitely wide network, with {of}, differ by less than errors.",
    )  # fmt: skip


def _cost(settings: Settings, results: Results) -> Claim:
    numbers = {f"{how}, {w} channels": results.cost(how, w) for how in INFERENCES for w in results.widths}
    e = results.mean_cost()
    limit = f"{results.single('I').value - results.single('O(3)^d').value:.1f}".replace("-", "−")
    said = f"{_points(e)} percentage points, mean over widths and inferences (one infinitely wide network: {limit})"
    return claim(
        "A rotation of the channels at every position costs VEC of finite width accuracy",
        numbers,
        measure="Accuracy on images as they are minus accuracy on rotated images, run by run.",
        covers=RUNS, at_least=0, unit=_POINTS, origin="ours",
        source="our question: the source shows it from about 10,000 images on, below which VEC learns as LCN does",
        aggregate=("the mean over widths and inferences", e), repeated=settings.runs,
        holds=f"The rotation costs {said}.",
        fails=f"With {settings.train_images:,} images rotations help: the cost is {said}.",
        undecided=f"With {settings.train_images:,} images the cost is {said}: not told from 0.",
    )  # fmt: skip


def _points(e: Estimate, sign: int = 1) -> str:
    return (
        f"{sign * e.value + 0.0:.1f}".replace("-0.0", "0.0").replace("-", "−")
        if math.isfinite(e.value)
        else "an unknown number of"
    )
