"""How learning curves on image folders are shown: errors with two power laws, exponents, images as they are seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import FEWEST, no_interval, shared_level, t_interval
from equitangents_studies.common.input_pictures import picture_grid
from equitangents_studies.common.scores import covered
from equitangents_studies.framework.claims import Claim, claim, theirs
from equitangents_studies.framework.page import Presentation, RunFolder, Shown, columns, drawing, table
from equitangents_studies.framework.study import Study
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY
from equitangents_studies.imagenet_scale import study
from equitangents_studies.imagenet_scale.study import PERMUTED, Key, Results, Settings
from equitangents_studies.systems import transformation


def dimension(settings: Settings, key: Key) -> int:
    """The dimension of the spurious group that sets the cusp: O(3)^d of rotated images, O(3p²) of a Mixer’s patches."""
    if key[1] == "O(3)^d":
        return 3 * settings.pixels**2
    size = 3 * settings.patch**2
    return size * (size - 1) // 2


CUSPS = "near 2·10⁵ images of ImageNet, for all but ResNet-101 on upright images"  # in the source


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What rotations cost, and whether exponents grow."""
    found = []
    if "O(3)^d" in settings.groups:
        level = shared_level(len(settings.networks))
        found.append(
            claim(
                "Rotations of the channels at every position lower the accuracy of every network",
                {n: results.lost(n, "O(3)^d", level) for n in settings.networks},
                measure="Accuracy on images as they are minus that on rotated ones, "
                f"{results.sizes[-1]:,} training images.",
                covers=covered(settings.runs, "runs"),
                at_least=0,
                unit="percentage points",
                by=theirs(SYNERGY_AND_SYMMETRY, "Figure 5, right", "about 10 (ResNet-18) to 6 (ResNet-200)"),
            )
        )
    found.append(
        claim(
            "Exponents grow at a cusp",
            {f"{n}, {g}": law.grows.difference for (n, g), law in results.laws.items()},
            measure="Exponent beyond the cusp minus that before it, of the share of wrong classes.",
            covers="scatter of the sizes about the fit" if settings.runs == 1 else "runs, and scatter about the fit",
            at_least=0,
            by=theirs(SYNERGY_AND_SYMMETRY, "Figure 5", CUSPS),
        )
    )
    return found


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
    rows = [
        [", ".join(key), *law.exponents, law.cusp, law.grows.difference, law.grows.verdict]
        for key, law in results.laws.items()
    ]
    header = ["", "exponent before", "beyond", "cusp", "growth", "does it grow?"]
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


STUDY: Study[Settings, Results] = Study(
    study.PRESETS, study.measure, claims, (SYNERGY_AND_SYMMETRY,), study.check_settings
)
