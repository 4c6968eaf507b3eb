"""How learning curves on image folders are shown: errors with two power laws, exponents, images as they are seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import FEWEST, Estimate, no_interval, t_interval
from equitangents_studies.common.input_pictures import picture_grid
from equitangents_studies.framework.page import Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.imagenet_scale.claims import dimension, lost
from equitangents_studies.imagenet_scale.study import PERMUTED, Results, Settings
from equitangents_studies.systems import transformation

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
    """Tables, figures and words."""
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
    names = {"textures": "Generated textures", "cifar10": "Images of CIFAR-10"}
    text = (
        f"{names.get(r.source, f'Images of the folder {r.source}')}, {r.classes:,} classes, at {s.pixels}×{s.pixels} "
        f"pixels: training sets are nested, {r.sizes[0]:,} to {r.sizes[-1]:,} images by factors of √2; "
        f"{r.test_images:,} others are classified. Each run draws its own order of images, rotations and initial "
        "weights. Lines are two power laws, joined at a cusp; their intervals hold together at 95 %. Intervals of one "
        "run come from the scatter of the sizes about the fit."
    )
    cost = (
        "Networks are built of the layers of Flax and trained by gradient "
        "descent with momentum: unlike Adam’s, its steps turn with the images."
        + (f" All widths are divided by {s.shrink}." if s.shrink > 1 else "")
    )
    sections = [
        section("Learning curves", text, cost, _curves(s, r, folder), _laws(r)),
        *([section("All coordinates permuted", _permuted(r))] if r.permuted else []),
        section("The images", _images(s, r, folder)),
    ]
    facts = {"Training": f"{s.epochs} epochs, at least {s.fewest_steps} steps, batches of {s.batch}"}
    found = lost(s, r) if "O(3)^d" in s.groups else {}
    return Presentation(tables, sections, facts, *headline(s, found, r.sizes[-1]))


def headline(settings: Settings, lost: Mapping[str, Estimate], most: int) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    if not lost:
        return "", ""
    costs = "costs networks" if min(e.low for e in lost.values()) > 0 else "changes networks by"
    named = ", ".join(f"{name} {e.value:.1f}" for name, e in lost.items())
    said = (
        f"With {most:,} images of {settings.pixels}×{settings.pixels} pixels rotations cost {named} percentage points "
        "of accuracy (source, on ImageNet: about 10 of ResNet-18 to 6 of ResNet-200)."
    )
    return f"Rotating channels position by position {costs} {span(lost)} percentage points of accuracy", said


def span(numbers: Mapping[str, Estimate]) -> str:
    """The smallest to the largest."""
    values = [e.value for e in numbers.values()]
    return f"{min(values):.1f} to {max(values):.1f}".replace("-", "−")


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


def _permuted(results: Results) -> Table:
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
