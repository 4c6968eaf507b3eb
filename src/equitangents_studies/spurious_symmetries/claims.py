"""What is claimed of spurious symmetries: equality, ranks, who is ahead, samples, and the source's accuracies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from equitangents.statistics import Estimate, exactly, no_interval, shared_level
from equitangents_studies.common.counted_runs import COUNTED
from equitangents_studies.framework.claims import EXACT, P_VALUE, Claim, claim
from equitangents_studies.spurious_symmetries.groups import ORDER
from equitangents_studies.spurious_symmetries.pools import extra, lead
from equitangents_studies.spurious_symmetries.rank_test import RankTest
from equitangents_studies.spurious_symmetries.results import Results
from equitangents_studies.spurious_symmetries.settings import ARCHITECTURES, GROUPS, INFERENCES, Settings
from equitangents_studies.systems import expected_symmetry
from equitangents_studies.systems.data_groups import data_group

STATED = "stated in arXiv 2207.04612"
WIDE = {"GAP": 77.0, "VEC": 67.0}  # per cent of test images, infinite width, 45,000 images of CIFAR-10
FINITE = {"GAP": 84.0, "VEC": 78.0}  # the same of trained networks
FULL = 45_000
LEVEL = 0.01  # of the rank tests
POINTS = 3.0  # percentage points that accuracies may differ by to meet
ABOUT = 0.5  # of dim(G), which we take for "about dim(G)"
TRAINED = "training sets, test sets, transformations and initial weights"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Theorem 4.1 at infinite width, both rank tests, who is ahead of whom, samples, the source's accuracies."""
    return [
        _equality(settings, results),
        *_ranks(settings, results),
        _order(settings, results),
        *_inferences(settings, results),
        *_samples(settings, results),
        *_source(settings, results),
    ]


def _equality(settings: Settings, results: Results) -> Claim:
    s = settings
    demanded = lambda name, group: group != "I" and expected_symmetry(name, group, (8, 8, 3), finite=False)
    numbers = {
        f"{name} under {group}, {len(results.pools[name].tested):,} images": exactly(float(value))
        for name in s.moved
        for group, value in zip(GROUPS, results.pools[name].equal, strict=True)
        if demanded(name, group)
    }
    numbers |= {
        f"{name} under {group}, {s.pixels} pixels": exactly(float(np.max(results.equal[name][i])))
        for name in ARCHITECTURES
        for i, group in enumerate(GROUPS)
        if demanded(name, group)
    }
    return claim(
        "At infinite width kernels stay, to 1e-5, under every group that Theorem 4.1 names",
        numbers,
        measure="Largest difference of NTKs of moved and unmoved images, training and test, relative to the largest "
        "entry, in float32.",
        covers=EXACT, at_most=1e-5, source=f"{STATED}, Theorem 4.1",
        holds="These systems cannot tell moved images from images as they are: their own symmetry costs them as much "
        "as that of the data would.",
        fails="A kernel changes by more than rounding where the theorem says that it does not.",
    )  # fmt: skip


def _ranks(settings: Settings, results: Results) -> list[Claim]:
    all_systems = f"all architectures and inferences, {settings.train_images:,} images"
    at_once = "In each repetition places are exchanged for all systems together."
    each = "On each test image places are exchanged."
    return [
        _rank("Accuracy falls with the group that moves the data", {all_systems: results.through_data()}, at_once),
        _rank("Accuracy on images as they are falls with the algorithm’s own group",
              {all_systems: results.through_model()}, at_once),
        _rank("At infinite width, with the largest training sets, accuracy falls with the group that moves the data",
              results.wide_through_data(), each),
        _rank("At infinite width, with the largest training sets, accuracy falls with the algorithm’s own group",
              results.wide_through_model(), each),
    ]  # fmt: skip


def _rank(statement: str, tests: Mapping[str, RankTest], exchanged: str) -> Claim:
    told = "; ".join(
        f"{label}: {test.falling:,} comparisons fall, {test.rising:,} rise, p = {test.p_value:.2g}"
        for label, test in tests.items()
    )
    return claim(
        statement,
        {label: p_value(test) for label, test in tests.items()},
        measure=f"p-value of a rank test along {ORDER}. {exchanged}",
        covers=P_VALUE, at_most=LEVEL, source=f"{STATED}, figure 2",
        holds=f"A larger spurious group costs accuracy. {_heading(told)}.",
        fails=f"Somewhere accuracies rise along the order of groups. {_heading(told)}.",
        undecided=f"An order does not show everywhere. {_heading(told)}. Larger training sets, or more repetitions and "
        "test images, would decide.",
    )  # fmt: skip


def _heading(text: str) -> str:
    return text[:1].upper() + text[1:]


def p_value(test: RankTest) -> Estimate:
    """As a claim reads it: it decides nothing unless the values fall, or rise, at the level."""
    decided = min(test.p_value, test.reverse) <= LEVEL
    shown = float(f"{test.p_value:.3g}")
    return exactly(shown) if decided else no_interval(shown)


def _order(settings: Settings, results: Results) -> Claim:
    s, level = settings, shared_level(2)
    gap, vec, pixels = results.small["GAP", "I"], results.small["VEC", "I"], s.small_pixels
    flat = results.small["FCN", "I"]
    wide = vec, flat, pixels
    if results.beside is not None:
        gap, vec, pixels = results.pools["GAP"], results.beside, s.kernel_pixels
    numbers = {f"GAP minus VEC, {gap.most:,} images of {pixels} pixels": lead(gap.tested, vec.tested, level)}
    if {"VEC", "FCN"} <= set(s.models) and results.pools["VEC"].most == results.pools["FCN"].most:
        wide = results.pools["VEC"], results.pools["FCN"], s.kernel_pixels
    shown = f"VEC minus FCN, {wide[0].most:,} images of {wide[2]} pixels"
    numbers[shown] = lead(wide[0].tested, wide[1].tested, level)
    return claim(
        "At infinite width GAP classifies better than VEC, and VEC better than FCN",
        numbers,
        measure="Difference of accuracies on the same test images after the same training images, NTK, in percentage "
        "points.",
        covers="test images", at_least=0, unit="percentage points", source=STATED,
        stated="GAP 77 %, VEC 67 % with 45,000 images of CIFAR-10",
        holds="The fewer symmetries an architecture has that images lack, the better it predicts.",
        fails="At this size the order is another one.",
        undecided="The order is not decided at this size: take more images.",
    )  # fmt: skip


def _inferences(settings: Settings, results: Results) -> list[Claim]:
    level, found = shared_level(2), []
    for under in (True, False):
        sign = 1.0 if under else -1.0
        numbers = {}
        for how in INFERENCES[1:]:
            e = results.kernel_ahead(how, under, level)
            ends = (e.low, e.high) if under else (-e.high, -e.low)
            numbers[f"{'NTK minus ' + how if under else how + ' minus NTK'}"] = Estimate(sign * e.value, *ends, level)
        which = "under" if under else "without"
        counted = f"{100 * results.share_counted:.0f} % of the trained networks reach {100 * COUNTED:.0f} % training"
        found.append(
            claim(
                f"The NTK predicts {'better' if under else 'worse'} than NN and NN+ {which} spurious symmetries",
                numbers,
                measure="Difference of accuracies, mean over architectures and groups of which either has "
                + ("a symmetry that images lack" if under else "O(3)⊗I at most")
                + "; of networks the highest test accuracy along training.",
                covers=TRAINED, at_least=0, unit="percentage points", source=f"{STATED}, figure 2",
                holds="Where neighbourhoods are of no use, learning features does not pay: take the kernel."
                if under else "Where neighbourhoods are of use, training finds features that the kernel lacks.",
                fails="At this size "
                + ("networks are ahead even of the NTK on such data." if under else "the NTK is ahead of networks."),
                undecided=f"The difference is not decided with {settings.train_images:,} images, "
                f"{settings.repetitions} repetitions and {settings.width} channels; {counted} accuracy, and only they "
                f"count. The source’s {FULL:,} images at its widths (preset paper) would decide.",
            )
        )  # fmt: skip
    return found


def _samples(settings: Settings, results: Results) -> list[Claim]:
    s = settings
    better, worse = results.small["GAP", "I"], results.small["GAP", "O(3)^d"]
    pairs = [("GAP on images moved by O(3)^d", "GAP on images as they are", s.small_pixels, "O(3)^d", better, worse)]
    if {"FCN", "VEC"} <= set(s.models):
        pairs.append(("FCN", "VEC", s.kernel_pixels, "O(3d)", results.pools["VEC"], results.pools["FCN"]))
    found = []
    for worse_name, better_name, pixels, group, ahead, behind in pairs:
        dimension = data_group(group, (pixels, pixels, 3)).dimension
        enough = behind.most >= dimension
        e = extra(ahead, behind).times(1 / dimension)
        shown = e if enough else Estimate(e.value, math.nan, math.nan, e.level)
        found.append(
            claim(
                f"Because of {group}, {worse_name} needs about dim(G) images more than {better_name}, or more",
                {f"{behind.most:,} images of {pixels} pixels": shown},
                measure=f"Training images of {worse_name} minus those with which {better_name} errs as much, over "
                f"dim {group} = {dimension:,}; at least {ABOUT:g} counts as about 1.",
                covers="training and test sets from the same images",
                at_least=ABOUT, source=STATED,
                holds=f"The spurious symmetry costs about {e.value * dimension:,.0f} images at the error reached with "
                f"{behind.most:,}.",
                fails=f"At the error reached with {behind.most:,} images the symmetry costs fewer: "
                f"{e.value * dimension:,.0f}.",
                undecided=f"{behind.most:,} training images do not decide it: the number of images that a symmetry "
                f"costs is measured up to the size of the training set, here {e.value * dimension:,.0f}"
                + ("; more images would." if enough else f". Training sets beyond {dimension:,} images would decide."),
            )
        )  # fmt: skip
    return found


def _source(settings: Settings, results: Results) -> list[Claim]:
    """Only on the source’s images; others have other accuracies."""
    if results.source != "cifar10":
        return []
    found = [claim_ for claim_ in (_extrapolated(settings, results), _finite(settings, results)) if claim_ is not None]
    return found


def _extrapolated(settings: Settings, results: Results) -> Claim | None:
    numbers = {}
    for name, accuracy in WIDE.items():
        law = results.pools[name].law() if name in results.pools else None
        if settings.kernel_pixels == 32 and law is not None:
            error = law.at(FULL).times(100)
            low, high = (100 - min(end, 100.0) - accuracy for end in (error.high, error.low))
            numbers[f"{name}, from {results.pools[name].most:,} images"] = Estimate(
                100 - error.value - accuracy, low, high, error.level
            )
    if not numbers:
        return None
    shown = ", ".join(f"{label} {e.value:+.2g}" for label, e in numbers.items()).replace("-", "−")
    return claim(
        f"Extrapolated to {FULL:,} images, accuracies of infinite width meet those of the source to {POINTS:g} points",
        numbers,
        measure=f"Accuracy of the fitted power law at {FULL:,} images minus the source’s.",
        covers="training and test sets from the same images, if the last power law goes on",
        at_least=-POINTS, at_most=POINTS, unit="percentage points", source=STATED, stated="VEC 67 %, GAP 77 %",
        holds=f"The curves lead to the source’s accuracies: differences in percentage points are {shown}.",
        fails=f"The last power law does not lead to the source’s accuracies: differences in percentage points are "
        f"{shown}.",
        undecided=f"The extrapolation is too wide to tell: differences in percentage points are {shown}. Training sets "
        f"nearer to {FULL:,}, of GAP above all, would decide.",
    )  # fmt: skip


def _finite(settings: Settings, results: Results) -> Claim:
    s = settings
    theirs = s.train_images == FULL and s.pixels == 32
    numbers, ours = {}, []
    for name, accuracy in FINITE.items():
        e = max((results.accuracy(name, how, "I", shared_level(2)) for how in INFERENCES[1:]), key=_value)
        ours.append(f"{name} {e.value:.0f} %" if math.isfinite(e.value) else f"no run of {name} counts")
        less = Estimate(e.value - accuracy, e.low - accuracy, e.high - accuracy, e.level)
        numbers[f"{name}, {s.train_images:,} images"] = less if theirs else no_interval(less.value, less.level)
    said = ", ".join(ours)
    return claim(
        f"Trained networks meet the source’s accuracies with {FULL:,} images to {POINTS:g} points",
        numbers,
        measure="Highest accuracy along training of the better of NN and NN+, images as they are, minus the source’s.",
        covers=TRAINED, at_least=-POINTS, at_most=POINTS, unit="percentage points", source=STATED,
        stated="GAP 84 %, VEC 78 %",
        holds=f"Networks trained here are as good as the source’s: {said}.",
        fails=f"Networks trained here are not as good as the source’s, or better: {said}.",
        undecided=f"With {s.train_images:,} images of {s.pixels}×{s.pixels} pixels: {said}. {FULL:,} images of 32×32 "
        "pixels and the source’s widths (preset paper) would decide.",
    )  # fmt: skip


def _value(e: Estimate) -> float:
    return e.value if math.isfinite(e.value) else -math.inf
