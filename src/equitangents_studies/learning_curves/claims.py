"""What is claimed of learning curves: exponents, predictions, growth, symmetries, the source's accuracies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from equitangents.statistics import Estimate, exactly, shared_level, t_interval
from equitangents_studies.framework.claims import EXACT, By, Claim, agreement, claim, identity, ours, proved, theirs
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY
from equitangents_studies.learning_curves.settings import (
    DRAWN,
    DRAWN_SIZES,
    FIELDS,
    GROWTH,
    Results,
    Settings,
    compared_features,
    half_growth,
    left,
    off,
    pools,
)

SETS = "training and test sets from the same images"
OURS = "our question"
_CLEAN, _FROM = 5.0, 80  # per cent off one power law, and from how many images on
_LOST = 2.0  # percentage points that features may lose to the exact kernel
_WITHIN = 10.0  # per cent that predictions may be off


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's claims of infinite width, then predictions of our own and the check of the fits."""
    return [
        *whole_claims(settings, results),
        *_symmetries(settings, results),
        *([_growth(settings, results), _scaling(settings, results)] if results.sizes else []),
        *trained_claims(settings, results),
        *_approximated(settings, results),
        *_predictions(settings, results),
        _recovery(results),
    ]


def _recovery(results: Results) -> Claim:
    draws = len(results.recovered)
    return claim(
        f"Exponents and cusp of synthetic power laws lie within their intervals in 95 % of {draws} draws",
        {"all three together": exactly(100 * float(results.recovered.all(axis=1).mean()))},
        measure=f"Share of {draws} curves of {DRAWN_SIZES} sizes with {100 * DRAWN[3]:g} % noise in which both "
        "exponents and the cusp lie in their intervals.",
        covers=EXACT,
        at_least=95,
        unit="%",
        by=identity("our fits of known curves"),
    )


def _predictions(settings: Settings, results: Results) -> list[Claim]:
    if not results.measured:
        return []
    level = shared_level(len(results.measured) * len(settings.predicted_sizes))
    found = []
    kinds = (
        ("omniscient estimate, from the spectrum alone,", results.omniscient),
        ("estimate with a variance for each input", results.inputs),
    )
    for what, predicted in kinds:
        numbers = {
            f"{name}, {size} images": e
            for name in results.measured
            for size, e in zip(
                settings.predicted_sizes, off(predicted[name], results.measured[name], level), strict=True
            )
        }
        found.append(
            claim(
                f"The {what} predicts the squared error to within {_WITHIN:g} % from {settings.predicted_sizes[0]} "
                "images on, on every data set",
                numbers,
                measure="Predicted over measured mean squared error of the MLP’s kernel on images not trained on, "
                f"minus 1; a pool of {settings.predicted_images:,} images.",
                covers=SETS,
                at_least=-_WITHIN,
                at_most=_WITHIN,
                unit="%",
                by=ours(OURS),
            )
        )
    return found


def _growth(settings: Settings, results: Results) -> Claim:
    errors = {m: results.classification[m, "I"] for m in results.sizes}
    numbers = {m: t_interval(half_growth(results.sizes[m], errors[m])) for m in errors}
    return claim(
        "Data do not improve the data efficiency of the NTK: its exponent does not grow",
        numbers,
        measure="Exponent of the classification error over the upper half of training sizes (in logarithms) minus that "
        f"over the lower half, by repetition; a growth below {GROWTH:g}, our margin, counts as none.",
        covers=(SETS, settings.repetitions), at_most=GROWTH,
        by=theirs(SYNERGY_AND_SYMMETRY, "§6.1, Figure 4", "the effect disappears"),
    )  # fmt: skip


def _scaling(settings: Settings, results: Results) -> Claim:
    """Figure S6: one power law, and how far it is from the measured errors."""
    off = {f"{m}, {g}": results.off_one_law(m, g) for m, g in results.laws}
    return claim(
            "Learning curves of infinite width are clean power laws",
            off,
            measure=f"Error over one fitted power law, minus 1, at the size, from {_FROM} images on, that is furthest "
            "off.",
            covers=(SETS, settings.repetitions), at_least=-_CLEAN, at_most=_CLEAN, unit="%",
            by=theirs(SYNERGY_AND_SYMMETRY, "Figure S6", "straight lines; the bound is ours"),
    )  # fmt: skip


def _approximated(settings: Settings, results: Results) -> list[Claim]:
    """What features lose, where the exact kernel can be computed, and what they reach with all images."""
    found = []
    for model, right in results.exact_right.items():
        lost = features_less_exact(settings, right)
        taken = f"{settings.features:,} features"
        found.append(
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
            )
        )
        reached = share(results.feature_right[model][-1])
        exact = f"{SOURCE[model]:g} % of the exact kernel after {FULL:,} images" if model in SOURCE else ""
        found.append(
            claim(
                f"Accuracy of {settings.features:,} random features of infinitely wide {model} after "
                f"{settings.whole_images:,} training images",
                {taken: reached},
                measure="Share of the test images classified rightly; the ridge is chosen in validation.",
                covers="test images",
                at_least=0,
                unit="%",
                by=ours("the source’s size; its number is of the exact kernel", stated=exact),
            )
        )
    return found


def features_less_exact(settings: Settings, right: np.ndarray) -> dict[str, Estimate]:
    """Accuracy of features minus that of the exact kernel in percentage points, paired over images, by their number."""
    exact, *others = 100.0 * right
    return {f"{m:,} features": t_interval(o - exact) for m, o in zip(compared_features(settings), others, strict=True)}


def _symmetries(settings: Settings, results: Results) -> list[Claim]:
    found = []
    blind = [m for m in ("FCN", "LCN", "VEC") if m in results.sizes]
    if blind:
        change = lambda m: np.abs(results.squared[m, "O(3)^d"] / results.squared[m, "I"] - 1).max()
        found.append(
            claim(
                "A rotation of the channels at every position changes no error of FCN, LCN and VEC of infinite width",
                {m: exactly(float(change(m))) for m in blind},
                measure="Largest relative change of the squared error, all sizes and repetitions; kernels in float32.",
                covers=EXACT,
                at_most=1e-2,
                by=proved(SYNERGY_AND_SYMMETRY, "Theorem 4.1", "equal"),
            )
        )
    pooling = [model for model in results.sizes if pools(model)]
    if pooling:
        lost = {
            model: t_interval(results.accuracy(model, "I") - results.accuracy(model, "O(3)^d")) for model in pooling
        }
        found.append(
            claim(
                f"The same rotation lowers the accuracy of {' and '.join(pooling)}",
                {f"{model}, {results.sizes[model][-1]:,} images": e for model, e in lost.items()},
                measure="Accuracy on images as they are minus that on rotated ones, in percentage points.",
                covers=(SETS, settings.repetitions),
                at_least=0,
                unit=POINTS,
                by=theirs(SYNERGY_AND_SYMMETRY, "Figure 2"),
            )
        )
    if {"VEC", "FCN"} <= set(results.sizes):
        ahead = t_interval(results.accuracy("VEC", "I") - results.accuracy("FCN", "I"))
        found.append(
            claim(
                "VEC classifies more accurately than FCN",
                {f"{results.sizes['VEC'][-1]:,} images": ahead},
                measure="Accuracy of VEC minus that of FCN with the largest training set, in percentage points.",
                covers=(SETS, settings.repetitions),
                at_least=0,
                unit=POINTS,
                by=theirs(SYNERGY_AND_SYMMETRY, "Figure 2"),
            )
        )
    return found


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
            right = {field: float(100 * results.whole[model, "", field, "test"].mean()) for field in FIELDS}
            found.append(
                agreement(
                    f"Infinitely wide {model} classifies {SOURCE[model]:g} % after {FULL:,} images",
                    exactly(right["ntk"]), stated_value=SOURCE[model], stated_spread=_ROUNDED, unit="%",
                    measure=f"Accuracy of the NTK on {settings.whole_tested:,} test images of CIFAR-10; the source’s "
                    "number is rounded to one percent.",
                    covers=EXACT,
                    by=theirs(SYNERGY_AND_SYMMETRY, "Figure 2"),
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
            by=theirs(SYNERGY_AND_SYMMETRY, "Figure 2"),
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


def full_size(settings: Settings) -> bool:
    """Whether the largest training set is the source's, with images left for validation: 45,000 of CIFAR-10."""
    s = settings
    return s.data == "cifar10" and s.whole_images == FULL and left(s) > 0 and s.pixels == 32


def share(right: np.ndarray) -> Estimate:
    """Accuracy in percent, with an interval over images."""
    return t_interval(100.0 * right, bounds=(0, 100))


_PLACE = "§6.1, Figure 4"


_IN_FULL = {"VEC on rotated images": "VEC on images whose positions are rotated one by one", "LCN": "LCN"}
_SEEN = "runs, each with images, a rotation and initial weights of its own"


def _growths(settings: Settings, results: Results) -> dict[str, np.ndarray]:
    """The same by run: run r of every kind of network has the same training and test images."""
    sizes = np.array(settings.network_sizes)
    if len(sizes) < 4:
        return {}
    return {network_label(*key): half_growth(sizes, errors) for key, errors in results.networks.items()}


def trained_claims(settings: Settings, results: Results) -> list[Claim]:
    """The source's: the exponent of VEC grows with data, but not on rotated images, and not that of LCN."""
    found, covers = [], (_SEEN, settings.members)
    by_run = _growths(settings, results)
    numbers = {label: t_interval(runs) for label, runs in by_run.items()}
    measure = (
        "Exponent of the classification error over the upper half of training sizes (in logarithms) minus that over "
        f"the lower half, by run; {settings.width} channels, {settings.network_depth} hidden layers, {results.source} "
        f"at {settings.pixels}×{settings.pixels} pixels, {settings.network_sizes[0]} to {settings.network_sizes[-1]:,} "
        "images."
    )
    grown = {label: e for label, e in numbers.items() if label == network_label("VEC", "I")}
    if grown:
        found.append(
            claim(
                "Data improve the data efficiency of trained VEC: its exponent grows",
                grown,
                measure=measure,
                covers=covers,
                at_least=0,
                by=theirs(SYNERGY_AND_SYMMETRY, _PLACE, "the curve becomes steeper"),
            )
        )
    others = {label: e for label, e in numbers.items() if label in _IN_FULL}
    if grown and others:
        ahead = {label: t_interval(by_run[network_label("VEC", "I")] - by_run[label]) for label in others}
        found.append(
            claim(
                f"It grows more than that of {' and that of '.join(_IN_FULL[label] for label in others)}",
                ahead,
                measure="Growth of the exponent of trained VEC minus the other’s, by run, with the same training and "
                "test images.",
                covers=covers,
                at_least=0,
                by=theirs(SYNERGY_AND_SYMMETRY, _PLACE, "that curve alone becomes steeper"),
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
                by=theirs(SYNERGY_AND_SYMMETRY, _PLACE, "the effect disappears there, too"),
            )
        )
    return found


def network_label(model: str, group: str) -> str:
    """The label of networks trained on images as they are, or rotated."""
    return model if group == "I" else f"{model} on rotated images"
