"""What is claimed of learning curves: exponents, predictions, growth, symmetries, the source's accuracies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.statistics import Estimate, exactly, shared_level, t_interval
from equitangents_studies.framework.claims import EXACT, Claim, claim, identity, ours, theirs
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.learning_curves.largest import FULL, POINTS, SOURCE, share, trained_claims, whole_claims
from equitangents_studies.learning_curves.settings import (
    DRAWN,
    DRAWN_SIZES,
    GROWTH,
    Results,
    Settings,
    compared_features,
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
    numbers = {m: t_interval(row) for (m, g), row in results.half_growths().items() if g == "I"}
    return claim(
        "Data do not improve the data efficiency of the NTK: its exponent does not grow",
        numbers,
        measure="Exponent of the classification error over the upper half of training sizes (in logarithms) minus that "
        f"over the lower half, by repetition; a growth below {GROWTH:g}, our margin, counts as none.",
        covers=(SETS, settings.repetitions), at_most=GROWTH,
        by=theirs(THEIRS, "§6.1, Figure 4", "the effect disappears"),
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
            by=theirs(THEIRS, "Figure S6", f"straight lines; that {_CLEAN:g} % count as straight is ours"),
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
                by=theirs(THEIRS, "Theorem 4.1", "equal"),
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
                by=theirs(THEIRS, "Figure 2"),
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
                by=theirs(THEIRS, "Figure 2"),
            )
        )
    return found
