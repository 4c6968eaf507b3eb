"""What is claimed of learning curves: exponents, predictions, growth, symmetries, the source's accuracies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from equitangents.statistics import Estimate, exactly, shared_level, t_interval
from equitangents_studies.framework.claims import EXACT, By, Claim, agreement, claim, identity, in_words, ours, theirs
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.learning_curves.settings import (
    DRAWN,
    DRAWN_SIZES,
    FIELDS,
    GROWTH,
    PLAIN,
    PREPARED,
    TRIED_RIDGES,
    Results,
    Settings,
    compared_features,
    left,
    off,
    pools,
    sizes_of,
)
from equitangents_studies.learning_curves.trained import trained_claims

SETS = "training and test sets from the same images"
OURS = "our question"
SOURCE = {"GAP": 77.0, "VEC": 67.0}  # per cent, infinite width, 45,000 images of CIFAR-10
FULL = 45_000
_ROUNDED = 0.5  # per cent by which its numbers may have been rounded
_CLEAN, _FROM = 5.0, 80  # per cent off one power law, and from how many images on
_LOST = 2.0  # percentage points that features may lose to the exact kernel
_POINTS = "percentage points"
_WITHIN = 10.0  # per cent that predictions may be off


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's claims of infinite width, then predictions of our own and the check of the fits."""
    return [
        *_whole(settings, results),
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
                covers=SETS,
                at_least=-_WITHIN,
                at_most=_WITHIN,
                unit="%",
                by=ours(OURS),
                holds=f"Read learning curves off the pool: {at}.",
                fails=f"Do not rely on it where training sets are a large part of the pool: {at}; {instead}.",
                undecided=f"Intervals reach beyond {_WITHIN:g} %: {at}.",
            )
        )
    return found


def _growth(settings: Settings, results: Results) -> Claim:
    fitted = "; ".join(f"{m} {signed(law.grows.difference)}" for (m, g), law in results.laws.items() if g == "I")
    numbers = {m: t_interval(row) for (m, g), row in results.half_growths().items() if g == "I"}
    said = "; ".join(f"{m} {signed(e)}" for m, e in numbers.items())
    growing = [m for m, e in numbers.items() if e.low > 0]
    small = f" Not 0, if small: {', '.join(growing)}." if growing else ""
    return claim(
        "Data do not improve the data efficiency of the NTK: its exponent does not grow",
        numbers,
        measure="Exponent of the classification error over the upper half of training sizes (in logarithms) minus that "
        f"over the lower half, by repetition; a growth below {GROWTH:g}, our margin, counts as none.",
        covers=(SETS, settings.repetitions), at_most=GROWTH,
        by=theirs(THEIRS, "§6.1, Figure 4", "the effect disappears"),
        holds=f"One power law nearly does for the NTK: exponents change by {said}.{small} Across a fitted cusp: "
        f"{fitted}.",
        fails=f"The NTK’s exponent grows, too: by {said}.",
        undecided=f"The NTK’s exponents change by {said}, which the margin does not decide.",
        why=f"Across a fitted cusp exponents grow by {fitted}: these curves bend.",
    )  # fmt: skip


def _scaling(settings: Settings, results: Results) -> Claim:
    """Figure S6: one power law, and how far it is from the measured errors."""
    off = {f"{m}, {g}": results.off_one_law(m, g) for m, g in results.laws}
    worst = max(off.values(), key=lambda e: abs(e.value))
    return claim(
            "Learning curves of infinite width are clean power laws",
            off,
            measure=f"Error over one fitted power law, minus 1, at the size, from {_FROM} images on, that is furthest "
            "off.",
            covers=(SETS, settings.repetitions), at_least=-_CLEAN, at_most=_CLEAN, unit="%",
            by=theirs(THEIRS, "Figure S6", f"straight lines; that {_CLEAN:g} % count as straight is ours"),
            holds=f"One power law describes each curve to {abs(worst.value):.1f} %.",
            fails=f"Some curve is off one power law by {abs(worst.value):.1f} %.",
            undecided=f"Curves are off one power law by up to {abs(worst.value):.1f} %, which repetitions do not tell "
            "from the margin.",
    )  # fmt: skip


def _whole(settings: Settings, results: Results) -> list[Claim]:
    """VEC at the source's size against the source's number; with flips, and of FCN, what was measured."""
    found = []
    for model in settings.whole:
        numbers = {
            f"{field.upper()}{', with flips' if flips else ''}": share(results.whole[model, flips, field, "test"])
            for flips in (("", "-flips") if settings.flips else ("",)) for field in FIELDS
        }  # fmt: skip
        best = max(e.value for e in numbers.values())
        if model in SOURCE and full_size(settings) and not settings.flips:
            right, validation = (
                {field: results.accuracy_of_all(model, field, part) for field in FIELDS}
                for part in ("test", "validation")
            )
            kept = len(results.whole[model, "", "ntk", "validation"])
            found.append(
                agreement(
                    f"Infinitely wide {model} classifies {SOURCE[model]:g} % after {FULL:,} images",
                    exactly(right["ntk"]), stated_value=SOURCE[model], stated_spread=_ROUNDED, unit="%",
                    measure=f"Accuracy of the NTK on {settings.whole_tested:,} test images of CIFAR-10; the source’s "
                    "number is rounded to one percent.",
                    covers=EXACT,
                    by=theirs(THEIRS, "Figure 2"),
                    numbers={field.upper(): exactly(value) for field, value in right.items()},
                    agrees=f"Infinitely wide {model} classifies as the source says: {right['ntk']:.1f} %.",
                    differs=f"Infinitely wide {model} has {right['ntk']:.1f} % of the test images right.",
                    why=f"{_tried(settings, results, model)} {_by_chance(results, model)} Of the test images the NNGP "
                    f"has {right['nngp']:.1f} %; of the {kept:,} images left for validation the NTK has "
                    f"{validation['ntk']:.1f} %, the NNGP {validation['nngp']:.1f} %.",
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
                holds=f"Infinitely wide {model} classifies up to {best:.1f} % of the test images.",
                fails="",
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
    said = "; ".join(f"{label} {in_words(e)}" for label, e in numbers.items())
    nngp = "; ".join(f"{label} {in_words(e)}" for label, e in ahead(named, results, "nngp").items())
    return [
        claim(
            f"Infinitely wide networks classify better, the fewer symmetries they have: {' < '.join(named)}",
            numbers,
            measure=f"Accuracy of the NTK minus that of the one before, on the same {settings.whole_tested:,} test "
            f"images, after the same {settings.whole_images:,} training images.",
            covers="test images", at_least=0, unit=_POINTS,
            by=theirs(THEIRS, "Figure 2"),
            holds=f"Each is ahead of the one before, in percentage points: {said}; as NNGP: {nngp}.",
            fails=f"Not each is ahead of the one before, in percentage points: {said}; as NNGP: {nngp}.",
            undecided=f"So few test images do not tell all of them apart, in percentage points: {said}.",
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


def _approximated(settings: Settings, results: Results) -> list[Claim]:
    """What features lose, where the exact kernel can be computed, and what they reach with all images."""
    found = []
    for model, right in results.exact_right.items():
        lost = features_less_exact(settings, right)
        said = "; ".join(f"{label} {in_words(e)}" for label, e in lost.items())
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
                unit=_POINTS,
                by=ours("our question: the exact kernel takes weeks at the source’s size"),
                holds=f"Take features where the exact kernel is too dear: {said}.",
                fails=f"What features classify is no estimate of what the exact kernel would: {said}.",
                undecided=f"So few images do not tell what features lose: {said}.",
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
                holds=f"So many features classify {in_words(reached)} % of the test images.",
                fails="",
            )
        )
    return found


def tried_changes(settings: Settings, results: Results, model: str, portion: float = 1.0) -> dict[str, Estimate]:
    """By how many percentage points another ridge than the largest kernel's, or another preparation of images or
    networks, at the ridge that suits it best, changes the accuracy after the largest training set of the curves, or a
    portion of it, paired over repetitions.
    """
    ours = TRIED_RIDGES.index(settings.whole_ridge)
    errors = results.tried[model, PLAIN[portion]]
    changed = {f"a ridge of {r:g}": errors[i] for i, r in enumerate(TRIED_RIDGES) if i != ours and portion == 1}
    for name in results.tried_otherwise(model, portion):
        each = results.tried[model, name]
        changed[PREPARED[name].words] = each[each.mean(axis=1).argmin()]
    return {what: t_interval(100 * (errors[ours] - error)) for what, error in changed.items()}


def _tried(settings: Settings, results: Results, model: str) -> str:
    """What other ridges and preparations change, in words."""
    there = [portion for portion, plain in PLAIN.items() if (model, plain) in results.tried]
    if not there or settings.whole_ridge not in TRIED_RIDGES:
        return "What else differs from the source was not tried."
    changes = {portion: tried_changes(settings, results, model, portion) for portion in there}
    missing = SOURCE[model] - results.accuracy_of_all(model, "ntk", "test")
    side = 1 if missing > 0 else -1
    bring = [
        f"{what} {in_words(e)} after {tried_images(settings, model, portion):,} images"
        for portion, found in changes.items()
        for what, e in found.items()
        if side * e.value >= abs(missing) and e.low * e.high > 0
    ]
    missed = "that are missing are brought" if side > 0 else "too many are taken"
    tried = f"of {len({what for found in changes.values() for what in found})} changes that were tried"
    by = f"{len(bring)} {tried} ({'; '.join(bring)}); with {settings.whole_images:,} images this run did not try it"
    by = by if bring else f"none {tried}"
    said = ". After ".join(
        f"{tried_images(settings, model, portion):,} images: "
        + "; ".join(f"{what} {in_words(e)}" for what, e in found.items())
        for portion, found in changes.items()
    )
    return (
        f"The {abs(missing):.1f} points {missed} by {by}. Each at the best "
        f"of {len(TRIED_RIDGES)} ridges, these change, in percentage points against a ridge of "
        f"{settings.whole_ridge:g}, windows of 3×3 on a torus and {PREPARED['image'].words}, after {said}; an interval "
        "is of its change alone, not of the best of so many. Targets that are not centred change no class, since they "
        "add one function to all outputs; a shorter training was not tried."
    )


def tried_images(settings: Settings, model: str, portion: float) -> int:
    """How many training images something was tried with."""
    return round(portion * int(sizes_of(settings, model)[-1]))


def _by_chance(results: Results, model: str) -> str:
    """How often as many other images would give what rounds to the source's number, in words."""
    right = results.whole[model, "", "ntk", "test"]
    kept, accuracy = len(results.whole[model, "", "ntk", "validation"]), float(right.mean())
    side = 1 if 100 * accuracy > SOURCE[model] else -1  # of the source's number
    end = SOURCE[model] + side * _ROUNDED

    def chance(count: int) -> float:
        """That so many images show what rounds to the source's or is beyond, if both are draws from the same images."""
        spread = max(math.sqrt(accuracy * (1 - accuracy) * (1 / len(right) + 1 / count)), 1e-12)  # all may be right
        return NormalDist().cdf(side * (end / 100 - accuracy) / spread)

    said = " and ".join(f"another {n:,} with a chance of {100 * chance(n):.0f} %" for n in (len(right), kept))
    within = f"less than {end:g} %" if side > 0 else f"{end:g} % or more"
    return (
        f"Over images like these the accuracy is {in_words(share(right))} %. Which images the source’s is of we do not "
        f"know: {said} would show {within}, which rounds to it; on the same images there is no such chance."
    )


def features_less_exact(settings: Settings, right: np.ndarray) -> dict[str, Estimate]:
    """Accuracy of features minus that of the exact kernel in percentage points, paired over images, by their number."""
    exact, *others = 100.0 * right
    return {f"{m:,} features": t_interval(o - exact) for m, o in zip(compared_features(settings), others, strict=True)}


def full_size(settings: Settings) -> bool:
    """Whether the largest training set is the source's, with images left for validation: 45,000 of CIFAR-10."""
    s = settings
    return s.data == "cifar10" and s.whole_images == FULL and left(s) > 0 and s.pixels == 32


def share(right: np.ndarray) -> Estimate:
    """Accuracy in percent, with an interval over images."""
    return t_interval(100.0 * right, bounds=(0, 100))


def signed(e: Estimate) -> str:
    """A change with its sign and interval."""
    return f"{e.value:+.3f} ({e.low:.3f} to {e.high:.3f})".replace("-", "−")


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
                holds="These kernels do not see how channels of neighbouring pixels go together.",
                fails="Errors change by more than rounding: raise the ridge, or compute in float64.",
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
                unit=_POINTS,
                by=theirs(THEIRS, "Figure 2"),
                holds="Pooling pays as far as the data are translation invariant; these rotations end that.",
                fails="Pooling loses nothing here: these images carry their class elsewhere.",
                undecided="More repetitions would decide whether pooling loses accuracy.",
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
                unit=_POINTS,
                by=theirs(THEIRS, "Figure 2"),
                holds="Windows help even where nothing is pooled.",
                fails="Windows without pooling do not help on these images.",
                undecided="More repetitions would decide between VEC and FCN.",
            )
        )
    return found
