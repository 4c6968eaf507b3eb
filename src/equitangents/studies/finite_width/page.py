"""How the finite-width study is shown: violation against members and width, and the parts it consists of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Section, Verdict, figures
from equitangents.report.palette import BLUE, GREEN, INK, MUTED, ORANGE, VERMILLION
from equitangents.report.palette import steps as shades
from equitangents.statistics import bootstrap
from equitangents.studies.common.orbit_spread import squares_of_means
from equitangents.studies.finite_width.study import KINDS, TITLES, Results, Settings, bias, fluctuations
from equitangents.studies.framework import drawing
from equitangents.studies.framework.compatibility import Presentation, say
from equitangents.studies.framework.folder import Columns, RunFolder
from equitangents.studies.framework.tables import columns


def present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables = {"parts": parts_table(settings, results), "members": members_table(settings, results)}
    sections = [
        Section(
            "Members and width",
            [
                "Networks learn the energy of spins on a torus. The violation is the change of the prediction when the "
                "lattice is turned by 90°, 180° or 270°, in units of the energies’ standard deviation. With all four "
                "turns in the data the expected prediction is invariant at every width, since the initialisation has "
                "no preferred direction: what is left is sampling, and falls with the number of members for ever. With "
                "half turns alone the expected prediction is not invariant, and averaging reaches a floor.",
            ],
            [_against_members(settings, results, folder)],
        ),
        Section(
            "Its parts",
            [
                "The closed form gives the fluctuation A(∞) of one infinitely wide network and the square B(∞) of the "
                "expected change. Finite networks fluctuate differently, and their expectation differs from the closed "
                "form’s: both corrections shrink with the width.",
            ],
            [_against_width(settings, results, folder), _parts(settings, results, folder)],
        ),
    ]
    facts = {
        "Group": f"C4 acting on a {settings.lattice}×{settings.lattice} lattice",
        "Members": f"{settings.members} at every width",
        "Networks": f"{settings.hidden_layers} hidden layers, ReLU",
        "Training": f"{settings.train_spins} configurations, full-batch gradient descent",
        "Seed": str(settings.seed),
    }
    return Presentation(_summary(settings, verdicts), tables, sections, facts)


def _summary(settings: Settings, verdicts: Sequence[Verdict]) -> str:
    first = say(
        verdicts[0],
        holds="After complete augmentation the expected prediction is invariant at every width",
        fails="After complete augmentation the expected prediction is not invariant at every width",
        undecided="Whether the expected prediction is invariant at every width cannot be told",
    )
    second = say(
        verdicts[2],
        holds="the effect of finite width on a member’s violation falls with the width",
        fails="the effect of finite width on a member’s violation falls more slowly than expected",
        undecided="how the effect of finite width on a member’s violation falls is not decided",
    )
    third = say(
        verdicts[4],
        holds=f"at width {max(settings.widths)} the closed form predicts the violation of M members.",
        fails=f"at width {max(settings.widths)} the closed form does not yet predict the violation of M members.",
        undecided=f"at width {max(settings.widths)} the violation of M members is not known well enough.",
    )
    return f"{first}; {second}; {third}"


def parts_table(settings: Settings, results: Results) -> Columns:
    """A(n) and B(n) with intervals beside A(∞) and B(∞)."""
    rows = []
    for kind in KINDS:
        for t, step in enumerate(map(int, results.steps)):
            limits = results.fluctuation[kind][t], results.bias[kind][t]
            for width in sorted(settings.widths):
                a, b = bootstrap(fluctuations(results, kind, width, t)), bias(results, kind, width, t)
                rows.append(
                    (TITLES[kind], step, width, a.value, a.low, a.high, limits[0], b.value, b.low, b.high, limits[1])
                )
    names = (
        "augmentation",
        "step",
        "width",
        "A",
        "A_low",
        "A_high",
        "A_infinite",
        "B",
        "B_low",
        "B_high",
        "B_infinite",
    )
    return columns(names, rows)


def members_table(settings: Settings, results: Results) -> Columns:
    """Mean square change of means of M members, by disjoint batch, and what the closed form expects."""
    rows = []
    for kind in KINDS:
        for t, step in enumerate(map(int, results.steps)):
            for width in sorted(settings.widths):
                found = squares_of_means(results.changes[kind][width][t].astype(np.float64), settings.sizes)
                for j, m in enumerate(settings.sizes):
                    expected = results.fluctuation[kind][t] / m + results.bias[kind][t]
                    rows += [(TITLES[kind], step, width, m, i, v, expected) for i, v in enumerate(found[:, j])]
    names = ("augmentation", "step", "width", "members", "batch", "mean_square_change", "closed_form")
    return columns(names, rows)


def _against_members(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    sizes, last = np.array(settings.sizes), len(results.steps) - 1
    with figures.canvas(8.6, 3.5) as canvas:
        panels = canvas.subplots(1, 2, sharey=True)
        for axes, kind in zip(panels, KINDS, strict=True):
            for width, colour in zip(sorted(settings.widths), shades(len(settings.widths)), strict=True):
                found = squares_of_means(results.changes[kind][width][last].astype(np.float64), settings.sizes)
                values = [bootstrap(column, lambda m: np.sqrt(m)) for column in found.T]
                drawing.estimates(axes, sizes, values, colour, label=f"width {width}")
            expected = results.fluctuation[kind][last] / sizes + results.bias[kind][last]
            axes.plot(sizes, np.sqrt(expected), color=VERMILLION.light, lw=1.4, ls=(0, (4, 2)), label="closed form")
            axes.set_title(TITLES[kind].capitalize())
            axes.set_xlabel("members averaged, M")
            drawing.logarithmic(axes, "both", settings.sizes, base=2, fine=True)
        panels[0].set_ylabel("change under rotations")
        panels[0].legend(loc="lower left")
        svg = figures.save(canvas, folder.figures, "violation-against-members")
    caption = (
        f"Root mean square change of the mean of M members after {int(results.steps[-1])} steps, with 95 % intervals "
        f"over disjoint batches of {max(settings.sizes)} members, and √(A(∞)/M + B(∞))."
    )
    return Figure("violation-against-members", caption, svg, alt="Violation against the number of members")


def _against_width(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    widths = np.array(sorted(settings.widths), dtype=float)
    with figures.canvas(8.6, 3.2) as canvas:
        left, right = canvas.subplots(1, 2)
        for t, (step, colour) in enumerate(zip(results.steps, shades(len(results.steps)), strict=True)):
            shift = 1.04 ** (t - (len(results.steps) - 1) / 2)
            a = [
                bootstrap(fluctuations(results, "complete", int(w), t)).times(1 / results.fluctuation["complete"][t])
                for w in widths
            ]
            drawing.estimates(left, widths * shift, a, colour, label=f"step {step}")
            if results.bias["partial"][t] > 0:
                b = [bias(results, "partial", int(w), t).times(1 / results.bias["partial"][t]) for w in widths]
                drawing.estimates(right, widths * shift, b, colour)
        for axes, title in (
            (left, "Fluctuation A(n)/A(∞), all four turns"),
            (right, "Bias B(n)/B(∞), half turns alone"),
        ):
            axes.axhline(1, color=INK.light, lw=0.8)
            axes.set_title(title)
            drawing.logarithmic(axes, "x", widths, base=2)
            axes.set_xlabel("width")
        right.set_ylim(-0.2, 1.8)
        left.legend(loc="lower right")
        svg = figures.save(canvas, folder.figures, "width")
    caption = (
        "Left: mean square fluctuation of one member’s change over that of an infinitely wide network. Right: square "
        "of the expected change over that of the closed form, without sampling bias. 95 % intervals over members."
    )
    return Figure("width", caption, svg, alt="Fluctuation and bias against width")


def _parts(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    """Stacked parts of the mean square change at the last step, against M, for the narrowest and the widest network."""
    last = len(results.steps) - 1
    chosen = (min(settings.widths), max(settings.widths))
    with figures.canvas(8.6, 3.2) as canvas:
        panels = canvas.subplots(1, 4, sharey=True)
        pairs = [(kind, width) for kind in KINDS for width in chosen]
        for axes, (kind, width) in zip(panels, pairs, strict=True):
            sizes = np.array(settings.sizes, dtype=float)
            a, b = results.fluctuation[kind][last], results.bias[kind][last]
            members = a / sizes
            found = fluctuations(results, kind, width, last).mean() / sizes + bias(results, kind, width, last).value
            rest = found - members - b
            place = np.arange(len(sizes))
            axes.bar(place, members, color=BLUE.light, label="members, A(∞)/M")
            axes.bar(place, np.full(len(sizes), b), bottom=members, color=ORANGE.light, label="augmentation, B(∞)")
            axes.bar(place, rest, bottom=members + b, color=GREEN.light, width=0.4, label="width")
            axes.plot(place, found, "_", color=INK.light, ms=9, label="all together")
            axes.set_title(f"{TITLES[kind].capitalize()}, {width}", fontsize=8.5)
            axes.set_xticks(place, [str(int(m)) for m in sizes])
            axes.set_xlabel("M")
            axes.grid(visible=False, axis="x")
        panels[0].set_ylabel("mean square change")
        panels[0].axhline(0, color=MUTED.light, lw=0.6)
        panels[0].legend(loc="upper right", fontsize=7.5)
        svg = figures.save(canvas, folder.figures, "parts")
    caption = (
        f"Mean square change after {int(results.steps[-1])} steps as a sum: finitely many members (blue), incomplete "
        "augmentation (yellow), and what finite width adds or takes away (green, narrow), for the narrowest and the "
        f"widest networks ({chosen[0]} and {chosen[1]})."
    )
    return Figure("parts", caption, svg, alt="Parts of the violation")
