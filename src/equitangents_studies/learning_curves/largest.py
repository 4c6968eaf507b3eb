"""What is claimed of kernels that learn the largest training set: the source's accuracies, and how it orders them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from equitangents.statistics import Estimate, exactly, t_interval
from equitangents_studies.framework.claims import EXACT, By, Claim, agreement, claim, in_words, ours, theirs
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.learning_curves.settings import (
    FIELDS,
    PLAIN,
    PREPARED,
    TRIED_RIDGES,
    Results,
    Settings,
    left,
    sizes_of,
)

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
            covers="test images", at_least=0, unit=POINTS,
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


def full_size(settings: Settings) -> bool:
    """Whether the largest training set is the source's, with images left for validation: 45,000 of CIFAR-10."""
    s = settings
    return s.data == "cifar10" and s.whole_images == FULL and left(s) > 0 and s.pixels == 32


def share(right: np.ndarray) -> Estimate:
    """Accuracy in percent, with an interval over images."""
    return t_interval(100.0 * right, bounds=(0, 100))
