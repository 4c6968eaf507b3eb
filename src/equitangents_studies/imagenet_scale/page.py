"""How learning curves on image folders are shown: errors with two power laws, exponents, images as they are seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import FEWEST, Estimate, no_interval, shared_level, t_interval
from equitangents_studies.common.input_pictures import picture_grid
from equitangents_studies.common.scores import covered
from equitangents_studies.framework.claims import Claim, claim, ours, theirs
from equitangents_studies.framework.page import Presentation, RunFolder, Shown, columns, drawing, table
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.imagenet_scale import study
from equitangents_studies.imagenet_scale.study import PERMUTED, Key, Results, Settings, mean_over_images
from equitangents_studies.systems import transformation

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
    return claim(
        "Exponents grow at a cusp",
        numbers,
        measure="Exponent beyond the cusp minus that before it, of the share of wrong classes.",
        covers=_covers(settings), at_least=0,
        by=ours("the source shows cusps near 2·10⁵ images of ImageNet, for all but ResNet-101 on images as they are"),
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
        )
    ]


def lost_claim(settings: Settings, numbers: Mapping[str, Estimate], most: int) -> Claim:
    """What rotations cost every network."""
    return claim(
        "Rotations of the channels at every position lower the accuracy of every network",
        numbers,
        measure=f"Accuracy on images as they are minus that on rotated ones, {most:,} training images.",
        covers=covered(settings.runs, "runs"), at_least=0, unit="percentage points",
        by=theirs(THEIRS, "Figure 5, right", "about 10 (ResNet-18) to 6 (ResNet-200)"),
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
        )
    ]


_COLOURS = {
    "ResNet-18": palette.BLUE, "ResNet-34": palette.GREEN, "ResNet-50": palette.PURPLE, "ResNet-101": palette.INK,
    "Mixer-S": palette.VERMILLION, "Mixer-B": palette.ORANGE,
}  # fmt: skip
_TITLES = {
    "I": "images as they are",
    "O(3)xI": "one rotation of the channels",
    "O(3)^d": "channels rotated at every position",
}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    s, r = settings, results
    errors = [
        (n, g, size, run, r.errors((n, g))[i, run]) for n, g in r.right for i, size in enumerate(r.sizes)
        for run in range(s.runs)
    ]  # fmt: skip
    errors += [
        (n, PERMUTED, r.sizes[-1], run, 1 - right[run].mean()) for n, right in r.permuted.items()
        for run in range(s.runs)
    ]  # fmt: skip
    laws = [
        (*key, what, e)
        for key, law in r.laws.items()
        for what, e in (
            ("exponent before the cusp", law.exponents[0]),
            ("exponent beyond the cusp", law.exponents[1]),
            ("cusp", law.cusp),
            ("growth of the exponent", law.grows.difference),
            *zip(("exponent of the smaller half", "exponent of the larger half"), r.halves.get(key, ()), strict=False),
        )
    ]
    tables = {
        "errors": columns(("network", "group", "training_images", "run", "error"), errors),
        "power_laws": columns(("network", "group", "quantity", "value", "low", "high"), laws),
    }
    shown: list[Shown] = [
        _curves(s, r, folder),
        _laws(r),
        *([_permuted_page(r)] if r.permuted else []),
        _images(s, r, folder),
    ]
    return Presentation(tables, shown)


def _curves(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "curves",
        titles=[_TITLES[g] for g in settings.groups],
        xlabel="training images",
        ylabel="share of wrong classes",
        sharey=True,
        caption="Errors on images not trained on: dots, means over runs (with 95 % intervals from 5 runs on); lines, "
        "two power laws joined at a cusp. Dotted: the dimension of O(3)^d; dashed: that of the rotations of patches.",
        alt="Share of wrong classes against training images",
    ) as drawn:
        for axes, group in zip(drawn, settings.groups, strict=True):
            for network in settings.networks:
                colour = _COLOURS[network].light
                rows = results.errors((network, group))
                several = settings.runs >= FEWEST
                means = [t_interval(row, bounds=(0, 1)) if several else no_interval(row.mean()) for row in rows]
                drawing.estimates(axes, results.sizes, means, colour, label=network, fmt="o")
                fine = np.geomspace(results.sizes[0], results.sizes[-1], 60)
                axes.plot(fine, results.laws[network, group].curve(fine), color=colour, lw=1)
            if group == "O(3)^d":
                axes.axvline(dimension(settings, ("ResNet", group)), color=palette.MUTED.light, lw=0.8, ls=":")
            if group == "I" and any(n.startswith("Mixer") for n in settings.networks):
                axes.axvline(dimension(settings, ("Mixer", group)), color=palette.MUTED.light, lw=0.8, ls="--")
            drawing.logarithmic(axes, "both", results.sizes[:: max(1, len(results.sizes) // 4)])
    return drawn.figure


def _laws(results: Results) -> Table:
    rows = []
    for key, law in results.laws.items():
        cells = [*law.exponents, law.cusp, law.grows.difference, *results.halves.get(key, ())]
        rows.append([", ".join(key), *cells[:4], law.grows.verdict, *cells[4:]])
    header = ["", "exponent before", "beyond", "cusp", "growth", "does it grow?"]
    if results.halves:
        header += ["smaller half alone", "larger half alone"]
    return table("Fitted power laws; in brackets 95 % intervals.", header, rows)


def _permuted_page(results: Results) -> Table:
    rows = [[n, results.accuracy_permuted(n)] for n in results.permuted]
    return table("Accuracy in per cent; in brackets 95 % intervals.", ["", PERMUTED], rows)


def _images(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    shape = results.shown.shape[1:]
    groups = (*settings.groups, *([PERMUTED] if results.permuted else []))
    moves = [transformation(group, shape, seed=settings.seed) for group in groups]
    return picture_grid(
        folder,
        "images",
        [[tau((image[None] / 255 - 0.5) / 0.25)[0] for tau in moves] for image in results.shown],
        groups,
        size=(1.8 * len(groups), 1.7 * len(results.shown) + 0.2),
        caption="One test image of each of a few classes, as the networks see it, moved by each group.",
        alt="Images as they are and moved by each group",
    )


STUDY: Study[Settings, Results] = Study(study.PRESETS, study.measure, claims, (THEIRS,), study.check_settings)
