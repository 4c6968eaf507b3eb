"""How the cross-product study is shown: violations over time, members against their mean, random rotations."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import bootstrap
from equitangents_studies.cross_product.study import SETS, SOLIDS, TITLES, Results, Settings
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing

_COLOURS = {"none": palette.MUTED, "T": palette.ORANGE, "O": palette.GREEN, "I": palette.BLUE}
_PAIRS = {"training": "Training pairs", "test": "Test pairs", "far": "Far pairs"}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    tables = {"closed_form": closed_form_table(results)}
    shown = [
        _members(settings, results, folder),
        _between(results, folder),
    ]
    return Presentation(tables, shown)


def closed_form_table(results: Results) -> Columns:
    """Largest violations, and those under random rotations."""
    rows: list[tuple[object, ...]] = []
    for name in results.between:
        for i, t in enumerate(map(int, results.times)):
            random = np.sqrt(results.between[name][i].mean())
            share = (results.worst[name][i] / results.bound[name][i]).max() if name != "none" and t else ""
            for s, key in enumerate(SETS):
                mean, covariance = results.mean_error[name][i, s], results.covariance_error[name][i, s]
                rows.append((TITLES[name], t, key, mean, covariance, random, share, results.truth_error[name][i]))
    names = ("group", "step", "inputs", "mean", "covariance", "random_rotations", "share_of_bound", "relative_error")
    return columns(names, rows)


def violations(results: Results, name: str, key: str, time: int) -> tuple[np.ndarray, float]:
    """Root mean square violation of every member and of their mean, relative to the members' outputs."""
    y = results.outputs[name, key][time].astype(np.float64)
    size = np.sqrt((y**2).sum(axis=-1).mean())
    off = lambda z: np.sqrt(((z[..., 1:, :, :] - z[..., :1, :, :]) ** 2).sum(axis=-1).mean(axis=(-1, -2))) / size
    return off(y), float(off(y.mean(axis=0)))


def _members(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    name = settings.trained_groups[-1]
    place, shown = drawing.places(results.times), min(25, settings.members)
    with drawing.panels(
        folder,
        "members-and-mean",
        titles=tuple(_PAIRS.values()),
        ylabel="relative violation",
        sharey=True,
        caption=(
            "Root mean square change of ρ(g)⁻¹f(gx) over the first group, relative to the members’ "
            "outputs: some members (grey), their mean (blue), and the root mean square of the members "
            "divided by the square root of their number (dotted)."
        ),
        alt="Violation of equivariance over training",
    ) as drawn:
        for axes, key in zip(drawn, SETS, strict=True):
            both = [violations(results, name, key, i) for i in range(len(results.times))]
            single, mean = np.array([s for s, _ in both]), np.array([m for _, m in both])
            axes.plot(place, single[:, :shown], color=palette.MEMBER.light, lw=0.5, alpha=0.6)
            axes.plot([], [], color=palette.MEMBER.light, lw=0.8, label="members")
            axes.plot(place, mean, "o-", color=palette.BLUE.light, label=f"mean of {settings.members}")
            expected = np.sqrt((single**2).mean(axis=1) / settings.members)
            axes.plot(place, expected, color=palette.INK.light, lw=1, ls=(0, (2, 2)), label="expected of sampling")
            drawing.time_ticks(axes, results.times, "step")
        drawing.logarithmic(drawn[0], "y", fine=True)
    return drawn.figure


def _between(results: Results, folder: RunFolder) -> Figure:
    place, names = drawing.places(results.times[1:]), list(results.between)
    sizes = [1 if name == "none" else SOLIDS[name]().order for name in names]
    root = lambda squares: bootstrap(squares, np.sqrt)
    with drawing.panels(
        folder,
        "random-rotations",
        titles=("By training step", "After the last step, by group"),
        ylabel="relative violation, random rotations",
        size=(8.6, 3.8),
        sharey=True,
        caption=(
            "Left: root mean square of μ(Rx) − Rμ(x) over random rotations and the test pairs, relative "
            "to μ, of infinitely wide ensembles, with 95 % intervals over pairs. Right: the same after "
            "the last step against the size of the group (black), the bound on it (dotted), and the "
            "relative error of the prediction itself (dashed)."
        ),
        alt="Violation under random rotations",
    ) as drawn:
        left, right = drawn
        for name in names:
            values = [root(row) for row in results.between[name][1:]]
            drawing.estimates(left, place, values, _COLOURS[name].light, label=TITLES[name])
        drawing.estimates(right, sizes, [root(results.between[n][-1]) for n in names], palette.INK.light)
        bounds = [np.sqrt((results.bound[n][-1] ** 2).mean()) for n in names[1:]]
        error = [results.truth_error[n][-1] for n in names]
        dashed: dict[str, Any] = {"color": palette.VERMILLION.light, "lw": 1, "ms": 4, "marker": "s", "ls": "--"}
        dotted: dict[str, Any] = {"color": palette.INK.light, "lw": 1, "ls": (0, (2, 2))}
        right.plot(sizes, error, **dashed)
        right.plot(sizes[1:], bounds, **dotted)
        solid: dict[str, Any] = {"color": palette.INK.light, "marker": "o", "ms": 4}
        for look, label in (
            (solid, "violation, right"),
            (dashed, "error against a × b"),
            (dotted, "bound κ (C(x) + |μ(x)|)"),
        ):
            left.plot([], [], label=label, **look)
        drawing.logarithmic(left, "y", fine=True)
        drawing.logarithmic(right, "x", sizes)
        drawing.time_ticks(left, results.times[1:], "step")
        right.set_xlabel("elements of the group")
        drawn.legend(columns=4)
    return drawn.figure
