"""How spectra and exchange rates are shown: eigenvalues by irrep, errors with what was predicted, factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.report import Figure, Table, format_number, palette
from equitangents.statistics import t_interval
from equitangents_studies.framework.page import Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.spectra.study import KINDS, Results, Settings, headline

_COLOURS = {"plain": palette.INK, "right": palette.BLUE, "subgroup": palette.GREEN, "wrong": palette.VERMILLION}
_NAMES = {"plain": "plain", "right": "right group", "subgroup": "subgroup", "wrong": "wrong group"}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    errors = [
        (name, group, kind, size, r, case.curves[kind][i, r], case.predicted[kind][i])
        for (name, group), case in results.cases.items()
        for kind in case.curves
        for i, size in enumerate(settings.sizes)
        for r in range(settings.repetitions)
    ]
    factors = [
        (name, group, kind, case.orders[kind], e, p)
        for (name, group), case in results.cases.items()
        for kind, e in case.measured.items()
        for p in (case.expected[kind],)
    ]
    irreps = [
        (name, group, i + 1, int(case.multiplicity[i]), k + 1, value)
        for (name, group), case in results.cases.items()
        for i, values in enumerate(case.eigenvalues)
        for k, value in enumerate(values)
    ]
    tables = {
        "errors": columns(
            ("data", "group", "kernel", "training_images", "repetition", "squared_error", "predicted"), errors
        ),
        "factors": columns(
            ("data", "group", "kernel", "order", "measured", "low", "high", "predicted", "predicted_low",
             "predicted_high"), factors,
        ),
        "eigenvalues": columns(("data", "group", "irrep", "multiplicity", "rank", "eigenvalue"), irreps),
    }  # fmt: skip
    said = (
        f"{settings.images:,} images of each set, each turned by a random element of the group; every repetition "
        "leaves a fifth to test on. The prediction needs no training, only kernels and targets of the same images "
        "(`systems.cavity_risk`); its intervals are jackknife ones over images."
    )
    kinds = (
        "The eigenvalues of the plain kernel on all copies of the images, one irrep after another. Targets that no "
        "turn changes lie in the trivial irrep, which is all that the invariant kernel has."
    )
    sections = [
        section("What a group is worth", said, _errors(settings, results, folder), _factors(results)),
        section("Spectra", kinds, _spectra(results, folder), _irreps(results)),
    ]
    sets = dict.fromkeys(name for name, _ in results.cases)
    facts = {
        "Network": f"MLP, {settings.hidden_layers} hidden layers, ReLU, infinite width, NTK",
        "Images": f"{settings.pixels}×{settings.pixels} pixels of {', '.join(sets)}",
    }
    return Presentation(tables, sections, facts, *headline(settings, results))


def _errors(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    titles = [f"{name}, {group}" for name, group in results.cases]
    rows = len(dict.fromkeys(name for name, _ in results.cases))
    with drawing.panels(
        folder,
        "errors",
        titles=titles,
        rows=rows,
        size=(8.6, 2.9 * rows + 0.4),
        xlabel="training images",
        ylabel="squared error",
        caption="Squared error on images not trained on, of the plain kernel and of kernels with a group built in: "
        f"dots, means over {settings.repetitions} repetitions with 95 % intervals. Lines are predictions.",
        alt="Squared errors against training images",
    ) as drawn:
        for axes, case in zip(drawn, results.cases.values(), strict=True):
            for kind in case.curves:
                values = [t_interval(row) for row in case.curves[kind]]
                colour = _COLOURS[kind].light
                drawing.estimates(axes, settings.sizes, values, colour, label=_NAMES[kind], fmt="o")
                axes.plot(settings.sizes, case.predicted[kind], color=colour, lw=1)
            drawing.logarithmic(axes, "both", settings.sizes, fine=True)
    return drawn.figure


def _factors(results: Results) -> Table:
    rows = []
    for (name, group), case in results.cases.items():
        for kind in KINDS:
            if kind in case.measured:
                pair = (case.measured[kind], case.expected[kind])
                rows.append([f"{name}, {group}: {_NAMES[kind]}", str(case.orders[kind]), *pair])
    caption = (
        "Samples that the plain kernel needs for the same error over those with the group built in: above 1 the group "
        "saves samples, below 1 it costs some. In brackets 95 % intervals. Wrong groups turn scrambled pixels."
    )
    return table(caption, ["", "order", "measured", "predicted"], rows)


def _spectra(results: Results, folder: RunFolder) -> Figure:
    first = list(results.cases.items())[:2]
    with drawing.panels(
        folder,
        "spectra",
        titles=[f"{name}, {group}" for (name, group), _ in first],
        xlabel="rank within the irrep",
        ylabel="eigenvalue λ",
        caption="Eigenvalues of the plain kernel on all copies of the images, by irrep; the trivial one in blue.",
        alt="Eigenvalues by irrep",
    ) as drawn:
        for axes, (_, case) in zip(drawn, first, strict=True):
            for i, values in enumerate(case.eigenvalues):
                positive = values[values > 0]
                look: dict[str, Any] = (
                    {"color": palette.BLUE.light, "lw": 1.8}
                    if i == 0
                    else {"color": palette.INK.light, "lw": 0.8, "alpha": 0.6}
                )
                label = "trivial irrep" if i == 0 else "other irreps"
                axes.plot(np.arange(1, len(positive) + 1), positive, label=label, **look)
            drawing.logarithmic(axes)
    return drawn.figure


def _irreps(results: Results) -> Table:
    rows = []
    for (name, group), case in results.cases.items():
        for i in range(len(case.trace)):
            irrep = "trivial irrep" if i == 0 else f"irrep {i + 1}"
            decay = "" if np.isnan(case.decay[i]) else f"{case.decay[i]:.2f}"
            rows.append([f"{name}, {group}: {irrep}", str(case.multiplicity[i]), f"{100 * case.trace[i]:.3g} %", decay])
        plain, invariant = (format_number(c) if np.isfinite(c) else "hidden by rounding" for c in case.condition)
        rows.append([f"{name}, {group}: condition numbers", "", f"plain {plain}", f"invariant {invariant}"])
    header = ["", "multiplicity", "share of the trace", "decay exponent"]
    return Table("Irreps of the plain kernel, and condition numbers on all copies.", header, rows)
