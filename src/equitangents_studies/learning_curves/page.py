"""Claims, tables and figures of learning curves: exponents, predictions, symmetries, accuracies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, exactly, shared_level, t_interval
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import OMNISCIENT_RISK
from equitangents_studies.framework.catalogue import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.framework.claims import (
    EXACT,
    By,
    Claim,
    agreement,
    claim,
    exact,
    identity,
    ours,
    proved,
    table,
    theirs,
)
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.learning_curves.settings import (
    DRAWN,
    DRAWN_SIZES,
    FIELDS,
    GROUPS,
    GROWTH,
    PRESETS,
    CurveResults,
    CurveSettings,
    check_settings,
    compared_features,
    feature_sizes,
    half_growth,
    left,
    off,
    parts,
    pools,
)
from equitangents_studies.learning_curves.study import measure

SETS = "training and test sets from the same images"
OURS = "our question"
POINTS = "percentage points"
_CLEAN, _FROM = 5.0, 80  # per cent off one power law, and from how many images on
_LOST = 2.0  # percentage points that features may lose to the exact kernel
_WITHIN = 10.0  # per cent that predictions may be off
SOURCE = {"GAP": 77.0, "VEC": 67.0}  # per cent, infinite width, 45,000 images of CIFAR-10
FULL = 45_000
_ROUNDED = 0.5  # per cent by which its numbers may have been rounded
_tested = partial(claim, covers="test images", at_least=0)


def claims(settings: CurveSettings, results: CurveResults) -> Sequence[Claim]:
    """The source's claims at infinite width, our own predictions, and the check of the fits."""
    return [
        *whole_claims(settings, results),
        *_symmetries(settings, results),
        *([_growth(settings, results), _scaling(settings, results)] if results.sizes else []),
        *trained_claims(settings, results),
        *_approximated(settings, results),
        *_predictions(settings, results),
        _recovery(results),
    ]


def _recovery(results: CurveResults) -> Claim:
    draws = len(results.recovered)
    return exact(
        f"Exponents and cusp of synthetic power laws lie within their intervals in 95 % of {draws} draws",
        {"all three together": exactly(100 * float(results.recovered.all(axis=1).mean()))},
        measure=f"Share of {draws} curves of {DRAWN_SIZES} sizes with {100 * DRAWN[3]:g} % noise in which both "
        "exponents and the cusp lie in their intervals.",
        at_least=95,
        unit="%",
        by=identity("our fits of known curves"),
    )


def _predictions(settings: CurveSettings, results: CurveResults) -> list[Claim]:
    if not results.measured:
        return []
    sizes, level = settings.predicted_sizes, shared_level(len(results.measured) * len(settings.predicted_sizes))
    kinds = (
        ("omniscient estimate, from only the spectrum,", results.omniscient),
        ("estimate with a variance for each input", results.inputs),
    )
    return [
        claim(
            f"The {what} predicts the squared error to within {_WITHIN:g} % from {sizes[0]} images on, on every data "
            "set",
            {
                f"{name}, {size} images": e
                for name, measured in results.measured.items()
                for size, e in zip(sizes, off(predicted[name], measured, level), strict=True)
            },
            measure="Predicted over measured mean squared error of the MLP’s kernel on images not trained on, minus 1; "
            f"a pool of {settings.predicted_images:,} images.",
            covers=SETS,
            at_least=-_WITHIN,
            at_most=_WITHIN,
            unit="%",
            by=ours(OURS),
        )
        for what, predicted in kinds
    ]


def _growth(settings: CurveSettings, results: CurveResults) -> Claim:
    errors = {m: results.classification[m, "I"] for m in results.sizes}
    numbers = {m: t_interval(half_growth(results.sizes[m], errors[m])) for m in errors}
    return claim(
        "Data do not improve the data efficiency of the NTK: its exponent does not grow",
        numbers,
        measure="Exponent of the classification error over the upper half of training sizes (in logarithms) minus that "
        f"over the lower half, by repetition; a growth below {GROWTH:g}, our margin, counts as none.",
        covers=SETS, at_most=GROWTH,
        by=theirs(THEIRS, "§6.1, Figure 4", "the effect disappears"),
    )  # fmt: skip


def _scaling(settings: CurveSettings, results: CurveResults) -> Claim:
    """Figure S6: one power law, and its deviation from the measured errors."""
    off = {f"{m}, {g}": results.off_one_law(m, g) for m, g in results.laws}
    return claim(
            "Learning curves of infinite width are clean power laws",
            off,
            measure=f"Error over one fitted power law, minus 1, at the size, from {_FROM} images on, that is furthest "
            "off.",
            covers=SETS, at_least=-_CLEAN, at_most=_CLEAN, unit="%",
            by=theirs(THEIRS, "Figure S6", "straight lines; the bound is ours"),
    )  # fmt: skip


def _approximated(settings: CurveSettings, results: CurveResults) -> list[Claim]:
    """Accuracy that features lose against the exact kernel, and their accuracy with all images."""
    found, taken = [], f"{settings.features:,} features"
    for model, right in results.exact_right.items():
        lost = features_less_exact(settings, right)
        stated = f"{SOURCE[model]:g} % of the exact kernel after {FULL:,} images" if model in SOURCE else ""
        found += [
            claim(
                f"{settings.features:,} random features of infinitely wide {model} classify as well as the exact "
                f"kernel, to within {_LOST:g} percentage points",
                lost,
                aggregate=(taken, lost[taken]),
                measure=f"Accuracy of features minus that of the exact kernel on {settings.exact_images:,} images, "
                "each predicted by the three quarters that it is not among, at the best ridge of either.",
                covers="images",
                at_least=-_LOST,
                unit=POINTS,
                by=ours("our question: the exact kernel takes weeks at the source’s size"),
            ),
            _tested(
                f"Accuracy of {settings.features:,} random features of infinitely wide {model} after "
                f"{settings.whole_images:,} training images",
                {taken: share(results.feature_right[model][-1])},
                measure="Share of the test images classified correctly; the ridge is chosen in validation.",
                unit="%",
                by=ours("the source’s size; its number is of the exact kernel", stated=stated),
            ),
        ]
    return found


def features_less_exact(settings: CurveSettings, right: np.ndarray) -> dict[str, Estimate]:
    """Accuracy of features minus the exact kernel's, in percentage points, paired over images, by number."""
    exact, *others = 100.0 * right
    return {f"{m:,} features": t_interval(o - exact) for m, o in zip(compared_features(settings), others, strict=True)}


def _symmetries(settings: CurveSettings, results: CurveResults) -> list[Claim]:
    found, sizes = [], results.sizes
    more = partial(claim, covers=SETS, at_least=0, unit=POINTS, by=theirs(THEIRS, "Figure 2"))
    blind = [m for m in ("FCN", "LCN", "VEC") if m in sizes]
    if blind:
        change = lambda m: np.abs(results.squared[m, "O(3)^d"] / results.squared[m, "I"] - 1).max()
        found.append(
            exact(
                "A rotation of the channels at every position changes no error of FCN, LCN and VEC of infinite width",
                {m: exactly(float(change(m))) for m in blind},
                measure="Largest relative change of the squared error, all sizes and repetitions; kernels in float32.",
                at_most=1e-2,
                by=proved(THEIRS, "Theorem 4.1", "equal"),
            )
        )
    pooling = [model for model in sizes if pools(model)]
    if pooling:
        lost = lambda model: t_interval(results.accuracy(model, "I") - results.accuracy(model, "O(3)^d"))
        found.append(
            more(
                f"The same rotation lowers the accuracy of {' and '.join(pooling)}",
                {f"{model}, {sizes[model][-1]:,} images": lost(model) for model in pooling},
                measure="Accuracy on upright minus that on rotated images, in percentage points.",
            )
        )
    if {"VEC", "FCN"} <= set(sizes):
        ahead = t_interval(results.accuracy("VEC", "I") - results.accuracy("FCN", "I"))
        found.append(
            more(
                "VEC classifies more accurately than FCN",
                {f"{sizes['VEC'][-1]:,} images": ahead},
                measure="Accuracy of VEC minus that of FCN with the largest training set, in percentage points.",
            )
        )
    return found


def whole_claims(settings: CurveSettings, results: CurveResults) -> list[Claim]:
    """VEC at the source's size against the source's number; with flips and for FCN our measurement."""
    found = []
    for model in settings.whole:
        numbers = {
            f"{field.upper()}{', with flips' if flips else ''}": share(results.whole[model, flips, field, "test"])
            for flips in (("", "-flips") if settings.flips else ("",)) for field in FIELDS
        }  # fmt: skip
        if model in SOURCE and full_size(settings) and not settings.flips:
            right = {field: float(100 * results.whole[model, "", field, "test"].mean()) for field in FIELDS}
            found.append(
                agreement(
                    f"Infinitely wide {model} classifies {SOURCE[model]:g} % after {FULL:,} images",
                    exactly(right["ntk"]), stated_value=SOURCE[model], stated_std=_ROUNDED, unit="%",
                    measure=f"Accuracy of the NTK on {settings.whole_tested:,} test images of CIFAR-10; the source’s "
                    "number is rounded to one percent.",
                    covers=EXACT,
                    by=theirs(THEIRS, "Figure 2"),
                    numbers={field.upper(): exactly(value) for field, value in right.items()},
                )
            )  # fmt: skip
            continue
        found.append(
            _tested(
                f"Accuracy of infinitely wide {model} after {settings.whole_images:,} training images",
                numbers,
                measure=f"Share of {settings.whole_tested:,} test images classified correctly"
                f"{'; with flips the training set is doubled' * settings.flips}.",
                unit="%",
                by=_nobody_s(settings, model),
            )
        )  # fmt: skip
    return [*found, *_in_order(settings, results)]


def ahead(models: Sequence[str], results: CurveResults, field: str = "ntk") -> dict[str, Estimate]:
    """Accuracy of each model minus that of the one before it, in percentage points, paired."""
    right = {model: 100.0 * results.whole[model, "", field, "test"] for model in models}
    return {f"{b} over {a}": t_interval(right[b] - right[a]) for a, b in itertools.pairwise(models)}


def _in_order(settings: CurveSettings, results: CurveResults) -> list[Claim]:
    """Figure 2's order of architectures, if several learn the largest training set."""
    named = [model for model in settings.whole if model != "LCN"]  # LCN is VEC at infinite width
    if len(named) < 2 or named != sorted(named, key=_order):
        return []
    numbers = ahead(named, results)
    return [
        _tested(
            f"Infinitely wide networks classify better, the fewer symmetries they have: {' < '.join(named)}",
            numbers,
            measure=f"Accuracy of the NTK minus that of the one before, on the same {settings.whole_tested:,} test "
            f"images, after the same {settings.whole_images:,} training images.",
            unit=POINTS,
            by=theirs(THEIRS, "Figure 2"),
        )
    ]  # fmt: skip


def _order(model: str) -> tuple[int, int]:
    """Sort key from most symmetries to fewest: FCN, VEC, LAP2, LAP4, …, GAP."""
    return ("FCN", "VEC", "LAP", "GAP").index(model[:3]), int(model[3:] or 0)


def _nobody_s(settings: CurveSettings, model: str) -> By:
    """A number that the source lacks; `stated` is that of the network without flips."""
    if not full_size(settings):
        stated = f"{SOURCE[model]:g} % after {FULL:,}" if model in SOURCE else ""
        return ours(f"the network at a size that this run reaches; the source trains on {FULL:,} images", stated=stated)
    if model not in SOURCE:
        return ours("the source’s size; it states no number of this network")
    origin = "the source’s size; with its number, of no flips, the run without flips is compared"
    return ours(origin, stated=f"{SOURCE[model]:g} % without flips")


def full_size(settings: CurveSettings) -> bool:
    """Whether the largest training set is the source's, with images left for validation: 45,000 of CIFAR-10."""
    s = settings
    return s.data == "cifar10" and s.whole_images == FULL and left(s) > 0 and s.pixels == 32


def share(right: np.ndarray) -> Estimate:
    """Accuracy in percent, with an interval over images."""
    return t_interval(100.0 * right, bounds=(0, 100))


_RUNS = "runs, each with images, a rotation and initial weights of its own"
_OTHERS = {"VEC on rotated images": "VEC on images whose positions are rotated one by one", "LCN": "LCN"}


def trained_claims(settings: CurveSettings, results: CurveResults) -> list[Claim]:
    """The source's claims: VEC's exponent grows with data, but not on rotated images; LCN's does not grow."""
    sizes = np.array(settings.network_sizes)
    if len(sizes) < 4:
        return []
    by_run = {network_label(*key): half_growth(sizes, errors) for key, errors in results.networks.items()}
    grown, others = by_run.get("VEC"), {label: by_run[label] for label in by_run if label in _OTHERS}
    named = [_OTHERS[label] for label in others]
    of = partial(claim, covers=_RUNS)
    place = partial(theirs, THEIRS, "§6.1, Figure 4")
    measure = (
        "Exponent of the classification error over the upper half of training sizes (in logarithms) minus that over "
        f"the lower half, by run; {settings.width} channels, {settings.network_depth} hidden layers, {results.source} "
        f"at {settings.pixels}×{settings.pixels} pixels, {sizes[0]} to {sizes[-1]:,} images."
    )
    found = []
    if grown is not None:
        found.append(
            of(
                "Data improve the data efficiency of trained VEC: its exponent grows",
                {"VEC": t_interval(grown)},
                measure=measure,
                at_least=0,
                by=place("the curve becomes steeper"),
            )
        )
    if grown is not None and others:
        found.append(
            of(
                f"It grows more than that of {' and that of '.join(named)}",
                {label: t_interval(grown - runs) for label, runs in others.items()},
                measure="Growth of the exponent of trained VEC minus the other’s, by run, with the same training and "
                "test images.",
                at_least=0,
                by=place("only that curve becomes steeper"),
            )
        )
    if others:
        found.append(
            of(
                f"That effect disappears for {' and for '.join(named)}: the exponent does not grow",
                {label: t_interval(runs) for label, runs in others.items()},
                measure=f"{measure} A growth below {GROWTH:g}, our margin, counts as none.",
                at_most=GROWTH,
                by=place("the effect disappears there, too"),
            )
        )
    return found


def network_label(model: str, group: str) -> str:
    """The label of networks trained on upright or rotated images."""
    return model if group == "I" else f"{model} on rotated images"


_LOOK = (palette.BLUE, palette.VERMILLION, palette.PURPLE, palette.GREEN, palette.ORANGE, palette.INK)
_COLOURS = dict(zip(("VEC", "FCN", "LCN", "GAP", "LAP4", "LAP8"), _LOOK, strict=True))
_ABOVE = {HOLDS: "yes", FAILS: "no", UNDECIDED: "open"}
_TITLES = {"I": "upright images", "O(3)^d": "channels rotated at every position"}


def present(settings: CurveSettings, results: CurveResults, folder: RunFolder) -> list[Shown]:
    """Tables and figures; parts that the settings leave out are missing."""
    shown: list[Shown] = []
    if results.networks:
        shown.append(_trained(settings, results, folder))
    if results.classification:
        shown += [_curves(results, folder), _laws(results)]
    for model in results.feature_right:
        shown += [_features(settings, results, folder, model), _learnt(settings, results, model)]
    if results.whole:
        shown.insert(1, _whole(settings, results))
    return shown


def _whole(settings: CurveSettings, results: CurveResults) -> Table:
    rows = []
    for model in settings.whole:
        for flips in ("", "-flips") if settings.flips else ("",):
            for field in FIELDS:
                cells = [share(results.whole[model, flips, field, part]) for part in parts(settings)]
                rows.append([f"{model}, {field.upper()}{', with flips' if flips else ''}", *cells])
    caption = (
        f"Accuracy in percent after {settings.whole_images:,} training images of {settings.pixels}×{settings.pixels} "
        f"pixels, {settings.depth} hidden layers; in brackets 95 % intervals over images. Kernels in "
        f"{settings.whole_precision}, with a ridge of {settings.whole_ridge:g} of the mean diagonal. "
        "With flips every image is learnt in both orientations, exactly."
    )
    return table(caption, ["", *parts(settings)], rows)


def _curves(results: CurveResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "curves",
        titles=[_TITLES[group] for group in GROUPS],
        xlabel="training images",
        ylabel="classification error",
        sharey=True,
        caption=(
            "Classification error on images not trained on: dots, means over repetitions with 95 % "
            "intervals; lines, two power laws joined at a cusp."
        ),
        alt="Classification error against training images",
    ) as drawn:
        for axes, group in zip(drawn, GROUPS, strict=True):
            for model, n in results.sizes.items():
                colour = _COLOURS[model].light
                errors = [t_interval(row, bounds=(0, 1)) for row in results.classification[model, group]]
                drawing.estimates(axes, n, errors, colour, label=model, fmt="o")
                if (results.classification[model, group].mean(axis=1) > 0).all():
                    fine = np.geomspace(n[0], n[-1], 60)
                    axes.plot(fine, results.laws[model, group].curve(fine), color=colour, lw=1)
            drawing.logarithmic(axes, "both", fine=True)
    return drawn.figure


def _laws(results: CurveResults) -> Table:
    rows = []
    for (model, group), law in results.laws.items():
        cells = [results.exponent(model, group), *law.exponents, law.cusp, law.grows.difference]
        rows.append([f"{model}, {group}", f"{cells[0]:.3f}", *cells[1:], _ABOVE[law.grows.verdict]])
    header = ["", "one exponent", "exponent before", "after", "cusp", "growth", "growth above 0?"]
    caption = (
        "Fitted power laws, one and two joined at a cusp; in brackets 95 % intervals. Claims that an exponent does not "
        f"grow compare those of the lower and the upper half of sizes, with a margin of {GROWTH:g}."
    )
    return table(caption, header, rows)


def _features(s: CurveSettings, results: CurveResults, folder: RunFolder, model: str) -> Figure:
    with drawing.panels(
        folder,
        f"features-{model}",
        size=(6.4, 3.6),
        xlabel="training images",
        ylabel="accuracy on test images, %",
        caption="Random features: accuracy with its 95 % interval over test images; the exact kernel on fewer images, "
        "in folds; the source’s number, where it has one, of the exact kernel and all images.",
        alt="Accuracy of random features against training images",
    ) as drawn:
        (axes,) = drawn
        reached = [share(right) for right in results.feature_right[model]]
        drawing.estimates(axes, feature_sizes(s), reached, palette.BLUE.light, label=f"{s.features:,} features")
        exact = share(results.exact_right[model][0])
        few = round(0.75 * s.exact_images)
        drawing.estimates(axes, [few], [exact], palette.GREEN.light, fmt="s", ms=6, label="exact kernel, ours")
        if model in SOURCE:
            colour = palette.MUTED.light
            axes.plot([FULL], [SOURCE[model]], "D", ms=7, color=colour, label="exact kernel, source")
        drawing.logarithmic(axes, "x")
    return drawn.figure


def _learnt(s: CurveSettings, results: CurveResults, model: str) -> Table:
    rows = [
        [f"{n:,}", f"{ridge:.2g}", f"{100 * validation:.1f}", share(right)]
        for n, ridge, validation, right in zip(
            feature_sizes(s),
            results.feature_ridge[model],
            results.feature_validation[model],
            results.feature_right[model],
            strict=True,
        )
    ]
    caption = (
        f"Accuracy in percent of {s.features:,} random features of {model}; in brackets 95 % intervals over test "
        "images. The ridge, of the mean of the kernel’s diagonal, is the best in validation."
    )
    return table(caption, ["training images", "ridge", "validation", "test"], rows)


def _trained(settings: CurveSettings, results: CurveResults, folder: RunFolder) -> Figure:
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
        for (key, errors), colour in zip(results.networks.items(), _LOOK, strict=False):
            values = [t_interval(row, bounds=(0, 1)) for row in errors]
            drawing.estimates(axes, settings.network_sizes, values, colour.light, label=network_label(*key))
        drawing.logarithmic(axes, "both", fine=True)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (THEIRS, OMNISCIENT_RISK), check_settings)
