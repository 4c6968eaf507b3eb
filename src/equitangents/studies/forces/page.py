"""How the study of forces is shown: learning curves of energies and forces, and of tensors where there are any."""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.data.molecules import KCAL_PER_EV
from equitangents.report import Figure, Section, Verdict, figures
from equitangents.report.palette import BLUE, GREEN, MUTED, PURPLE, VERMILLION
from equitangents.statistics import bootstrap
from equitangents.studies.forces.study import TARGETS, Results, Settings
from equitangents.studies.forces.water_tensors import KINDS
from equitangents.studies.framework import drawing
from equitangents.studies.framework.compatibility import Presentation, say
from equitangents.studies.framework.folder import Columns, RunFolder
from equitangents.studies.framework.tables import columns

_COLOURS = dict(zip(TARGETS, (VERMILLION, GREEN, BLUE), strict=True))


def present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    toy = (
        " These toy energies are smooth functions of the positions with exact forces, and no more: they say nothing "
        "about chemistry."
        if settings.molecule == "methanol"
        else ""
    )
    sections = [
        Section(
            "Learning curves",
            [
                f"Frames of {settings.molecule}, the {results.label}.{toy} Energies predicted from forces alone are "
                "known up to a constant, which is set on the training frames. Dotted: always guessing the mean."
            ],
            [_curves(settings, results, folder)],
        )
    ]
    tables = {"errors": errors_table(settings, results)}
    if results.water:
        text = (
            f"Dipoles and polarisabilities of water ({settings.water}, each geometry turned at random) from readouts "
            "that turn as they do, on the same kind of signals. Dotted: the simplest models that turn as they must, "
            "dipoles of one charge for each element and the mean polarisability times the identity. Errors are in "
            "atomic units: 2.5417 debye for dipoles, 0.14818 Å³ for polarisabilities."
        )
        sections.append(Section("Tensors of water", [text], [_tensors(settings, results, folder)]))
        tables["tensors"] = tensors_table(settings, results)
    facts = {
        "Frames": f"up to {settings.sizes[-1]} to learn from, {settings.test} to test on",
        "Energies": results.label,
        "Tensors": f"water, {settings.water}" if results.water else "left out: no water_tensors.npz",
        "Seed": str(settings.seed),
    }
    return Presentation(_summary(settings, results, verdicts), tables, sections, facts)


def _summary(settings: Settings, results: Results, verdicts: Sequence[Verdict]) -> str:
    error = 1000 * results.forces["both"][-1].mean()
    first = say(
        verdicts[0],
        holds="Training on forces too makes predicted forces better",
        fails="Training on forces too does not make predicted forces better",
        undecided="Whether training on forces too makes predicted forces better is not decided",
    )
    return f"{first}; with {settings.sizes[-1]} frames their mean absolute error is {error:.1f} meV/Å."


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
    with figures.canvas(8.6, 3.4) as canvas:
        panels = canvas.subplots(1, 2)
        for axes, table, spread, label in zip(
            panels, (results.energies, results.forces), results.spread, ("energy, meV", "force component, meV/Å"),
            strict=True,
        ):  # fmt: skip
            drawing.logarithmic(axes, "both", settings.sizes, fine=True)
            for target in TARGETS:
                values = [bootstrap(1000 * row) for row in table[target]]
                drawing.estimates(axes, settings.sizes, values, _COLOURS[target].light, label=f"from {target}")
            axes.axhline(1000 * spread, color=MUTED.light, lw=0.9, ls=(0, (2, 2)))
            axes.set_xlabel("training frames")
            axes.set_ylabel(f"mean absolute error, {label}")
        panels[0].legend(loc="best")
        svg = figures.save(canvas, folder.figures, "learning-curves")
    caption = "Mean absolute errors with 95 % intervals over test frames."
    return Figure("learning-curves", caption, svg, alt="Errors of energies and forces against training frames")


def _tensors(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with figures.canvas(8.6, 3.4) as canvas:
        panels = canvas.subplots(1, len(results.water))
        for axes, (kind, found) in zip(panels, results.water.items(), strict=True):
            drawing.logarithmic(axes, "both", settings.water_sizes, fine=True)
            drawing.estimates(axes, settings.water_sizes, [bootstrap(row) for row in found.errors], PURPLE.light)
            axes.axhline(found.guess.mean(), color=MUTED.light, lw=0.9, ls=(0, (2, 2)))
            axes.set_xlabel("training molecules")
            axes.set_ylabel(f"mean absolute error, {KINDS[kind]}, a.u.")
        svg = figures.save(canvas, folder.figures, "tensors")
    caption = "Mean absolute errors of components with 95 % intervals over test molecules."
    return Figure("tensors", caption, svg, alt="Errors of dipoles and polarisabilities against training molecules")
