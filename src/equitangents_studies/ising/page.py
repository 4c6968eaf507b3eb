"""How the Ising study is shown: distance to the closed form against width, orbit spread against ensemble size."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import geometric_mean, log_ratio, squared_mean
from equitangents_studies.framework.page import Presentation, Records, RunFolder, drawing
from equitangents_studies.ising.study import (
    SETS,
    Results,
    Settings,
    measured_spread,
    predicted_sizes,
    spread_ratio,
    three_times,
)

_TITLES = {"training": "Training spins", "test": "Test spins", "foreign": "Foreign spins"}
_MARKS = {"training": palette.BLUE, "test": palette.GREEN, "foreign": palette.PURPLE}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    distances = distance_records(settings, results)
    tables = {"distance": distances.table("squared_distance")}
    shown = [
        _for_every_size(settings, results, folder),
        _spread(settings, results, folder),
        _ratio(settings, results, folder),
        _distance(settings, distances, folder),
        _learning(settings, results, folder),
    ]
    return Presentation(tables, shown)


def distance_records(settings: Settings, results: Results) -> Records:
    """Unbiased squared distance between the ensemble's mean and μ_t, by width, set and step."""
    return Records.over(
        lambda width, spins, step: squared_mean(results.errors(width, spins, results.at(step))),
        width=sorted(settings.widths),
        spins=SETS,
        step=[int(t) for t in results.times],
    )


def _learning(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    wide = max(settings.widths)
    with drawing.panels(
        folder,
        "predictions",
        titles=tuple(_TITLES.values()),
        xlabel="configuration, sorted",
        ylabel="energy / standard deviation",
        caption=(
            "Energies after the last step, in units of their standard deviation on independent spins. "
            "Dots and band: mean and standard deviation of the widest members, and the same in closed "
            "form. Whether an MLP extrapolates to foreign spins does not matter for the comparison with "
            "the closed form."
        ),
        alt="Predicted energies by set of spins",
    ) as drawn:
        for name, axes in zip(SETS, drawn, strict=True):
            y = results.members[wide, name][-1, :, 0].astype(np.float64)
            mean, std = results.mean[name][-1, 0], results.std[name][-1]
            order = np.argsort(mean)
            place = np.arange(len(order))
            axes.fill_between(
                place, (mean - std)[order], (mean + std)[order], color=palette.VERMILLION.light, alpha=0.18, lw=0
            )
            axes.plot(place, mean[order], color=palette.VERMILLION.light, lw=1.5, label="closed form")
            look: dict[str, Any] = {"fmt": "o", "ms": 3.2, "elinewidth": 0.8, "zorder": 3, "label": "members"}
            axes.errorbar(place, y.mean(0)[order], y.std(0)[order], color=palette.BLUE.light, **look)
            axes.plot(
                place, results.truth[name][order], "_", ms=6, color=palette.INK.light, zorder=2, label="true energy"
            )
            axes.grid(visible=False, axis="x")
    return drawn.figure


def _distance(settings: Settings, distances: Records, folder: RunFolder) -> Figure:
    trained, widths = [t for t in settings.steps if t > 0][-3:], sorted(settings.widths)
    with drawing.panels(
        folder,
        "distance-to-ntk",
        titles=tuple(_TITLES.values()),
        xlabel="width",
        ylabel="squared distance of means",
        sharey=True,
        caption=(
            "Squared distance between the mean of members and the closed form, per input, in units of the"
            " energies’ variance, without sampling bias. Dots: estimates whose 95 % interval (bars, over "
            "members) excludes zero; open triangles: upper ends of intervals that hold zero; intervals "
            "below zero are not drawn; crosses: sizes of estimates without an interval. The dotted line "
            "begins at the training spins of the last step."
        ),
        alt="Distance to the closed form against width",
    ) as drawn:
        for name, axes in zip(SETS, drawn, strict=True):
            for k, (step, colour) in enumerate(drawing.shades_of(trained)):
                at = distances.where(spins=name, step=step)
                x, y, (low, high) = at.column("width") * 1.05 ** (k - len(trained) / 2), at.values, at.interval
                seen, untold = low > 0, np.isnan(low)
                look: dict[str, Any] = {"fmt": "o", "ms": 4.5, "elinewidth": 1.2}
                axes.errorbar(x[seen], y[seen], np.stack([y - low, high - y])[:, seen], color=colour, **look)
                axes.plot(x[~seen], high[~seen], "v", color=colour, ms=4.5, mfc="none")
                axes.plot(x[untold], np.abs(y[untold]), "x", color=colour, ms=4.5)
                axes.plot([], [], "o", color=colour, label=f"step {step:,}")
            last = distances.where(spins="training", step=trained[-1])
            top = np.where(np.isnan(last.interval[1]), np.abs(last.values), last.interval[1]).max()
            drawing.power(axes, (widths[0], widths[-1]), top, -2, label="∝ 1/width²")
            drawing.logarithmic(axes, ticks=widths, base=2)
    return drawn.figure


def _spread(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    wide = max(settings.widths)
    with drawing.panels(
        folder,
        "orbit-spread",
        titles=tuple(_TITLES.values()),
        ylabel="relative orbit standard deviation",
        size=(8.6, 3.6),
        sharey=True,
        caption=(
            "Relative orbit standard deviation of ensembles of M members over training time. Lines: drawn"
            " from GP(μ, Σ/M) (band: central 68 % of single ensembles). Dots: geometric mean over all "
            "disjoint groups of M of the widest trained members."
        ),
        alt="Relative orbit standard deviation against training steps",
    ) as drawn:
        for name, axes in zip(SETS, drawn, strict=True):
            for m, colour in drawing.shades_of(settings.groups):
                predicted = results.predicted[name][:, settings.groups.index(m)]
                low, high = np.quantile(predicted, [0.16, 0.84], axis=1)
                measured = [measured_spread(results, wide, name, i, m) for i in range(len(results.times))]
                axes.fill_between(results.times, low, high, color=colour, alpha=0.18, lw=0)
                axes.plot(results.times, geometric_mean(predicted), color=colour, lw=1.4)
                axes.plot(results.times, [geometric_mean(v) for v in measured], "o", color=colour, ms=4, clip_on=False)
                axes.plot([], [], "o-", color=colour, lw=1.4, ms=4, label=f"M = {m}")
            drawing.logarithmic(axes, "y")
            drawing.steps(axes, int(results.times[-1]))
    return drawn.figure


def _for_every_size(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    wide, sizes = max(settings.widths), predicted_sizes(settings)
    with drawing.panels(
        folder,
        "spread-for-every-size",
        titles=tuple(_TITLES.values()),
        xlabel="members averaged, M",
        ylabel="relative orbit standard deviation",
        size=(8.6, 3.5),
        sharey=True,
        caption=(
            "Relative orbit standard deviation against the number of members. Lines: median over "
            "ensembles drawn from GP(μ, Σ/M), for every M; bands: central 95 % of them. Dashes: disjoint "
            "groups of the widest trained members, dots their medians."
        ),
        alt="Relative orbit standard deviation against members",
    ) as drawn:
        for name, axes in zip(SETS, drawn, strict=True):
            for step, colour in drawing.shades_of(three_times(settings)):
                low, middle, high = results.curve[name][results.at(step)].T
                axes.fill_between(sizes, low, high, color=colour, alpha=0.22, lw=0)
                axes.plot(sizes, middle, color=colour, lw=1.4, label=f"step {step:,}")
                for m in settings.groups:
                    spread = measured_spread(results, wide, name, results.at(step), m)
                    axes.plot(np.full(len(spread), m), spread, "_", color=colour, ms=4, alpha=0.35)
                    axes.plot(m, np.median(spread), "o", color=colour, ms=4, mec=palette.INK.light, mew=0.6)
            drawing.logarithmic(axes, ticks=settings.groups, base=2)
    return drawn.figure


def _ratio(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    last, wide, widths = len(results.times) - 1, max(settings.widths), sorted(settings.widths)
    sizes = [m for m in settings.groups if settings.members // m >= 4]
    with drawing.panels(
        folder,
        "spread-ratio",
        titles=(f"Against members, at width {wide}", "Against width, single members"),
        ylabel="measured / predicted spread",
        sharey=True,
        caption=(
            "Measured over predicted relative orbit standard deviation after the last step, with 95 % "
            "intervals over groups of members. Where the interval of single members excludes 1, finite "
            "width shows."
        ),
        alt="Ratio of measured and predicted spread",
    ) as drawn:
        for shift, name in zip((0.96, 1.0, 1.04), SETS, strict=True):
            look: dict[str, Any] = {"lw": 1.0, "label": _TITLES[name]}
            by_size = [spread_ratio(settings, results, wide, name, last, m) for m in sizes]
            predicted = results.predicted[name][last, 0]
            by_width = [log_ratio(measured_spread(results, w, name, last, 1), predicted) for w in widths]
            drawing.estimates(drawn[0], shift * np.array(sizes), by_size, _MARKS[name].light, **look)
            drawing.estimates(drawn[1], shift * np.array(widths), by_width, _MARKS[name].light, **look)
        for axes, ticks, label in zip(drawn, (sizes, widths), ("members averaged, M", "width"), strict=True):
            axes.axhline(1, color=palette.INK.light, lw=0.8)
            drawing.logarithmic(axes, "x", ticks, base=2)
            axes.set_xlabel(label)
    return drawn.figure
