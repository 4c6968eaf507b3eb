"""How the finite-width study is shown: violation against members and width, and the parts it consists of."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Section
from equitangents.report.palette import BLUE, GREEN, INK, ORANGE, VERMILLION
from equitangents.statistics import bootstrap
from equitangents.studies.common.orbit_spread import squares_of_means
from equitangents.studies.finite_width.study import (
    KINDS,
    TITLES,
    Results,
    Settings,
    bias,
    changes_of,
    fluctuations,
)
from equitangents.studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, panels


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables = {"parts": parts_table(settings, results), "members": members_table(settings, results)}
    sections = [
        Section(
            "Members and width",
            [
                "Networks learn the energy of spins on a torus. The violation is the change of the prediction when the "
                "lattice is turned by 90°, 180° or 270°, in units of the energies’ standard deviation. The "
                "initialisation has no preferred direction. So, with all four turns in the data, theory expects "
                "sampling alone: a violation that keeps falling with the number of members, at every width. With half "
                "turns alone the expected prediction itself may change, and averaging cannot go below that.",
            ],
            [_against_members(settings, results, folder)],
        ),
        Section(
            "Its parts",
            [
                "The closed form gives the fluctuation A(∞) of one infinitely wide network and the square B(∞) of the "
                "expected change. Finite networks have A(n) and B(n) of their own, estimated from the members."
            ],
            [_against_width(settings, results, folder), _parts(settings, results, folder)],
        ),
    ]
    facts = {
        "Group": f"C4 acting on a {settings.lattice}×{settings.lattice} lattice",
        "Members": f"{settings.members} at every width",
        "Networks": f"{settings.hidden_layers} hidden layers, ReLU",
        "Training": f"{settings.train_spins} configurations, full-batch gradient descent",
    }
    return Presentation(tables, sections, facts)


def parts_table(settings: Settings, results: Results) -> Columns:
    """A(n) and B(n) with intervals beside A(∞) and B(∞)."""
    rows = []
    for kind in KINDS:
        for t, step in enumerate(map(int, results.steps)):
            for width in sorted(settings.widths):
                a, b = bootstrap(fluctuations(results, kind, width, t)), bias(results, kind, width, t)
                first = (a.value, a.low, a.high, results.fluctuation[kind][t])
                rows.append((TITLES[kind], step, width, *first, b.value, b.low, b.high, results.bias[kind][t]))
    part = lambda name: (name, f"{name}_low", f"{name}_high", f"{name}_infinite")
    return columns(("augmentation", "step", "width", *part("A"), *part("B")), rows)


def members_table(settings: Settings, results: Results) -> Columns:
    """Mean square change of means of M members, by disjoint batch, and what the closed form expects."""
    rows = []
    for kind in KINDS:
        for t, step in enumerate(map(int, results.steps)):
            for width in sorted(settings.widths):
                found = squares_of_means(changes_of(results, kind, width, t), settings.sizes)
                for j, m in enumerate(settings.sizes):
                    expected = results.fluctuation[kind][t] / m + results.bias[kind][t]
                    rows += [(TITLES[kind], step, width, m, i, v, expected) for i, v in enumerate(found[:, j])]
    names = ("augmentation", "step", "width", "members", "batch", "mean_square_change", "closed_form")
    return columns(names, rows)


def _against_members(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    sizes, last = np.array(settings.sizes), len(results.steps) - 1
    with panels(
        folder,
        "violation-against-members",
        titles=[TITLES[kind].capitalize() for kind in KINDS],
        xlabel="members averaged, M",
        ylabel="change under rotations",
        size=(8.6, 3.7),
        sharey=True,
        caption=f"Root mean square change of the mean of M members after {results.steps[-1]} steps, with 95 % "
        f"intervals over disjoint batches of {max(sizes)} members, and √(A(∞)/M + B(∞)).",
        alt="Violation against the number of members",
    ) as drawn:
        for axes, kind in zip(drawn, KINDS, strict=True):
            for width, colour in drawing.shades_of(sorted(settings.widths)):
                found = squares_of_means(changes_of(results, kind, width, last), settings.sizes)
                values = [bootstrap(column, np.sqrt) for column in found.T]
                drawing.estimates(axes, sizes, values, colour, label=f"width {width}")
            expected = results.fluctuation[kind][last] / sizes + results.bias[kind][last]
            axes.plot(
                sizes, np.sqrt(expected), color=VERMILLION.light, lw=1.4, ls=(0, (4, 2)), zorder=4, label="closed form"
            )
            drawing.logarithmic(axes, "both", settings.sizes, base=2, fine=True)
        drawn.legend()
    return drawn.figure


def _against_width(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    widths = np.array(sorted(settings.widths), dtype=float)
    first, second = KINDS
    with panels(
        folder,
        "width",
        titles=(f"Fluctuation A(n)/A(∞), {TITLES[first]}", f"Bias B(n)/B(∞), {TITLES[second]}"),
        xlabel="width n",
        caption="Left: mean square fluctuation of one member’s change over that of an infinitely wide network. Right: "
        "square of the expected change over that of the closed form, without sampling bias; intervals that reach "
        "beyond the panel are cut. 95 % intervals over members.",
        alt="Fluctuation and bias against width",
    ) as drawn:
        left, right = drawn
        for k, (t, colour) in enumerate(drawing.shades_of(range(len(results.steps)))):
            x = widths * 1.04 ** (k - (min(len(results.steps), 5) - 1) / 2)
            label = f"step {results.steps[t]}"
            a, b = results.fluctuation[first][t], results.bias[second][t]
            found = [bootstrap(fluctuations(results, first, int(w), t)).times(1 / a) for w in widths]
            drawing.estimates(left, x, found, colour, label=label)
            if b > 0:
                found = [bias(results, second, int(w), t).times(1 / b) for w in widths]
                drawing.estimates(right, x, found, colour, label=label)
        for axes in drawn:
            axes.axhline(1, color=INK.light, lw=0.8, label="closed form")
            drawing.logarithmic(axes, "x", widths, base=2)
        right.set_ylim(-0.2, 1.8)
        drawn.legend()
    return drawn.figure


def _parts(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    """Stacked parts of the mean square change at the last step, against M, for the narrowest and the widest network."""
    last = len(results.steps) - 1
    chosen = (min(settings.widths), max(settings.widths))
    pairs = [(kind, width) for kind in KINDS for width in chosen]
    with panels(
        folder,
        "parts",
        titles=[f"{TITLES[kind].capitalize()},\nwidth {width}" for kind, width in pairs],
        xlabel="M",
        ylabel="mean square change",
        sharey=True,
        caption=f"Mean square change of the mean of M members after {results.steps[-1]} steps as a sum: finitely many "
        "members, incomplete augmentation, and what finite width adds or, where the narrow bar lies above the mark, "
        "takes away; for the narrowest and the widest networks.",
        alt="Parts of the violation",
    ) as drawn:
        for axes, (kind, width) in zip(drawn, pairs, strict=True):
            sizes = np.array(settings.sizes, dtype=float)
            members, b = results.fluctuation[kind][last] / sizes, results.bias[kind][last]
            found = fluctuations(results, kind, width, last).mean() / sizes + bias(results, kind, width, last).value
            place = np.arange(len(sizes))
            axes.bar(place, members, color=BLUE.light, label="members, A(∞)/M")
            axes.bar(place, np.full(len(sizes), b), bottom=members, color=ORANGE.light, label="augmentation, B(∞)")
            axes.bar(place, found - members - b, bottom=members + b, color=GREEN.light, width=0.4, label="width")
            axes.plot(place, found, "_", color=INK.light, ms=9, label="all together, A(n)/M + B(n)")
            axes.set_xticks(place, [str(int(m)) for m in sizes])
            axes.grid(visible=False, axis="x")
        drawn.legend()
    return drawn.figure
