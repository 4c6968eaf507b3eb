"""How the two laws are shown: accuracies by group."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, palette
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section
from equitangents_studies.gaussian_vs_uniform.study import (
    GROUPS,
    LAWS,
    MARGIN,
    Results,
    Settings,
    difference,
    mean_score,
    moved,
)


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """The table, the figure and facts."""
    text = (
        "Fully connected networks trained by NN+; training and test images are moved by one random element of the "
        "group, the same for both laws."
    )
    facts = {
        "Data": f"{results.source}, {settings.pixels}×{settings.pixels} pixels, {settings.train_images:,} training and "
        f"{settings.test_images:,} test images",
        "Networks": f"{settings.members} for each law and group, {settings.depth} hidden layers of {settings.width}",
    }
    sections = [section("Accuracy", text, _figure(settings, results, folder))]
    tables = {"accuracy": table(results), "kurtosis": _kurtosis(results)}
    found = _finding(results), _sentence(settings, results)
    return Presentation(tables, sections, facts, finding=found[0], sentence=found[1])


def _finding(results: Results) -> str:
    every = lambda law: np.mean([results.scores[law, group] for group in GROUPS], axis=0)
    e = difference(every("gaussian"), every("uniform"))
    if e.low >= -MARGIN and e.high <= MARGIN:
        return "A uniform first layer breaks rotation symmetry, and accuracy does not notice"
    return "A uniform first layer breaks rotation symmetry" + (
        ", and accuracy notices" if abs(e.value) > MARGIN else ""
    )


def _sentence(settings: Settings, results: Results) -> str:
    every = lambda law: 100 * np.mean([results.scores[law, group] for group in GROUPS])
    side = max(results.kurtosis)
    return (
        f"Fully connected networks have {every('gaussian'):.1f} % test accuracy with a Gaussian first layer and "
        f"{every('uniform'):.1f} % with a uniform one, mean over images as they are, permuted and rotated (source: no "
        f"visible difference); a rotation changes the excess kurtosis of responses to one pixel by "
        f"{moved(results, 1, 'O(3d)'):.2g}, to {side}×{side} pixels by {moved(results, side, 'O(3d)'):.1g}."
    )


def _kurtosis(results: Results) -> Columns:
    """One row for every side and group: the mean change of the excess kurtosis."""
    rows = [
        (side, 3 * side**2, group, float(results.kurtosis[side][0].mean()), moved(results, side, group))
        for side in results.kurtosis for group in GROUPS[1:]
    ]  # fmt: skip
    return columns(("pixels", "coordinates", "group", "excess_kurtosis", "mean_change"), rows)


def table(results: Results) -> Columns:
    """One row for every law, group and network."""
    rows = [
        (law, group, i, score)
        for law in LAWS for group in GROUPS for i, score in enumerate(results.scores[law, group].tolist())
    ]  # fmt: skip
    return columns(("first_layer", "group", "member", "accuracy"), rows)


def _figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        ylabel="test accuracy, %",
        caption=f"Mean test accuracy of {settings.members} networks with 95 % intervals over networks, first layer "
        "drawn from a Gaussian or a uniform law.",
        alt="Accuracy by group and law of the first layer",
    ) as drawn:
        place = np.arange(len(GROUPS))
        for i, (law, colour) in enumerate(zip(LAWS, (palette.BLUE, palette.VERMILLION), strict=True)):
            values = [mean_score(results.scores[law, group]) for group in GROUPS]
            drawing.estimates(drawn[0], place + 0.06 * (i - 0.5), values, colour.light, label=law, fmt="o")
        drawn[0].set_xticks(place, GROUPS)
        drawn.legend()
    return drawn.figure
