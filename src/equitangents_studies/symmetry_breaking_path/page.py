"""How the path is shown: S-Dist against t, to either neighbour, for every width."""

from __future__ import annotations

from functools import partial

import numpy as np

from equitangents.report import Figure, Section
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, panels
from equitangents_studies.symmetry_breaking_path.study import OTHERS, Results, Settings, everywhere, plain, shown


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """The table, the figure and facts."""
    text = (
        "S-Dist between VEC of finite width and either neighbour, mean over test images, squares summed over classes: "
        f"means over {settings.members} networks, their noise taken out. A number "
        "below 0 says that noise hides the distance, if there is one; intervals are cut at 0."
    )
    learnt = np.array([results.learnt[key] for key in results.learnt])
    facts = {
        "Data": f"{results.source}, {settings.pixels}×{settings.pixels} pixels, {settings.train_images:,} training and "
        f"{settings.test_images:,} test images",
        "Networks": f"{settings.members} of every kind by NN+; {100 * np.mean(learnt >= 0.95):.0f} % of them reach "
        "95 % training accuracy",
    }
    sections = [Section("Path", [text], [_figure(settings, results, folder)])]
    return Presentation({"distances": table(settings, results)}, sections, facts)


def table(settings: Settings, results: Results) -> Columns:
    """One row for every neighbour, width and time."""
    found = everywhere(settings, partial(shown, results))
    rows = [(*row, e, plain(results, *row)) for row, e in zip(found.rows, found.estimates, strict=True)]
    return columns(("other", "width", "time", "s_dist", "low", "high", "plain"), rows)


def _figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    found = everywhere(settings, partial(shown, results))
    with panels(
        folder,
        "path",
        titles=tuple(f"to {title}" for title in OTHERS.values()),
        xlabel="t, along exp(−tA) into O(3)^d",
        ylabel="S-Dist",
        caption=f"S-Dist of VEC of finite width, with 95 % intervals over {settings.members} members; both without the "
        "bias of finite ensembles, intervals cut at 0.",
        alt="S-Dist against the place on the path",
    ) as drawn:
        for axes, other in zip(drawn, OTHERS, strict=True):
            for width, colour in drawing.shades_of(settings.widths):
                drawing.estimates(axes, settings.times, found.where(other=other, width=width).estimates, colour,
                                  label=f"width {width}")  # fmt: skip
        drawn.legend()
    return drawn.figure
