"""How the convergence of kernels is shown: every entry as a table, the deviation against the width."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import bootstrap
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section
from equitangents_studies.kernel_convergence.study import KINDS, SPACES, Results, Settings, deviations, headline


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, the figure and facts."""
    text = (
        f"Root mean square deviation of the mean over {settings.samples} random networks from the kernel of infinite "
        "width, relative to it."
    )
    facts = {
        "Networks": f"{settings.batches} × {settings.samples} of every width",
        "Inputs": f"{settings.inputs} random signals",
    }
    sections = [section("Convergence", text, _figure(settings, results, folder))]
    return Presentation({"entries": entries(settings, results)}, sections, facts, *headline(settings, results))


def entries(settings: Settings, results: Results) -> Columns:
    """Every entry of every kernel: exact, mean over networks, standard error."""
    rows = [
        (space, kind, n, i, j, results.exact[space, kind][i, j], results.means[space, kind][w, :, i, j].mean(),
         results.errors[space, kind][w, i, j])
        for space, kind in results.exact for w, n in enumerate(settings.widths)
        for i in range(settings.inputs) for j in range(i, settings.inputs)
    ]  # fmt: skip
    return columns(("space", "kernel", "width", "i", "j", "analytic", "mean", "standard_error"), rows)


def _figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    widths = np.array(settings.widths, dtype=float)
    with drawing.panels(
        folder,
        "convergence",
        titles=tuple(SPACES.values()),
        xlabel="width",
        ylabel="relative deviation",
        caption="Means over batches of networks with 95 % intervals over batches.",
        alt="Deviation of kernels against width",
    ) as drawn:
        for axes, space in zip(drawn, SPACES, strict=True):
            drawing.logarithmic(axes, "both", widths, base=2, fine=True)
            for kind, colour, shift in zip(KINDS, (palette.BLUE, palette.VERMILLION), (0.98, 1.02), strict=True):
                values = [bootstrap(d, np.sqrt) for d in deviations(results, space, kind).T]
                drawing.estimates(axes, shift * widths, values, colour.light, label=kind.upper())
            drawing.power(axes, widths, values[0].value, -0.5, label="∝ 1/√width")
        drawn.legend()
    return drawn.figure
