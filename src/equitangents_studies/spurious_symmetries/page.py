"""The source's claims on spurious symmetries, and Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, exactly
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.framework.claims import Claim, claim, exact, ours, proved, theirs
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.spurious_symmetries.study import (
    GROUPS,
    INFERENCES,
    ORDER,
    PRESETS,
    SpuriousResults,
    SpuriousSettings,
    check_settings,
    extra,
    lead,
    measure,
)
from equitangents_studies.systems.transformations import expected_symmetry

FIGURE = "Figure 2"
TRAINED = "repetitions, each with images, transformations and initial weights of its own"
FOLDS = "folds, each with test images of its own"
_POINTS = "percentage points"


def claims(settings: SpuriousSettings, results: SpuriousResults) -> Sequence[Claim]:
    """Theorem 4.1 at infinite width, falling accuracies, comparisons of algorithms, and the cost of a symmetry."""
    return [
        *_ranks(settings, results),
        *_wide(settings, results),
        *_inferences(settings, results),
        *_equality(settings, results),
        *_like(settings, results),
        _samples(settings, results),
    ]


_points = partial(claim, at_least=0, unit=_POINTS)
_theirs = partial(theirs, THEIRS, FIGURE)


def _ranks(settings: SpuriousSettings, results: SpuriousResults) -> list[Claim]:
    kinds = (
        ("Accuracy falls with the group that moves the data", results.falls_through_data()),
        ("Accuracy on upright images falls with the algorithm’s own group", results.falls_through_model()),
    )
    return [
        _points(
            statement,
            {"all architectures and inferences": e},
            measure=f"Accuracy minus accuracy with a larger group, mean over pairs along {ORDER}, architectures and "
            "inferences, by repetition.",
            covers=TRAINED,
            by=_theirs(),
        )
        for statement, e in kinds
    ]


def _wide(settings: SpuriousSettings, results: SpuriousResults) -> list[Claim]:
    s, small = settings, lambda name: (results.small[name, "I"], settings.small_pixels)
    (gap, pixels), (vec, _), (flat, _), (wide, side) = map(small, ("GAP", "VEC", "FCN", "VEC"))
    if results.vec_on_gap is not None:
        gap, vec, pixels = results.pools["GAP"], results.vec_on_gap, s.kernel_pixels
    if {"VEC", "FCN"} <= set(s.models) and results.pools["VEC"].most == results.pools["FCN"].most:
        flat, wide, side = results.pools["FCN"], results.pools["VEC"], s.kernel_pixels
    orders = (
        ("GAP", "VEC", lead(gap, vec), gap.most, pixels, "77 against 67 % with 45,000 images"),
        ("VEC", "FCN", lead(wide, flat), wide.most, side, "VEC 67 % with 45,000 images"),
    )
    at = f"{s.small_images:,} images of {s.small_pixels} pixels"
    return [
        _points(
            "Infinitely wide GAP loses accuracy when the data are moved by groups that it is not symmetric under",
            {f"{group}, {at}": e for group, e in results.pool_falls().items()},
            measure="Accuracy of the NTK on upright minus that on moved images, same folds.",
            covers=FOLDS,
            by=_theirs(),
            aggregate=("the mean over groups", results.mean_pool_fall()),
        ),
        *(
            _points(
                f"At infinite width {better} classifies better than {worse}",
                {f"{most:,} training images of {side}×{side} pixels": e},
                measure="Difference of accuracies of NTKs after the same training images on the same test images.",
                covers=FOLDS,
                by=_theirs(stated),
            )
            for better, worse, e, most, side, stated in orders
        ),
    ]


def _inferences(settings: SpuriousSettings, results: SpuriousResults) -> list[Claim]:
    """The NTK ahead of trained networks under spurious symmetries, and behind them without."""
    minus = lambda e: Estimate(-e.value, -e.high, -e.low, e.confidence)
    ahead = lambda *how: results.kernel_ahead(how, True)
    behind = lambda *how: minus(results.kernel_ahead(how, False))
    what = "Difference of accuracies, mean over architectures and groups of which either has "
    best = "; of single networks the highest test accuracy along training."
    cases = (
        ("better", "under", "NTK minus {}", ahead, "a symmetry that images lack", ""),
        ("worse", "without", "{} minus NTK", behind, "O(3)⊗I at most", "GAP 84 against 77 %, VEC 78 against 67 %"),
    )
    return [
        _points(
            f"The NTK predicts {better} than NN and NN+ {where} spurious symmetries",
            {label.format(how): of(how) for how in INFERENCES[1:]},
            measure=what + which + best,
            covers=TRAINED,
            by=_theirs(stated),
            aggregate=("the mean of both inferences", of(*INFERENCES[1:])),
        )
        for better, where, label, of, which, stated in cases
    ]


def _equality(settings: SpuriousSettings, results: SpuriousResults) -> list[Claim]:
    s = settings
    demanded = lambda name, group: group != "I" and expected_symmetry(name, group, (8, 8, 3), finite=False)
    numbers = {
        f"{name} under {group}, {pool.most + pool.most // max(s.folds - 1, 1):,} images": exactly(float(value))
        for name, pool in results.pools.items()
        for group, value in zip(pool.groups, pool.equal, strict=True)
        if demanded(name, group)
    }
    numbers |= {
        f"{name} under {group}, {s.pixels} pixels": exactly(float(np.max(results.equal[name][i])))
        for name in results.architectures
        for i, group in enumerate(GROUPS)
        if demanded(name, group)
    }
    difference = float(np.max(np.abs(results.best["LCN", "NTK"] - results.best["VEC", "NTK"])))
    return [
        exact(
            "At infinite width kernels stay, to 1e-5, under every group that Theorem 4.1 names",
            numbers,
            measure="Largest difference of NTKs of moved and unmoved images, training and test, relative to the "
            "largest entry, in float32.",
            at_most=1e-5,
            by=proved(THEIRS, "Theorem 4.1", "equal"),
        ),
        exact(
            "At infinite width LCN and VEC are one algorithm",
            {"the largest over groups and repetitions": exactly(100 * difference)},
            measure="Difference of accuracies of their NTKs on the same images.",
            at_most=1e-9,
            unit=_POINTS,
            by=_theirs("equal"),
        ),
    ]


def _like(settings: SpuriousSettings, results: SpuriousResults) -> list[Claim]:
    ahead = lambda under, *how: results.kernel_ahead(how, under, "draws")
    return [
        _points(
            f"Like for like: one infinitely wide network against one trained network, {where} spurious symmetries",
            {how: ahead(under, how) for how in INFERENCES[1:]},
            measure="Accuracy of single draws of GP(μ, Σ), the law of one infinitely wide network after training, "
            "minus that of single networks after the last epoch, on the same images.",
            covers=TRAINED,
            by=ours("our question: the like comparison"),
            aggregate=("the mean of both inferences", ahead(under, *INFERENCES[1:])),
        )
        for where, under in (("under", True), ("without", False))
    ]


def _samples(settings: SpuriousSettings, results: SpuriousResults) -> Claim:
    better, worse = results.small["GAP", "I"], results.small["GAP", "O(3)^d"]
    return claim(
        "What O(3)^d costs infinitely wide GAP in training images",
        {f"{worse.most:,} images of {settings.small_pixels} pixels": extra(better, worse)},
        measure="Moved training images minus upright training images at which GAP has the same error.",
        covers=FOLDS,
        at_least=0,
        by=ours("the source’s bound is about dim(G) images or more; training sets here end near dim(G)"),
        unit="images",
    )


_COLOURS = {
    "FCN": palette.VERMILLION,
    "LCN": palette.PURPLE,
    "VEC": palette.BLUE,
    "GAP": palette.GREEN,
    "LAP4": palette.INK,
    "LAP8": palette.MUTED,
}


_TITLES = {"NTK": "NTK, infinite width", "NN": "NN", "NN+": "NN+"}


def present(settings: SpuriousSettings, results: SpuriousResults, folder: RunFolder) -> list[Shown]:
    """Figure 2."""
    return [_accuracies(results, folder)]


def _accuracies(results: SpuriousResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=[_TITLES[how] for how in INFERENCES],
        ylabel="test accuracy, %",
        sharey=True,
        caption=(
            "Mean test accuracy with 95 % intervals over those repetitions that count; all images moved "
            "by one random element of each group. Bars without a dot: one infinitely wide network, drawn "
            "from its exact law, where dots are the mean of infinitely many."
        ),
        alt="Accuracy by group, architecture and inference",
    ) as drawn:
        place = np.arange(len(GROUPS))
        for axes, how in zip(drawn, INFERENCES, strict=True):
            for i, name in enumerate(results.architectures):
                values = [results.accuracy(name, how, g) for g in GROUPS]
                there = [k for k, e in enumerate(values) if np.isfinite(e.value)]
                shown = [drawing.drawable(values[k]) for k in there]
                drawing.estimates(
                    axes, place[there] + 0.09 * (i - 2.5), shown, _COLOURS[name].light, label=name, fmt="o"
                )
            if how == "NTK":
                for i, name in enumerate(results.architectures):
                    one = 100 * results.draws[name].mean(axis=(1, 2))
                    axes.plot(place + 0.09 * (i - 2.5), one, "_", ms=6, color=_COLOURS[name].light)
            axes.set_xticks(place, GROUPS, fontsize=7.5)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
