"""Tables of the finite-width study: parts, means of M members, exponents, and the change of exact networks."""

from __future__ import annotations

import numpy as np

from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.common.infinite import squares_of_means
from equitangents_studies.finite_width.claims import group_change, members_exponent, width_exponent
from equitangents_studies.finite_width.results import Results
from equitangents_studies.finite_width.settings import KINDS, TITLES, Settings
from equitangents_studies.framework.page import Columns, columns


def parts_table(settings: Settings, results: Results) -> Columns:
    """A(n) and B(n) with intervals beside A(∞) and B(∞)."""
    rows = []
    for (architecture, task), cell in results.cells.items():
        for kind in KINDS:
            for t, step in enumerate(map(int, results.steps)):
                for width in settings.widths_of(architecture):
                    a, b = bootstrap(cell.fluctuations(kind, width, t)), cell.bias_of(kind, width, t)
                    first = (a, cell.fluctuation[kind][t])
                    second = (b, cell.bias[kind][t])
                    rows.append((architecture, task, TITLES[kind], step, width, *first, *second))
    part = lambda name: (name, f"{name}_low", f"{name}_high", f"{name}_infinite")
    return columns(("architecture", "task", "augmentation", "step", "width", *part("A"), *part("B")), rows)


def members_table(settings: Settings, results: Results) -> Columns:
    """Mean square change of means of M members, by disjoint batch, and what the closed form expects."""
    rows = []
    for (architecture, task), cell in results.cells.items():
        sizes = settings.sizes_of(architecture)
        for kind in KINDS:
            for t, step in enumerate(map(int, results.steps)):
                for width in settings.widths_of(architecture):
                    squares = squares_of_means(cell.changes_of(kind, width, t), sizes)
                    for j, m in enumerate(sizes):
                        expected = cell.fluctuation[kind][t] / m + cell.bias[kind][t]
                        where = (architecture, task, TITLES[kind], step, width, m)
                        rows += [(*where, i, v, expected) for i, v in enumerate(squares[:, j])]
    names = ("architecture", "task", "augmentation", "step", "width", "members", "batch")
    return columns((*names, "mean_square_change", "closed_form"), rows)


def exponents_table(settings: Settings, results: Results) -> Columns:
    """Exponents in the number of members, at every width, and in the width, after complete augmentation."""
    rows: list[tuple[object, ...]] = []
    for (architecture, task), cell in results.cells.items():
        for t, step in enumerate(map(int, results.steps)):
            for width in settings.widths_of(architecture):
                e = members_exponent(settings, architecture, cell, width, t)
                rows.append((architecture, task, step, "members", width, e))
            rows.append((architecture, task, step, "width", "", width_exponent(settings, architecture, cell, t)))
    return columns(("architecture", "task", "step", "against", "width", "exponent", "low", "high"), rows)


def group_table(settings: Settings, results: Results) -> Columns:
    """The largest change of group-convolutional networks, in units of the targets’ size."""
    rows = [
        (task, step, width, group_change(results, task, width, t))
        for task in results.group
        for t, step in enumerate(map(int, results.steps))
        for width in settings.widths_of("gcnn")
    ]
    return columns(("task", "step", "width", "largest_change"), rows)


def single_changes(results: Results, architecture: str, task: str, width: int, time: int) -> Estimate:
    """Root mean square change of one network, with an interval over networks."""
    if architecture == "gcnn":
        changes = results.group[task][width][time].astype(np.float64)
    else:
        changes = results.cells[architecture, task].changes_of("complete", width, time)
    return bootstrap((changes**2).mean(axis=1)[:, None], lambda means: np.sqrt(means[:, 0]))
