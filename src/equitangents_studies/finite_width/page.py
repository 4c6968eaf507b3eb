"""How the finite-width study is shown: architectures side by side, then of each the violation and its parts."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.common.infinite import squares_of_means
from equitangents_studies.finite_width.claims import group_change, members_exponent, width_exponent
from equitangents_studies.finite_width.settings import (
    ARCHITECTURES,
    KINDS,
    NOUNS,
    TITLES,
    Results,
    Settings,
    width_name,
)
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, Shown, columns, drawing


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


_COLOURS = {"mlp": palette.BLUE, "cnn": palette.ORANGE, "gcnn": palette.GREEN}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    tables = {
        "parts": parts_table(settings, results),
        "members": members_table(settings, results),
        "exponents": exponents_table(settings, results),
        "group": group_table(settings, results),
    }
    shown: list[Shown] = [
        _architectures(settings, results, folder),
        *(item for name in ARCHITECTURES for item in _section(settings, results, folder, name)),
    ]
    return Presentation(tables, shown)


def _section(settings: Settings, results: Results, folder: RunFolder, architecture: str) -> list[Figure | Table]:
    return [
        _against_members(settings, results, folder, architecture),
        _against_width(settings, results, folder, architecture),
        _parts(settings, results, folder, architecture),
    ]


def _architectures(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    last = len(results.steps) - 1
    with drawing.panels(
        folder,
        "architectures",
        titles=list(results.titles.values()),
        xlabel="width, or channels",
        ylabel="change of one network",
        sharey=True,
        caption=(
            "Single networks, before any averaging: root mean square change of their predictions under "
            "turns, after the last step, with 95 % intervals over networks. MLPs and CNNs train on all "
            "four turns; group-convolutional networks train on none, and change by rounding alone."
        ),
        alt="Violation of single networks against width, by architecture",
    ) as drawn:
        for axes, task in zip(drawn, results.titles, strict=True):
            for name in NOUNS:
                widths = settings.widths_of(name)
                values = [single_changes(results, name, task, width, last) for width in widths]
                drawing.estimates(axes, widths, values, _COLOURS[name].light, label=NOUNS[name])
            drawing.logarithmic(axes, "both", sorted({*settings.widths, *settings.group_channels}), base=2)
    return drawn.figure


def _against_members(settings: Settings, results: Results, folder: RunFolder, architecture: str) -> Figure:
    sizes, last, cells = np.array(settings.sizes_of(architecture)), len(results.steps) - 1, results.of(architecture)
    places = [(task, kind) for task in cells for kind in KINDS]
    with drawing.panels(
        folder,
        f"violation-against-members-{architecture}",
        titles=[f"{results.titles[task]}, {TITLES[kind]}" for task, kind in places],
        rows=len(cells),
        size=(8.6, 0.7 + 3.0 * len(cells)),
        xlabel="members averaged, M",
        ylabel="change under rotations",
        sharey="row",
        caption=(
            "Root mean square change of the mean of M networks after the last step, with 95 % intervals "
            "over disjoint batches of members, and √(A(∞)/M + B(∞))."
        ),
        alt="Violation against the number of members",
    ) as drawn:
        for axes, (task, kind) in zip(drawn, places, strict=True):
            cell = cells[task]
            for width, colour in drawing.shades_of(settings.widths_of(architecture)):
                squares = squares_of_means(cell.changes_of(kind, width, last), settings.sizes_of(architecture))
                values = [bootstrap(column, np.sqrt) for column in squares.T]
                drawing.estimates(axes, sizes, values, colour, label=width_name(architecture, width))
            expected = cell.fluctuation[kind][last] / sizes + cell.bias[kind][last]
            axes.plot(
                sizes,
                np.sqrt(expected),
                color=palette.VERMILLION.light,
                lw=1.4,
                ls=(0, (4, 2)),
                zorder=4,
                label="closed form",
            )
            drawing.logarithmic(axes, "both", sizes, base=2, fine=True)
    return drawn.figure


def _against_width(settings: Settings, results: Results, folder: RunFolder, architecture: str) -> Figure:
    cells, widths = results.of(architecture), np.array(settings.widths_of(architecture), dtype=float)
    first, second = KINDS
    names = [f"{results.titles[task]}: {part}" for task in cells for part in ("A(n)/A(∞)", "B(n)/B(∞)")]
    with drawing.panels(
        folder,
        f"width-{architecture}",
        titles=names,
        rows=len(cells),
        size=(8.6, 0.7 + 2.8 * len(cells)),
        xlabel="width n" if architecture == "mlp" else "channels n",
        caption=(
            "Left: mean square fluctuation of one member’s change over that of an infinitely wide "
            "network, on the first task. Right: square of the expected change over that of the closed "
            "form, without sampling bias, on the second task; intervals that reach beyond the panel are "
            "cut. 95 % intervals over members."
        ),
        alt="Fluctuation and bias against width",
    ) as drawn:
        for (left, right), cell in zip(
            zip(drawn.axes[::2], drawn.axes[1::2], strict=True), cells.values(), strict=True
        ):
            for k, (t, colour) in enumerate(drawing.shades_of(range(len(results.steps)))):
                x = widths * 1.04 ** (k - (min(len(results.steps), 5) - 1) / 2)
                label = f"step {results.steps[t]}"
                a, b = cell.fluctuation[first][t], cell.bias[second][t]
                values = [bootstrap(cell.fluctuations(first, int(w), t)).times(1 / a) for w in widths]
                drawing.estimates(left, x, values, colour, label=label)
                if b > 0:
                    values = [cell.bias_of(second, int(w), t).times(1 / b) for w in widths]
                    drawing.estimates(right, x, values, colour, label=label)
            for axes in (left, right):
                axes.axhline(1, color=palette.INK.light, lw=0.8, label="closed form")
                drawing.logarithmic(axes, "x", widths, base=2)
            right.set_ylim(-0.2, 1.8)
    return drawn.figure


def _parts(settings: Settings, results: Results, folder: RunFolder, architecture: str) -> Figure:
    """Stacked parts of the mean square change at the last step, against M, for the narrowest and the widest network."""
    last, cells = len(results.steps) - 1, results.of(architecture)
    widths = settings.widths_of(architecture)
    places = [(task, kind, width) for task in cells for kind in KINDS for width in (widths[0], widths[-1])]
    with drawing.panels(
        folder,
        f"parts-{architecture}",
        titles=[
            f"{results.titles[task]},\n{TITLES[kind]},\n{width_name(architecture, width)}"
            for task, kind, width in places
        ],
        rows=len(cells),
        size=(8.6, 0.7 + 3.0 * len(cells)),
        xlabel="M",
        ylabel="mean square change",
        sharey="row",
        caption=(
            "Mean square change of the mean of M networks after the last step as a sum: finitely many "
            "members, incomplete augmentation, and what finite width adds or, where the narrow bar lies "
            "above the mark, takes away; for the narrowest and the widest networks."
        ),
        alt="Parts of the violation",
    ) as drawn:
        for axes, (task, kind, width) in zip(drawn, places, strict=True):
            cell, sizes = cells[task], np.array(settings.sizes_of(architecture), dtype=float)
            members, b = cell.fluctuation[kind][last] / sizes, cell.bias[kind][last]
            whole = cell.fluctuations(kind, width, last).mean() / sizes + cell.bias_of(kind, width, last).value
            place = np.arange(len(sizes))
            axes.bar(place, members, color=palette.BLUE.light, label="members, A(∞)/M")
            axes.bar(
                place, np.full(len(sizes), b), bottom=members, color=palette.ORANGE.light, label="augmentation, B(∞)"
            )
            axes.bar(
                place, whole - members - b, bottom=members + b, color=palette.GREEN.light, width=0.4, label="width"
            )
            axes.plot(place, whole, "_", color=palette.INK.light, ms=9, label="all together, A(n)/M + B(n)")
            axes.set_xticks(place, [str(int(m)) for m in sizes])
            axes.grid(visible=False, axis="x")
    return drawn.figure
