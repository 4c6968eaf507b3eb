"""How the study of molecules is shown: learning curves, a table of errors, and what moving molecules changes."""

from __future__ import annotations

import math

import numpy as np

from equitangents.report import Figure, Table, format_number, palette
from equitangents.statistics import t_interval
from equitangents_studies.common.molecule_kernels import TITLES
from equitangents_studies.data.molecules import KCAL_PER_EV
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section
from equitangents_studies.molecules.study import Results, Settings, error_ratio, headline, mean_errors

_COLOURS = {
    "so3": palette.BLUE,
    "mlp": palette.VERMILLION,
    "coulomb": palette.PURPLE,
    "soap": palette.GREEN,
    "elements": palette.MUTED,
}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    sections = [
        section(
            "Learning curves",
            f"Energies are those of {settings.data.upper()}, the {results.label}. Every atom sees the others as "
            "bumps on the sphere around it, one channel for each element and power of the distance. The SO(3) "
            "kernel is that of two convolutional layers over rotations, the MLP kernel that of as many dense "
            "layers on the same coefficients; both sum over pairs of atoms of one element. The Coulomb matrix, "
            "with rows sorted, has a Laplacian kernel; SOAP, summed over atoms, a Gaussian one.",
            "All models share splits, an energy for each element by least squares, and the choice of ridges by "
            "cross-validation on the training set. Widths were chosen by cross-validation on molecules that are "
            "never tested on.",
            _curves(settings, results, folder),
            _table(settings, results),
            _comparison(settings, results),
        ),
        section(
            "Symmetry",
            "Test molecules were turned and shifted at random, and their atoms renumbered. The table shows the "
            "largest change of a prediction after training on the most molecules. Rotations of the SO(3) kernel "
            f"are sampled at {_quadrature(results)}.",
            _symmetry(results),
        ),
    ]
    facts = {
        "Data": f"{settings.data.upper()}, {settings.sizes[-1] + settings.test} molecules, {results.label}",
        "Splits": f"{settings.splits}, {settings.test} test molecules each; splits share molecules",
        "SOAP": "dscribe" if "soap" in results.errors else "left out: dscribe is not installed",
        "Bandlimit": str(settings.bandlimit),
    }
    tables = {"errors": errors_table(settings, results), "symmetry": symmetry_table(results)}
    return Presentation(tables, sections, facts, *headline(settings, results))


def _quadrature(results: Results) -> str:
    """The quadrature in words."""
    return (
        f"{results.resolution} nodes in cos β, with an estimated error of {format_number(results.kernel_error)} of the "
        "kernel on the tuning molecules"
    )


def _comparison(settings: Settings, results: Results) -> Table:
    """How large the invariant kernel's error is beside that of each other model at the largest size."""
    rows = []
    for name in results.errors:
        if name != "so3":
            e = error_ratio(results, "so3", name, -1)
            value, low, high = (format_number(x, e.interval, (-math.inf, 1)) for x in (e.value, *e.interval))
            rows.append((TITLES[name], value, f"{low} to {high}"))
    caption = f"Error of the SO(3) kernel over that of each model, {settings.sizes[-1]} molecules."
    return Table(caption, ("model", "ratio", "95 % interval over splits"), rows)


def errors_table(settings: Settings, results: Results) -> Columns:
    """Mean absolute error and ridge of every model, split and size."""
    rows: list[tuple[object, ...]] = []
    for name in results.errors:
        errors = mean_errors(results, name)
        for k in range(settings.splits):
            for j, size in enumerate(settings.sizes):
                ridge = results.ridges[name][k, j] if name in results.ridges else 0.0
                rows.append((name, k, size, KCAL_PER_EV * errors[k, j], 1000 * errors[k, j], ridge))
    return columns(("model", "split", "molecules", "mae_kcal_per_mol", "mae_meV", "relative_ridge"), rows)


def symmetry_table(results: Results) -> Columns:
    """Changes of predictions of moved molecules."""
    rows = [
        (name, change, i, t, KCAL_PER_EV * table[name][i, t])
        for change, table in (("rotated", results.rotated), ("relabelled", results.relabelled))
        for name in table
        for i, t in np.ndindex(table[name].shape)
    ]
    return columns(("model", "change", "molecule", "draw", "difference_kcal_per_mol"), rows)


def _table(settings: Settings, results: Results) -> Table:
    rows = []
    for name in results.errors:
        cells = []
        for j in range(len(settings.sizes)):
            e = t_interval(KCAL_PER_EV * mean_errors(results, name)[:, j])
            cells.append(f"{e.value:.2f} ± {e.high - e.value:.2f} ({1000 * e.value / KCAL_PER_EV:.0f})")
        rows.append((TITLES[name], *cells))
    caption = "Mean absolute error in kcal/mol (meV in brackets), mean over splits with half of its 95 % interval."
    return Table(caption, ("training molecules", *map(str, settings.sizes)), rows)


def _symmetry(results: Results) -> Table:
    cell = lambda x: f"{KCAL_PER_EV * np.abs(x).max():.1e}"
    rows = [(TITLES[n], cell(results.rotated[n]), cell(results.relabelled[n])) for n in results.rotated]
    return Table("Largest change of a prediction, kcal/mol.", ("model", "turned and shifted", "renumbered"), rows)


def _curves(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "learning-curves",
        size=(7.2, 4.2),
        xlabel="training molecules",
        ylabel="mean absolute error, kcal/mol",
        caption=f"Means over {settings.splits} splits with 95 % intervals; splits share molecules, which intervals "
        "ignore.",
        alt="Error against the number of training molecules",
    ) as drawn:
        drawing.logarithmic(drawn[0], "both", settings.sizes, fine=True)
        errors = {
            TITLES[name]: [t_interval(KCAL_PER_EV * e) for e in mean_errors(results, name).T] for name in results.errors
        }
        drawing.curves(drawn[0], settings.sizes, errors, [_COLOURS[name] for name in results.errors], apart=1.015)
        drawn.legend(columns=3)
    return drawn.figure
