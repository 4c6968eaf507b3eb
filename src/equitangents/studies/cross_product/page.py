"""How the cross-product study is shown: violations over time, members against their mean, random rotations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Section, Verdict, figures
from equitangents.report.palette import BLUE, GREEN, INK, MEMBER, MUTED, ORANGE, VERMILLION
from equitangents.statistics import bootstrap
from equitangents.studies.cross_product.study import SETS, TITLES, Results, Settings, covariance_share, mean_share
from equitangents.studies.framework import drawing
from equitangents.studies.framework.compatibility import Presentation, say
from equitangents.studies.framework.folder import Columns, RunFolder
from equitangents.studies.framework.tables import columns

_COLOURS = {"none": MUTED, "T": ORANGE, "O": GREEN, "I": BLUE}
_PAIRS = {"training": "Training pairs", "test": "Test pairs", "far": "Far pairs"}


def present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables = {
        "closed_form": closed_form_table(results),
        "members": members_table(settings, results),
        "shares": shares_table(settings, results),
    }
    sections = [
        Section(
            "Members and their mean",
            [
                f"Networks learn the cross product of two vectors from {settings.train_pairs} pairs, each shown in all "
                "orientations of a regular solid with the label turned alike. What is shown is how much the prediction "
                "changes when the input is turned and the output turned back. Far pairs are "
                f"{settings.stretch:g} times as long as any that was seen; nothing about them was in the data.",
                "Dividing the change of one member by √M gives what sampling leaves of it in a mean of M members if "
                "the expectation is equivariant, and no more than that is left.",
            ],
            [_members(settings, results, folder)],
        ),
        Section(
            "Rotations that the group lacks",
            [
                "In closed form nothing is left of the violation under the group’s own rotations. Under random "
                "rotations something is, the less the more rotations the group has."
            ],
            [_between(settings, results, folder)],
        ),
    ]
    facts = {
        "Groups": ", ".join(TITLES[name] for name in settings.groups),
        "Members": f"{settings.members} MLPs, {settings.hidden_layers} hidden layers of {settings.width}, ReLU",
        "Training": "full-batch gradient descent",
        "Seed": str(settings.seed),
    }
    return Presentation(_summary(verdicts), tables, sections, facts)


def _summary(verdicts: Sequence[Verdict]) -> str:
    first = say(
        verdicts[0],
        holds="Infinitely wide ensembles turn their predictions along with the inputs, to rounding",
        fails="Infinitely wide ensembles are not equivariant",
        undecided="Infinitely wide ensembles could not be judged",
    )
    second = say(
        verdicts[3],
        holds="so does the mean of finite ensembles, up to its sampling error",
        fails="the mean of finite ensembles is not equivariant",
        undecided="these ensembles are too small to tell whether their mean is equivariant",
    )
    third = say(
        verdicts[4],
        holds="and their covariance is equivariant too.",
        fails="and their covariance is not equivariant.",
        undecided="and their covariance is not known well enough.",
    )
    return f"{first}; {second}, {third}"


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


def members_table(settings: Settings, results: Results) -> Columns:
    """Relative violation of every member and of their mean, by group, set and step."""
    rows: list[tuple[object, ...]] = []
    for name in settings.trained_groups:
        for key in SETS:
            for i, t in enumerate(map(int, results.times)):
                single, mean = violations(results, name, key, i)
                rows += [(TITLES[name], key, t, f"member {m}", v) for m, v in enumerate(single)]
                rows.append((TITLES[name], key, t, "mean", mean))
    return columns(("group", "inputs", "step", "model", "relative_violation"), rows)


def shares_table(settings: Settings, results: Results) -> Columns:
    """What of the violation of mean and covariance infinitely many members would leave."""
    rows = []
    for name in settings.trained_groups:
        for key in SETS:
            for i, t in enumerate(map(int, results.times)):
                for what, number in (("mean", mean_share), ("covariance", covariance_share)):
                    e = number(results, name, key, i)
                    rows.append((TITLES[name], key, t, what, e.value, e.low, e.high))
    return columns(("group", "inputs", "step", "of", "share", "low", "high"), rows)


def violations(results: Results, name: str, key: str, time: int) -> tuple[np.ndarray, float]:
    """Root mean square violation of every member and of their mean, relative to the members' outputs."""
    y = results.outputs[name][key][time].astype(np.float64)
    size = np.sqrt((y**2).sum(axis=-1).mean())
    off = lambda z: np.sqrt(((z[..., 1:, :, :] - z[..., :1, :, :]) ** 2).sum(axis=-1).mean(axis=(-1, -2))) / size
    return off(y), float(off(y.mean(axis=0)))


def _members(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    name = settings.trained_groups[-1]
    place = drawing.places(results.times)
    with figures.canvas(8.6, 3.3) as canvas:
        for axes, key in zip(canvas.subplots(1, len(SETS), sharey=True), SETS, strict=True):
            both = [violations(results, name, key, i) for i in range(len(results.times))]
            single, mean = np.array([s for s, _ in both]), np.array([m for _, m in both])
            axes.plot(place, single[:, :25], color=MEMBER.light, lw=0.5, alpha=0.6)
            axes.plot(place, mean, "o-", color=BLUE.light, label=f"mean of {settings.members}")
            expected = np.sqrt((single**2).mean(axis=1) / settings.members)
            axes.plot(place, expected, color=INK.light, lw=1, ls=(0, (2, 2)), label="expected of sampling")
            axes.plot([], [], color=MEMBER.light, lw=0.8, label="members")
            axes.set_title(_PAIRS[key])
            drawing.time_ticks(axes, results.times, "step")
        drawing.logarithmic(canvas.axes[0], "y", fine=True)
        canvas.axes[0].set_ylabel("relative violation")
        canvas.axes[-1].legend(loc="center right")
        svg = figures.save(canvas, folder.figures, "members-and-mean")
    caption = (
        f"Root mean square change of ρ(g)⁻¹f(gx) over the {TITLES[name]} group, relative to the members’ outputs: "
        f"25 of {settings.members} members (grey), their mean (blue), and the mean square of the members divided by "
        "their number (dotted)."
    )
    return Figure("members-and-mean", caption, svg, alt="Violation of equivariance over training")


def _between(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    place = drawing.places(results.times[1:])
    with figures.canvas(8.6, 3.2) as canvas:
        left, right = canvas.subplots(1, 2, sharey=True)
        for name, squares in results.between.items():
            values = [bootstrap(row, lambda m: np.sqrt(m)) for row in squares[1:]]
            drawing.estimates(left, place, values, _COLOURS[name].light, label=TITLES[name])
        orders = {"none": 1, "T": 12, "O": 24, "I": 60}
        names = list(results.between)
        values = [bootstrap(results.between[name][-1], lambda m: np.sqrt(m)) for name in names]
        drawing.estimates(right, [orders[n] for n in names], values, INK.light)
        error = [results.truth_error[n][-1] for n in names]
        look = {"color": VERMILLION.light, "lw": 1, "ms": 4, "label": "error against a × b"}
        right.plot([orders[n] for n in names], error, "s--", **look)
        own = [n for n in names if n != "none"]
        bounds = [np.sqrt((results.bound[n][-1] ** 2).mean()) for n in own]
        right.plot(
            [orders[n] for n in own], bounds, color=INK.light, lw=1, ls=(0, (2, 2)), label="bound κ (C(x) + |μ(x)|)"
        )
        drawing.logarithmic(left, "y", fine=True)
        drawing.logarithmic(right, "x", [orders[n] for n in names])
        drawing.time_ticks(left, results.times[1:], "step")
        right.set_xlabel("elements of the group")
        left.set_ylabel("relative violation, random rotations")
        left.legend(loc=(0.04, 0.12), ncols=2)
        right.legend(loc="best")
        svg = figures.save(canvas, folder.figures, "random-rotations")
    caption = (
        f"Left: root mean square of μ(Rx) − Rμ(x) over {settings.rotations} random rotations and the test pairs, "
        "relative to μ, of infinitely wide ensembles, with 95 % intervals over pairs. Right: the same after the last "
        "step against the size of the group, the bound on it (dotted), and the relative error of the prediction itself."
    )
    return Figure("random-rotations", caption, svg, alt="Violation under random rotations")
