"""What is claimed of learning curves: exponents, predictions, growth, symmetries, the source's accuracies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.statistics import Estimate, exactly, paired_mean, shared_level
from equitangents_studies.framework.claims import EXACT, Claim, Records, claim
from equitangents_studies.learning_curves.results import DRAWN, DRAWN_SIZES, Results, off
from equitangents_studies.learning_curves.settings import Settings

STATED = "stated in arXiv 2207.04612"
OURS = "our question"
SOURCE = {"GAP": 77.0, "VEC": 67.0}  # accuracies of infinite width with 45,000 images of CIFAR-10, stated by the source
FULL = 45_000
_WITHIN = 10.0  # per cent that predictions may be off


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Exponents, predictions, growth, symmetries and the source's accuracies."""
    return [
        _recovery(results),
        *_predictions(settings, results),
        _growth(results),
        *_symmetries(results),
        *_source(settings, results),
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
        source=OURS,
        holds="Take the intervals of exponents and cusps for what they say.",
        fails="Intervals of exponents and cusps hold less often than they say: take a higher level.",
    )


def _predictions(settings: Settings, results: Results) -> list[Claim]:
    if not results.measured:
        return []
    level = shared_level(len(results.measured) * len(settings.predicted_sizes))
    found = []
    kinds = (
        (
            "omniscient estimate, from the spectrum alone,",
            results.omniscient,
            "take the estimate with a variance for each input",
        ),
        ("estimate with a variance for each input", results.inputs, "measure the curve"),
    )
    for what, predicted, instead in kinds:
        numbers = {
            f"{name}, {size} images": e
            for name in results.measured
            for size, e in zip(
                settings.predicted_sizes, off(predicted[name], results.measured[name], level), strict=True
            )
        }
        worst = max(numbers, key=lambda label: abs(numbers[label].value))
        at = f"the furthest off is {numbers[worst].value:.2g} % ({worst})".replace("-", "−")
        found.append(
            claim(
                f"The {what} predicts the squared error to within {_WITHIN:g} % from {settings.predicted_sizes[0]} "
                "images on, on every data set",
                numbers,
                measure="Predicted over measured mean squared error of the MLP’s kernel on images not trained on, "
                f"minus 1; a pool of {settings.predicted_images:,} images.",
                covers="training and test sets from the same images",
                at_least=-_WITHIN,
                at_most=_WITHIN,
                unit="%",
                source=OURS,
                holds=f"Read learning curves off the pool: {at}.",
                fails=f"Do not rely on it where training sets are a large part of the pool: {at}; {instead}.",
                undecided=f"Intervals reach beyond {_WITHIN:g} %: {at}.",
            )
        )
    return found


def _growth(results: Results) -> Claim:
    numbers = {f"{m}, {g}": law.grows.difference for (m, g), law in results.laws.items()}
    span = Records(("case",), tuple((k,) for k in numbers), tuple(numbers.values())).span(".2g")
    return claim(
        "Data improve data efficiency: the exponent grows with the training set",
        numbers,
        measure="Exponent beyond the cusp minus that before it, of the classification error.",
        covers="training and test sets from the same images",
        at_least=0,
        source=STATED,
        stated="exponents grow from about 0.2 to 0.5 for networks on CIFAR-10",
        holds=f"More data pay more and more: exponents grow by {span}.",
        fails=f"Exponents do not grow everywhere at these sizes: they change by {span}.",
        undecided=f"Changes of the exponent are {span}; more images would decide.",
    )


def _symmetries(results: Results) -> list[Claim]:
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
                source=STATED + ", Theorem 4.1",
                stated="equal",
                holds="These kernels do not see how channels of neighbouring pixels go together.",
                fails="Errors change by more than rounding: raise the ridge, or compute in float64.",
            )
        )
    if "GAP" in results.sizes:
        lost = paired_mean(results.accuracy("GAP", "I") - results.accuracy("GAP", "O(3)^d"))
        found.append(
            claim(
                "The same rotation lowers the accuracy of GAP",
                {f"{results.sizes['GAP'][-1]:,} images": lost},
                measure="Accuracy on images as they are minus that on rotated ones, in percentage points.",
                covers="training and test sets from the same images",
                at_least=0,
                unit="percentage points",
                source=STATED,
                holds="Pooling pays as far as the data are translation invariant; these rotations end that.",
                fails="GAP loses nothing here: these images carry their class elsewhere.",
                undecided="More repetitions would decide whether GAP loses accuracy.",
            )
        )
    if {"VEC", "FCN"} <= set(results.sizes):
        ahead = paired_mean(results.accuracy("VEC", "I") - results.accuracy("FCN", "I"))
        found.append(
            claim(
                "VEC classifies more accurately than FCN",
                {f"{results.sizes['VEC'][-1]:,} images": ahead},
                measure="Accuracy of VEC minus that of FCN with the largest training set, in percentage points.",
                covers="training and test sets from the same images",
                at_least=0,
                unit="percentage points",
                source=STATED,
                holds="Windows help even where nothing is pooled.",
                fails="Windows without pooling do not help on these images.",
                undecided="More repetitions would decide between VEC and FCN.",
            )
        )
    return found


def _source(settings: Settings, results: Results) -> list[Claim]:
    """Only on the source’s images; others have other accuracies."""
    if results.source != "cifar10" or settings.pixels != 32:
        return []
    numbers = {}
    for model in SOURCE:
        if model in results.sizes:
            error = results.laws[model, "I"].at(FULL).times(100)
            numbers[model] = Estimate(100 - error.value - SOURCE[model], 100 - error.high - SOURCE[model],
                                      100 - error.low - SOURCE[model])  # fmt: skip
    if not numbers:
        return []
    shown = ", ".join(f"{model} {e.value:+.2g}" for model, e in numbers.items()).replace("-", "−")
    return [
        claim(
            f"Extrapolated to {FULL:,} images, accuracies meet those of the source to 3 percentage points",
            numbers,
            measure=f"Accuracy of the fitted power law at {FULL:,} images minus the source’s (VEC 67 %, GAP 77 %).",
            covers="training and test sets from the same images, if the last power law goes on",
            at_least=-3,
            at_most=3,
            unit="percentage points",
            source=STATED,
            stated="VEC 67 %, GAP 77 %",
            holds=f"The curves lead to the source’s accuracies: differences are {shown} points.",
            fails=f"The last power law does not lead to the source’s accuracies: differences are {shown} points.",
            undecided=f"The extrapolation is too wide to tell: differences are {shown} points.",
        )
    ]
