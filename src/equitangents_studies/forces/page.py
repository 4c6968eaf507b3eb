"""How the study of forces is shown: learning curves of energies and forces, and of tensors where there are any."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import bootstrap
from equitangents_studies.data.molecules import KCAL_PER_EV
from equitangents_studies.forces.study import TARGETS, Results, Settings, headline
from equitangents_studies.forces.water_tensors import KINDS
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section

_COLOURS = dict(zip(TARGETS, (palette.VERMILLION, palette.GREEN, palette.BLUE), strict=True))


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    toy = (
        " These toy energies are smooth functions of the positions with exact forces, and no more: they say nothing "
        "about chemistry."
        if settings.molecule == "methanol"
        else ""
    )
    sections = [
        section(
            "Learning curves",
            f"Frames of {settings.molecule}, the {results.label}.{toy} Energies predicted from forces alone are "
            "known up to a constant, which is set on the training frames.",
            _curves(settings, results, folder),
        )
    ]
    tables = {"errors": errors_table(settings, results)}
    if results.water:
        text = (
            f"Dipoles and polarisabilities of water ({settings.water}, each geometry turned at random) from readouts "
            "that turn as they do, on the same kind of signals. Errors are in atomic units: 2.5417 debye for dipoles, "
            "0.14818 Å³ for polarisabilities."
        )
        sections.append(section("Tensors of water", text, _tensors(settings, results, folder)))
        tables["tensors"] = tensors_table(settings, results)
    facts = {
        "Frames": f"up to {settings.sizes[-1]} to learn from, {settings.test} to test on",
        "Energies": results.label,
        "Tensors": f"water, {settings.water}" if results.water else "left out: no water_tensors.npz",
    }
    return Presentation(tables, sections, facts, *headline(settings, results))


def errors_table(settings: Settings, results: Results) -> Columns:
    """Errors of every test frame."""
    rows = [
        (t, n, i, 1000 * results.energies[t][j, i], KCAL_PER_EV * results.energies[t][j, i],
         1000 * results.forces[t][j, i], KCAL_PER_EV * results.forces[t][j, i])
        for t in TARGETS for j, n in enumerate(settings.sizes) for i in range(settings.test)
    ]  # fmt: skip
    names = ("trained_on", "frames", "test_frame", "energy_meV", "energy_kcal_per_mol", "force_meV_per_A")
    return columns((*names, "force_kcal_per_mol_A"), rows)


def tensors_table(settings: Settings, results: Results) -> Columns:
    """Errors of tensors of every test molecule."""
    rows = [
        (kind, n, i, e)
        for kind, found in results.water.items()
        for n, row in zip(settings.water_sizes, found.errors, strict=True)
        for i, e in enumerate(row)
    ]
    return columns(("tensor", "molecules", "test_molecule", "error_atomic_units"), rows)


def _curves(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "learning-curves",
        titles=("energies, meV", "force components, meV/Å"),
        xlabel="training frames",
        ylabel="mean absolute error",
        caption="Mean absolute errors with 95 % intervals over test frames. Dotted: the error of always guessing the "
        "mean of the test frames.",
        alt="Errors of energies and forces against training frames",
    ) as drawn:
        for axes, table, spread in zip(drawn, (results.energies, results.forces), results.spread, strict=True):
            drawing.logarithmic(axes, "both", settings.sizes, fine=True)
            for shift, target in zip((0.98, 1.0, 1.02), TARGETS, strict=True):
                values = [bootstrap(1000 * row) for row in table[target]]
                drawing.estimates(
                    axes, shift * np.array(settings.sizes), values, _COLOURS[target].light, label=f"from {target}"
                )
            drawing.power(axes, settings.sizes, 1000 * spread, 0, label="mean of the test frames")
    return drawn.figure


def _tensors(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "tensors",
        titles=tuple(f"{KINDS[kind]}, a.u." for kind in results.water),
        xlabel="training molecules",
        ylabel="mean absolute error",
        caption="Mean absolute errors of components with 95 % intervals over test molecules. Dotted: the simplest "
        "models that turn as they must, dipoles of one charge for each element and the mean polarisability times the "
        "identity.",
        alt="Errors of dipoles and polarisabilities against training molecules",
    ) as drawn:
        for axes, found in zip(drawn, results.water.values(), strict=True):
            drawing.logarithmic(axes, "both", settings.water_sizes, fine=True)
            values = [bootstrap(row) for row in found.errors]
            drawing.estimates(axes, settings.water_sizes, values, palette.PURPLE.light, label="equivariant readout")
            drawing.power(axes, settings.water_sizes, found.guess.mean(), 0, label="simplest model")
    return drawn.figure
