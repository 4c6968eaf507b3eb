"""How the two laws are shown: accuracies by group."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Section, palette
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, panels
from equitangents_studies.gaussian_vs_uniform.study import GROUPS, LAWS, Results, Settings, mean_score


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
    sections = [Section("Accuracy", [text], [_figure(settings, results, folder)])]
    return Presentation({"accuracy": table(results)}, sections, facts)


def table(results: Results) -> Columns:
    """One row for every law, group and network."""
    rows = [
        (law, group, i, score)
        for law in LAWS for group in GROUPS for i, score in enumerate(results.scores[law, group].tolist())
    ]  # fmt: skip
    return columns(("first_layer", "group", "member", "accuracy"), rows)


def _figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with panels(
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
