"""How the Ising study is shown: distance to the closed form against width, orbit spread against ensemble size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from equitangents.report import Figure, Section, Verdict, figures
from equitangents.report.palette import BLUE, GREEN, INK, MUTED, PURPLE, VERMILLION
from equitangents.report.palette import steps as shades
from equitangents.statistics import geometric_mean, log_ratio, squared_mean
from equitangents.studies.framework.claims import say
from equitangents.studies.framework.folder import Columns, RunFolder
from equitangents.studies.framework.study import Presentation
from equitangents.studies.framework.tables import columns as columns_of
from equitangents.studies.ising.study import (
    SETS,
    Results,
    Settings,
    measured_spread,
    predicted_sizes,
    spread_ratio,
    three_times,
)
from equitangents.studies.toy.page import step_axis

_TITLES = {"training": "Training spins", "test": "Test spins", "foreign": "Foreign spins"}
_MARKS = {"training": BLUE, "test": GREEN, "foreign": PURPLE}


def present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables = {
        "distance": distance_table(settings, results),
        "spread": spread_table(settings, results),
        "predictions": prediction_table(settings, results),
        "every_size": every_size_table(settings, results),
    }
    sections = [
        Section(
            "The task",
            [
                f"Networks see a {settings.lattice}×{settings.lattice} lattice of spins on a torus and learn its "
                f"energy from {settings.train_spins} configurations of independent spins, each shown in its four "
                "orientations. Test spins are drawn alike; foreign spins come from Metropolis chains at temperature "
                f"{settings.temperature:g} J, where neighbours align and energies lie far below those of the training "
                "set."
            ],
            [_learning(settings, results, folder)],
        ),
        Section(
            "From the ensemble’s mean to the NTK’s",
            [
                "The mean of finitely many members differs from the closed form for two reasons: finite width, and the "
                "sampling error of averaging few members. The second is subtracted: what is shown is an unbiased "
                "estimate of the squared distance of the mean of infinitely many members."
            ],
            [_distance(settings, tables["distance"], folder)],
        ),
        Section(
            "The orbit spread of M members",
            [
                "The relative orbit standard deviation divides the norm of the standard deviation over the four "
                "orientations by the norm of the mean over them, norms taken over all inputs of a set. Theory draws "
                "ensembles of M members from GP(μ, Σ/M) on whole orbits. At initialisation the expected prediction is "
                "zero, so an ensemble’s spread and mean shrink together, and M does not matter."
            ],
            [
                _spread(settings, results, tables["spread"], folder),
                _for_every_size(settings, results, folder),
                _ratio(settings, results, folder),
            ],
        ),
    ]
    facts = {
        "Group": "C4 acting on the lattice",
        "Widths": ", ".join(map(str, sorted(settings.widths))),
        "Members": f"{settings.members:,} at every width",
        "Training": f"full-batch gradient descent, step {results.learning_rate:.3g}",
        "Seed": str(settings.seed),
    }
    return Presentation(_summary(settings, verdicts), tables, sections, facts)


def _summary(settings: Settings, verdicts: Sequence[Verdict]) -> str:
    approach, arrived, spread, _ = verdicts
    first = say(
        approach,
        holds="As networks get wider, the mean of an ensemble approaches the closed form",
        fails="The mean of an ensemble does not approach the closed form as networks get wider",
        undecided="Whether the mean of an ensemble approaches the closed form cannot be told at this size",
    )
    second = say(
        arrived,
        holds=f"at width {max(settings.widths)} the two agree on training, test and foreign spins",
        fails=f"at width {max(settings.widths)} they still differ",
        undecided=f"whether they agree at width {max(settings.widths)} cannot be told with {settings.members} members",
    )
    third = say(
        spread,
        holds="the spread over rotations of M members is that of GP(μ, Σ/M).",
        fails="the spread over rotations of M members is not that of GP(μ, Σ/M).",
        undecided="the spread over rotations is not measured well enough to compare it with GP(μ, Σ/M).",
    )
    return f"{first}; {second}; {third}"


def distance_table(settings: Settings, results: Results) -> Columns:
    """Unbiased squared distance between the ensemble's mean and μ_t, by width, set and step."""
    rows = []
    for width in sorted(settings.widths):
        for name in SETS:
            for i, step in enumerate(results.times):
                e = squared_mean(results.errors(width, name, i))
                rows.append((width, name, int(step), e.value, e.low, e.high))
    return columns_of(("width", "spins", "step", "squared_distance", "low", "high"), rows)


def spread_table(settings: Settings, results: Results) -> Columns:
    """Relative orbit std of every disjoint group of M members, and the prediction's median and central 95 %."""
    rows: list[tuple[object, ...]] = []
    for name in SETS:
        for i, step in enumerate(map(int, results.times)):
            for k, m in enumerate(settings.groups):
                low, middle, high = np.quantile(results.predicted[name][i, k], [0.025, 0.5, 0.975])
                rows.append(("closed form", name, step, m, "", middle, low, high))
                for width in sorted(settings.widths):
                    values = measured_spread(results, width, name, i, m)
                    rows += [(f"width {width}", name, step, m, g, v, "", "") for g, v in enumerate(values)]
    return columns_of(("model", "spins", "step", "members", "group", "relative_orbit_std", "low", "high"), rows)


def prediction_table(settings: Settings, results: Results) -> Columns:
    """Energies of every configuration: the truth, the ensembles' means and the closed form, at the last step."""
    rows: list[tuple[object, ...]] = []
    for name in SETS:
        for j, truth in enumerate(results.truth[name]):
            rows.append(("truth", name, j, truth, ""))
            rows.append(("closed form", name, j, results.mean[name][-1, 0, j], results.std[name][-1, j]))
            for width in sorted(settings.widths):
                y = results.members[width][name][-1, :, 0, j].astype(np.float64)
                rows.append((f"width {width}", name, j, y.mean(), y.std(ddof=1)))
    return columns_of(("model", "spins", "configuration", "energy", "std"), rows)


def every_size_table(settings: Settings, results: Results) -> Columns:
    """Quantiles of the predicted relative orbit std for every M."""
    names = ("spins", "step", "members", "median", "low", "high")
    return columns_of(
        names,
        [
            (name, int(step), int(m), middle, low, high)
            for name in SETS
            for i, step in enumerate(results.times)
            for m, (low, middle, high) in zip(predicted_sizes(settings), results.curve[name][i], strict=True)
        ],
    )


def _panels(canvas: figures.Canvas, sharey: bool = True) -> dict[str, Axes]:
    axes = canvas.subplots(1, len(SETS), sharey=sharey)
    for name, panel in zip(SETS, axes, strict=True):
        panel.set_title(_TITLES[name])
    return dict(zip(SETS, axes, strict=True))


def _learning(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    wide = max(settings.widths)
    with figures.canvas(8.6, 3.1) as canvas:
        panels = _panels(canvas, sharey=False)
        for name, axes in panels.items():
            y = results.members[wide][name][-1, :, 0].astype(np.float64)
            mean, std = results.mean[name][-1, 0], results.std[name][-1]
            order = np.argsort(mean)
            place = np.arange(len(order))
            axes.fill_between(place, (mean - std)[order], (mean + std)[order], color=VERMILLION.light, alpha=0.18, lw=0)
            axes.plot(place, mean[order], color=VERMILLION.light, lw=1.5)
            axes.errorbar(
                place, y.mean(0)[order], y.std(0)[order], fmt="o", ms=3.2, color=BLUE.light, elinewidth=0.8, zorder=3
            )
            axes.plot(place, results.truth[name][order], "_", ms=6, color=INK.light, zorder=2)
            axes.set_xlabel("configuration, sorted")
            axes.grid(visible=False, axis="x")
        next(iter(panels.values())).set_ylabel("energy / standard deviation")
        svg = figures.save(canvas, folder.figures, "predictions")
    caption = (
        f"Energies after {int(results.times[-1])} steps. Blue: mean and standard deviation of {settings.members} "
        f"members of width {wide}; orange: the same in closed form; dashes: true energies, in units of their standard "
        "deviation on independent spins. An MLP does not extrapolate to foreign spins; the comparison with the closed "
        "form does not need it to."
    )
    return Figure("predictions", caption, svg, alt="Predicted energies by set of spins")


def _distance(settings: Settings, table: Columns, folder: RunFolder) -> Figure:
    columns = {key: np.array(values) for key, values in table.items()}
    trained = [t for t in settings.steps if t > 0][-3:]
    with figures.canvas(8.6, 3.3) as canvas:
        for name, axes in _panels(canvas).items():
            for k, (step, colour) in enumerate(zip(trained, shades(len(trained)), strict=True)):
                rows = (columns["spins"] == name) & (columns["step"] == step)
                width, value = (
                    columns["width"][rows] * 1.05 ** (k - len(trained) / 2),
                    columns["squared_distance"][rows],
                )
                low, high = columns["low"][rows], columns["high"][rows]
                seen = low > 0
                error = np.stack([value - low, high - value])[:, seen]
                axes.errorbar(width[seen], value[seen], error, fmt="o", color=colour, ms=4.5, elinewidth=1.2)
                axes.plot(width[~seen], high[~seen], "v", color=colour, ms=4.5, mfc="none")
                axes.plot([], [], "o", color=colour, label=f"step {step:,}")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(sorted(settings.widths))
            figures.plain_log(axes)
            axes.set_xlabel("width")
            reference = np.array([min(settings.widths), max(settings.widths)], dtype=float)
            top = columns["high"][(columns["spins"] == "training") & (columns["step"] == trained[-1])].max()
            axes.plot(reference, top * (reference / reference[0]) ** -2, color=MUTED.light, lw=0.9, ls=(0, (2, 2)))
        canvas.axes[0].set_ylabel("squared distance of means")
        canvas.axes[1].legend(loc="upper right", handlelength=0.8)
        svg = figures.save(canvas, folder.figures, "distance-to-ntk")
    caption = (
        f"Squared distance between the mean of {settings.members} members and the closed form, per input, in units of "
        "the energies’ variance, without sampling bias. Dots: estimates whose 95 % interval (bars, over members) "
        "excludes zero; open triangles: upper ends of intervals that hold zero. Dotted: proportional to 1/width²."
    )
    return Figure("distance-to-ntk", caption, svg, alt="Distance to the closed form against width")


def _spread(settings: Settings, results: Results, table: Columns, folder: RunFolder) -> Figure:
    wide = max(settings.widths)
    with figures.canvas(8.6, 3.5) as canvas:
        panels = _panels(canvas)
        for name, axes in panels.items():
            for k, (m, colour) in enumerate(zip(settings.groups, shades(len(settings.groups)), strict=True)):
                predicted = results.predicted[name][:, k]
                low, high = np.quantile(predicted, [0.16, 0.84], axis=1)
                axes.fill_between(results.times, low, high, color=colour, alpha=0.18, lw=0)
                axes.plot(results.times, geometric_mean(predicted), color=colour, lw=1.4)
                measured = [measured_spread(results, wide, name, i, m) for i in range(len(results.times))]
                means = [geometric_mean(v) for v in measured]
                axes.plot(results.times, means, "o", color=colour, ms=4, clip_on=False)
                axes.plot([], [], "o-", color=colour, lw=1.4, ms=4, label=f"M = {m}")
            axes.set_yscale("log")
            step_axis(axes, int(results.times[-1]))
            figures.plain_log(axes, "y")
        panels[SETS[0]].set_ylabel("relative orbit standard deviation")
        panels[SETS[-1]].legend(loc="lower left", ncols=2)
        svg = figures.save(canvas, folder.figures, "orbit-spread")
    caption = (
        f"Relative orbit standard deviation of ensembles of M members over training time. Lines: drawn from GP(μ, Σ/M) "
        f"(band: central 68 % of single ensembles). Dots: geometric mean over all disjoint groups of M of the "
        f"{settings.members} trained members of width {wide}."
    )
    return Figure("orbit-spread", caption, svg, alt="Relative orbit standard deviation against training steps")


def _for_every_size(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    wide, sizes = max(settings.widths), predicted_sizes(settings)
    chosen = three_times(settings)
    with figures.canvas(8.6, 3.4) as canvas:
        panels = _panels(canvas)
        for name, axes in panels.items():
            for step, colour in zip(chosen, shades(len(chosen)), strict=True):
                i = results.at(step)
                low, middle, high = results.curve[name][i].T
                axes.fill_between(sizes, low, high, color=colour, alpha=0.22, lw=0)
                axes.plot(sizes, middle, color=colour, lw=1.4, label=f"step {step:,}")
                for m in settings.groups:
                    spread = measured_spread(results, wide, name, i, m)
                    axes.plot(np.full(len(spread), m), spread, "_", color=colour, ms=4, alpha=0.35)
                    axes.plot(m, np.median(spread), "o", color=colour, ms=4, mec=INK.light, mew=0.6)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(settings.groups)
            figures.plain_log(axes)
            axes.set_xlabel("members averaged, M")
        panels[SETS[0]].set_ylabel("relative orbit standard deviation")
        panels[SETS[-1]].legend(loc="lower left")
        svg = figures.save(canvas, folder.figures, "spread-for-every-size")
    caption = (
        "Relative orbit standard deviation against the number of members. Lines: median over ensembles drawn from "
        f"GP(μ, Σ/M), for every M; bands: central 95 % of them. Dashes: disjoint groups of the {settings.members} "
        f"trained members of width {wide}, dots their medians."
    )
    return Figure("spread-for-every-size", caption, svg, alt="Relative orbit standard deviation against members")


def _ratio(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    last = len(results.times) - 1
    with figures.canvas(8.6, 3.1) as canvas:
        left, right = canvas.subplots(1, 2, sharey=True, width_ratios=[1, 1])
        for shift, name in zip((0.96, 1.0, 1.04), SETS, strict=True):
            colour = _MARKS[name].light
            sizes = [m for m in settings.groups if settings.members // m >= 4]
            by_size = [spread_ratio(settings, results, max(settings.widths), name, last, m) for m in sizes]
            by_width = [
                log_ratio(measured_spread(results, w, name, last, 1), results.predicted[name][last, 0])
                for w in sorted(settings.widths)
            ]
            for axes, x, estimates in ((left, sizes, by_size), (right, sorted(settings.widths), by_width)):
                values = np.array([e.value for e in estimates])
                bars = [values - [e.low for e in estimates], [e.high for e in estimates] - values]
                axes.errorbar(
                    shift * np.array(x), values, bars, fmt="o-", lw=1, ms=4, color=colour, label=_TITLES[name]
                )
        for axes, label in ((left, f"members averaged, M (width {max(settings.widths)})"), (right, "width (M = 1)")):
            axes.axhline(1, color=INK.light, lw=0.8)
            axes.set_xscale("log", base=2)
            figures.plain_log(axes, "x")
            axes.set_xlabel(label)
        left.set_xticks(sizes)
        right.set_xticks(sorted(settings.widths))
        left.set_ylabel("measured / predicted spread")
        right.legend(loc="upper right")
        svg = figures.save(canvas, folder.figures, "spread-ratio")
    caption = (
        f"Measured over predicted relative orbit standard deviation after {int(results.times[-1])} steps, with 95 % "
        "intervals over groups of members: left against ensemble size at the largest width, right against width for "
        "single members, where the deviation from 1 is the effect of finite width."
    )
    return Figure("spread-ratio", caption, svg, alt="Ratio of measured and predicted spread")
