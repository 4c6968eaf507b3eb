"""How the toy study is shown: members and their mean at fixed times, and the change under rotation in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from equitangents.report import Figure, figures, format_number, palette
from equitangents.statistics import Estimate, bootstrap, surviving_share
from equitangents_studies.framework.claims import after
from equitangents_studies.framework.page import Columns, Presentation, Records, RunFolder, columns, drawing, section
from equitangents_studies.toy.study import (
    REGIONS,
    Results,
    Settings,
    Trained,
    largest_change,
    mean_size,
    member_sizes,
    plane_rotations,
    violations,
)

_COLOURS = LinearSegmentedColormap.from_list("two-sided", ["#004478", "#56a0d0", "#f7f7f7", "#f09646", "#aa3c00"])
_TITLES = ("On the training disc", "Beyond the training disc")


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    sizes = ensemble_sizes(settings, results)
    tables = {"violation": violation_table(results), "ensemble_size": sizes.table("relative_change")}
    turn = f"{360 / settings.rotations:.4g}°"
    sections = [
        section(
            "Members and their mean",
            f"An ensemble of {settings.members} networks learns a function that does not change under turns by "
            f"{turn}, from {settings.train_points} points on the disc of radius 1, each shown to the networks in "
            f"all {settings.rotations} orientations. The networks are shown on the whole square, most of which no "
            "training point reaches.",
            _snapshots(settings, results, folder),
        ),
        section(
            "How much a turn changes the prediction",
            "The change is the root mean square of f(gx) − f(x) over inputs x and turns g, divided by the standard "
            "deviation of the true function. Theory gives that of a single infinitely wide network from the "
            "covariance of the ensemble. Averaging M independent networks divides it by √M if their expectation is "
            "invariant, and by less if it is not: the table of claims says which of the two was found.",
            _over_time(settings, results, folder),
            _over_members(settings, results, sizes, folder),
        ),
    ]
    facts = {
        "Group": f"C{settings.rotations} acting on the plane",
        "Members": f"{settings.members:,}",
        "Network": f"{settings.hidden_layers} hidden layers of {settings.width}, ReLU",
        "Training": f"full-batch gradient descent, step {results.learning_rate:.3g}",
    }
    return Presentation(tables, sections, facts, *headline(settings, results))


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and one sentence with the source's claim beside it."""
    first, last = min(settings.steps), max(settings.steps)
    cells = [(region, step) for region in range(len(REGIONS)) for step in settings.steps]
    exact = max(largest_change(results, results.augmented.infinite_orbits, *cell).value for cell in cells)
    turn, many = f"{360 / settings.rotations:.4g}°", f"the mean of {settings.members:,}"
    percent = lambda x: f"{100 * x:.0f} %" if x >= 0.1 else f"{100 * x:.2g} %"
    one = lambda *at: percent(member_sizes(results, *at).mean())
    mean = lambda *at: percent(mean_size(results, *at))
    return (
        f"{after(last).capitalize()} a turn changes one augmented network by {one(0, last)} of the function’s spread, "
        f"{many} by {mean(0, last)}",
        f"{after(last).capitalize()} a turn by {turn} changes one network by {one(0, last)} of the true function’s "
        f"standard deviation and {many} by {mean(0, last)}, beyond the data by {one(1, last)} and {mean(1, last)}; "
        f"{after(first)} by {one(0, first)} and {mean(0, first)}; the infinitely wide ensemble changes by at most "
        f"{format_number(exact)} of it at any step. The source’s slides show members that change and a mean that does "
        "not, without numbers.",
    )


def _mean_squares(trained: Trained, region: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean square change under a turn at every time: of each member, of their mean, of infinite width."""
    d, exact = violations(trained, region), trained.infinite_orbits[region]
    of_infinite = ((exact[:, 1:] - exact[:, :1]) ** 2).mean(axis=(1, 2))
    return (d**2).mean(axis=(2, 3)), (d.mean(axis=1) ** 2).mean(axis=(1, 2)), of_infinite


def violation_table(results: Results) -> Columns:
    """One row per region, time and model: the relative change under a turn."""
    rows: list[tuple[str, int, str, float]] = []
    for region, name in enumerate(REGIONS):
        single, mean, infinite = (np.sqrt(v) / results.scale for v in _mean_squares(results.augmented, region))
        expected = results.expected_violation[region] / results.scale
        for i, time in enumerate(map(int, results.times)):
            rows += [(name, time, f"member {m}", v) for m, v in enumerate(single[i])]
            rows += [(name, time, "ensemble mean", mean[i]), (name, time, "infinite width", infinite[i])]
            rows.append((name, time, "expected of one infinitely wide network", expected[i]))
    return columns(("inputs", "step", "model", "relative_change"), rows)


def ensemble_sizes(settings: Settings, results: Results) -> Records:
    """Root mean square change of the mean of M members, over all disjoint groups of M, at the claims' steps."""
    sizes = [2**k for k in range(int(np.log2(settings.members)) + 1)]
    changes = {name: violations(results.augmented, region) for region, name in enumerate(REGIONS)}

    def change(inputs: str, step: int, members: int) -> Estimate:
        now = changes[inputs][results.at(step)]
        groups = now[: len(now) // members * members].reshape(-1, members, *now.shape[1:]).mean(axis=1)
        squares = (groups**2).mean(axis=(1, 2))
        low, high = bootstrap(squares, bounds=(0.0, np.inf)).interval if len(squares) >= 10 else (np.nan, np.nan)
        return Estimate(*(float(np.sqrt(v) / results.scale) for v in (squares.mean(), low, high)))

    return Records.over(change, inputs=REGIONS, step=settings.steps, members=sizes)


def _snapshots(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    maps, p = results.augmented.maps, settings.plane
    rows = {f"Member {m + 1}": maps["members"][:, m] for m in range(min(2, maps["members"].shape[1]))}
    rows |= {f"Mean of {settings.members}": maps["mean"], "Infinite width": maps["infinite"]}
    titles = ["initialisation" if step == 0 else f"step {step:,}" for step in settings.steps] + ["true function"]
    limit, across = 1.2 * float(np.abs(results.truth).max()), len(titles)
    look: dict[str, Any] = {
        "cmap": _COLOURS,
        "vmin": -limit,
        "vmax": limit,
        "extent": (-p, p, -p, p),
        "interpolation": "bilinear",
    }
    with drawing.panels(
        folder,
        "snapshots",
        titles=titles + [""] * across * (len(rows) - 1),
        rows=len(rows),
        size=(8.2, 8.2 / across * len(rows) * 1.04),
        caption="Two members, the mean of all members and the infinitely wide ensemble at the steps of the claims. The "
        "true function carries the augmented training points (dots) on their disc (dashed). Nothing is averaged over "
        "turns.",
        alt="Maps of members, mean and infinite width at five times",
    ) as drawn:
        for axes in drawn:
            axes.title.set_fontweight("normal")
            _bare(axes)
        for i, (name, values) in enumerate(rows.items()):
            drawn[i * across].set_ylabel(name, color=palette.INK.light, fontweight="bold")
            drawn[(i + 1) * across - 1].axis("off")
            for j, step in enumerate(settings.steps):
                drawn[i * across + j].imshow(values[results.at(step)], **look)
        truth, angles = drawn[across - 1], np.linspace(0, 2 * np.pi, 200)
        truth.imshow(results.truth, **look)
        truth.plot(np.cos(angles), np.sin(angles), color=palette.INK.light, lw=0.8, ls=(0, (4, 3)))
        orbit = np.asarray(plane_rotations(settings.rotations).orbit(results.train_x)).reshape(-1, 2)
        truth.plot(*orbit.T, ".", ms=2.2, color=palette.INK.light)
        truth.set_xlim(-p, p)
        truth.set_ylim(-p, p)
    return drawn.figure


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _over_time(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "violation-over-time",
        titles=_TITLES,
        ylabel="relative change under a turn",
        sharey=True,
        caption=f"Change under a turn of {min(40, settings.members)} of the {settings.members} members, of the mean of "
        "all of them, and what theory expects of one infinitely wide network and of the mean of "
        f"{settings.members}.",
        alt="Change under a turn against training steps",
    ) as drawn:
        for region, axes in enumerate(drawn):
            single, mean, _ = (np.sqrt(v) / results.scale for v in _mean_squares(results.augmented, region))
            expected = results.expected_violation[region] / results.scale
            axes.plot(results.times, single[:, :40], color=palette.MEMBER.light, lw=0.6, alpha=0.55)
            axes.plot([], [], color=palette.MEMBER.light, label="members")
            axes.plot(results.times, mean, color=palette.BLUE.light, label="their mean")
            dashed, dotted = (0, (5, 3)), (0, (1.5, 2))
            look: dict[str, Any] = {"color": palette.VERMILLION.light, "lw": 1.5}
            axes.plot(results.times, expected, ls=dashed, label="expected of one", **look)
            many = f"expected of the mean of {settings.members}"
            axes.plot(results.times, expected / np.sqrt(settings.members), ls=dotted, label=many, **look)
            axes.set_yscale("log")
            drawing.steps(axes, int(results.times[-1]))
            figures.plain_log(axes, "y")
    return drawn.figure


def _over_members(settings: Settings, results: Results, sizes: Records, folder: RunFolder) -> Figure:
    surviving = surviving_share(violations(results.augmented, 0)[-1].reshape(settings.members, -1)).times(100)
    share, low, high = (format_number(v, surviving.interval) for v in (surviving.value, *surviving.interval))
    known = f"95 % interval over members {low} to {high} %" if surviving.has_interval else "no interval: few members"
    with drawing.panels(
        folder,
        "violation-over-members",
        titles=_TITLES,
        xlabel="members averaged, M",
        ylabel="relative change under a turn",
        sharey=True,
        caption="Change under a turn of the mean of M members, root mean square over all disjoint groups of M members "
        "(band: 95 % interval over groups, where there are at least 10). Dotted: 1/√M, the law of an exactly invariant "
        f"limit. At the last step, on the disc, {share} % of the mean square change would survive ever more members "
        f"({known}).",
        alt="Change under a turn against ensemble size",
    ) as drawn:
        for region, axes in enumerate(drawn):
            for step, colour in drawing.shades_of(settings.steps):
                at = sizes.where(inputs=REGIONS[region], step=step)
                label = "initialisation" if step == 0 else f"step {step:,}"
                axes.plot(at.column("members"), at.values, "o-", color=colour, ms=3.5, label=label)
                axes.fill_between(at.column("members"), *at.interval, color=colour, alpha=0.25)
                drawing.power(axes, at.column("members"), at.values[0], -0.5)
            drawing.logarithmic(axes, base=2)
    return drawn.figure
