"""What is claimed of learning curves at ImageNet's scale: what rotations cost, exponents, cusps, permutations.

The source's exponents, cusps and bounds are those of a million images of a thousand classes: of fewer they are not
asked, since no number of runs would decide them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equitangents.statistics import Estimate, no_interval, shared_level
from equitangents_studies.common.scores import covered
from equitangents_studies.framework.claims import Claim, Records, claim, ours, theirs
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.imagenet_scale import study
from equitangents_studies.imagenet_scale.study import Key, Results, Settings, mean_over_images

SOURCE = {("ResNet-101", "I"): 0.41, ("ResNet-101", "O(3)^d"): 0.49, ("Mixer", "I"): 0.38}  # exponents beyond the cusp
OFF = 0.05  # that exponents may be from the source's, our choice
MOST_PERMUTED = 35.0  # per cent
IMAGENET = (1_000_000, 1000, 224)  # fewest training images, classes and pixels that are compared with the source


def dimension(settings: Settings, key: Key) -> int:
    """The dimension of the spurious group that sets the cusp: O(3)^d of rotated images, O(3p²) of a Mixer’s patches."""
    if key[1] == "O(3)^d":
        return 3 * settings.pixels**2
    size = 3 * settings.patch**2
    return size * (size - 1) // 2


def at_scale(settings: Settings, results: Results) -> bool:
    """Whether these images may be compared with ImageNet."""
    held = (results.sizes[-1], results.classes, settings.pixels)
    return all(value >= least for value, least in zip(held, IMAGENET, strict=True))


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What rotations cost and how exponents change; at the source's size also its exponents, cusps and bounds."""
    found = [lost_claim(settings, lost(settings, results), results.sizes[-1])] if "O(3)^d" in settings.groups else []
    if at_scale(settings, results):
        found += [
            *_larger(settings, results),
            *_exponents(settings, results),
            *_cusps(settings, results),
            *_permuted(settings, results),
        ]
    return [*found, growth_claim(settings, growths(results), results.sizes)]


def growths(results: Results) -> dict[str, Estimate]:
    """By how much each exponent grows at the cusp."""
    return {f"{n}, {g}": law.grows.difference for (n, g), law in results.laws.items()}


def lost(settings: Settings, results: Results) -> dict[str, Estimate]:
    """What rotations cost each network, the largest training set, in percentage points."""
    level = shared_level(len(settings.networks))
    return {n: results.lost(n, "O(3)^d", level) for n in settings.networks}


def _covers(settings: Settings) -> str:
    return "scatter of the sizes about the fit" if settings.runs == 1 else "runs, and scatter about the fit"


def growth_claim(settings: Settings, numbers: Mapping[str, Estimate], sizes: Sequence[int]) -> Claim:
    """Whether exponents grow: ours, since short training sets are trained for more epochs than long ones."""
    span = Records(("case",), tuple((k,) for k in numbers), tuple(numbers.values())).span(".2g")
    kink = settings.fewest_steps * settings.batch // settings.epochs
    confound = (
        f"Sets of fewer than {kink:,} images have {settings.fewest_steps} steps, larger {settings.epochs} epochs: "
        "that bends curves there by itself"
    )
    return claim(
        "Exponents grow at a cusp",
        numbers,
        measure="Exponent beyond the cusp minus that before it, of the share of wrong classes.",
        covers=_covers(settings), at_least=0,
        by=ours("the source shows cusps near 2·10⁵ images of ImageNet, for all but ResNet-101 on images as they are"),
        holds=f"Exponents grow by {span}. {confound}: this does not tell the source’s cusps.",
        fails=f"Exponents change by {span} between {sizes[0]:,} and {sizes[-1]:,} images. {confound}.",
        undecided=f"Exponents change by {span} between {sizes[0]:,} and {sizes[-1]:,} images. {confound}.",
    )  # fmt: skip


def _exponents(settings: Settings, results: Results) -> list[Claim]:
    off = {}
    for (network, group), law in results.laws.items():
        kind = "Mixer" if network.startswith("Mixer") else network
        if (kind, group) in SOURCE:
            e, stated = law.exponent, SOURCE[kind, group]
            off[f"{network}, {group}"] = Estimate(e.value - stated, e.low - stated, e.high - stated, e.confidence)
    if not off:  # none of the source's networks
        return []
    return [
        claim(
            "Exponents beyond the cusp are those of the source: 0.41 (ResNet-101), 0.49 (rotated), 0.38 (Mixer)",
            off,
            measure=f"Exponent beyond the cusp minus the source’s; that {OFF:g} may be off is our choice.",
            covers=_covers(settings),
            at_least=-OFF,
            at_most=OFF,
            by=theirs(THEIRS, "Figure 5", "0.41, 0.49 and 0.38"),
            holds="Extrapolate with the source’s exponents.",
            fails="Do not extrapolate with the source’s exponents: measure your own.",
            undecided="More runs would decide.",
        )
    ]


def _cusps(settings: Settings, results: Results) -> list[Claim]:
    spurious = lambda n, g: g == "O(3)^d" if not n.startswith("Mixer") else g == "I"
    numbers = {}
    for key, law in results.laws.items():
        if spurious(*key):
            d = dimension(settings, key)
            ratio = law.cusp.times(1 / d)
            inside = results.sizes[2] <= d <= results.sizes[-3]  # three sizes on either side tell a cusp
            numbers[f"{key[0]}, {key[1]}, dimension {d:,}"] = ratio if inside else no_interval(ratio.value)
    if not numbers:
        return []
    return [
        claim(
            "The cusp lies near the dimension of the spurious group, within a factor of 2",
            numbers,
            measure="Training size at the cusp over the dimension: of O(3)^d for ResNets on rotated images, of the "
            "rotations O(3p²) of patches for Mixers on images as they are.",
            covers=_covers(settings),
            at_least=0.5,
            at_most=2,
            by=theirs(THEIRS, "Figure 5", "about 2·10⁵ images; dimensions 150,528 and 294,528"),
            holds="Plan for more training images than the spurious group has dimensions.",
            fails="The cusp is elsewhere: the dimension of the group does not tell how many images it takes.",
            undecided=f"{results.sizes[0]:,} to {results.sizes[-1]:,} images do not fix the cusps: it takes sizes from "
            f"an eighth to eight times the dimension, {_dimensions(settings)}, and more runs.",
        )
    ]


def _dimensions(settings: Settings) -> str:
    told = [f"{dimension(settings, ('ResNet', 'O(3)^d')):,} of O(3)^d"]
    if any(n.startswith("Mixer") for n in settings.networks):
        told.append(f"{dimension(settings, ('Mixer', 'I')):,} of patches")
    return " and ".join(told)


def lost_claim(settings: Settings, numbers: Mapping[str, Estimate], most: int) -> Claim:
    """What rotations cost every network."""
    spread = Records(("case",), tuple((k,) for k in numbers), tuple(numbers.values())).span(".2g")
    return claim(
        "Rotations of the channels at every position lower the accuracy of every network",
        numbers,
        measure=f"Accuracy on images as they are minus that on rotated ones, {most:,} training images.",
        covers=covered(settings.runs, "runs"), at_least=0, unit="percentage points",
        by=theirs(THEIRS, "Figure 5, right", "about 10 (ResNet-18) to 6 (ResNet-200)"),
                holds=f"These networks use what is alike at all positions: rotations cost {spread} percentage points.",
        fails="Some network loses nothing: these images carry their class in what rotations leave.",
        undecided="More training and test images, or more runs, would decide whether accuracy is lost.",
    )  # fmt: skip


def _larger(settings: Settings, results: Results) -> list[Claim]:
    """Only with two ResNets or more."""
    order = [n for n in ("ResNet-18", "ResNet-34", "ResNet-50", "ResNet-101") if n in settings.networks]
    if len(order) < 2 or "O(3)^d" not in settings.groups:
        return []
    loss = lambda n: 100.0 * results.right[n, "I"][-1] - 100.0 * results.right[n, "O(3)^d"][-1]
    small, large = loss(order[0]), loss(order[-1])
    return [
        claim(
            "A larger ResNet loses less accuracy by the rotations",
            {f"{order[0]} minus {order[-1]}": mean_over_images(small - large, (-200, 200))},
            measure="What the smallest ResNet loses minus what the largest does, in percentage points.",
            covers=covered(settings.runs, "runs"),
            at_least=0,
            unit="percentage points",
            by=theirs(THEIRS, "Figure 5, right", "about 10 (ResNet-18) to 6 (ResNet-200) percentage points"),
            holds="Larger networks make up for part of a symmetry that does not fit.",
            fails="At this size larger networks lose more.",
            undecided="The difference is within its errors: more runs would decide.",
        )
    ]


def _permuted(settings: Settings, results: Results) -> list[Claim]:
    if not results.permuted:
        return []
    level = shared_level(len(results.permuted))
    found = {n: results.accuracy_permuted(n, level) for n in results.permuted}
    return [
        claim(
            f"With all coordinates permuted no network gets beyond {MOST_PERMUTED:g} %",
            found,
            measure=f"Accuracy on images whose coordinates one permutation, P(3d), moved; {results.sizes[-1]:,} "
            "training images.",
            covers=covered(settings.runs, "runs"),
            at_most=MOST_PERMUTED,
            unit="%",
            by=theirs(THEIRS, "results on ImageNet", "below 35 % on ImageNet"),
            holds="Where neighbours are not neighbours, windows and patches do not help.",
            fails="Some network gets further: locality matters less than stated.",
            undecided="More runs would decide.",
        )
    ]


STUDY: Study[Settings, Results] = Study(study.PRESETS, study.measure, claims, (THEIRS,), study.check_settings)
