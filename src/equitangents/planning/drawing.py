"""The violation against the number of members: median, the band up to the wanted quantile, target and answer."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogLocator

from equitangents.errors import InvalidArgumentError
from equitangents.files import whole_file
from equitangents.planning.violations import MEASURES
from equitangents.report.figures import canvas, inline_svg, label_line, plain_log
from equitangents.report.palette import BLUE, INK, MUTED, VERMILLION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from equitangents.planning.plan import Plan


def svg(plan: Plan) -> str:
    """The drawing, ready to be put inside a page."""
    with canvas(7.2, 3.4) as figure:
        draw(figure, plan)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return inline_svg(stream.getvalue(), prefix="plan")


def write(plan: Plan, path: Path) -> Path:
    """The drawing as a file, on a white ground."""
    if path.suffix not in (".svg", ".png"):
        raise InvalidArgumentError(f"path is {str(path)!r}; expected a name that ends in .svg or .png")
    with whole_file(path) as partial, canvas(7.2, 3.4) as figure:
        draw(figure, plan)
        metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(partial, format=path.suffix[1:], dpi=144, facecolor="#ffffff", metadata=metadata)
    return path


def draw(figure: Figure, plan: Plan) -> None:
    """Draw the plan's curve on an empty figure."""
    axes = figure.add_subplot()
    points = [p for p in plan.curve if np.isfinite(p.upper) and p.upper > 0]
    sizes = [p.members for p in points]
    lower, median, upper = ([max(getattr(p, name), 1e-12) for p in points] for name in ("lower", "median", "upper"))
    axes.fill_between(sizes, lower, upper, color=BLUE.light, alpha=0.15, linewidth=0)
    axes.plot(sizes, upper, color=BLUE.light)
    axes.plot(sizes, median, color=BLUE.light, linestyle="--", linewidth=1.2)
    axes.axhline(plan.target, color=VERMILLION.light, linewidth=1.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if plan.limit > 1e-9:
        axes.axhline(plan.limit, color=MUTED.light, linewidth=1.0, linestyle=":")
    if points:
        floor = min([plan.target, *(m for m in median if m > 1e-9)])
        axes.set_ylim(floor / 3, max([plan.target, *upper]) * 2)
        axes.set_xlim(sizes[0], max(sizes[-1], 2))
        label_line(axes, sizes[-1], upper[-1], f"{plan.confidence:.0%} of ensembles below", BLUE.light)
        label_line(axes, sizes[-1], plan.target, "target", VERMILLION.light)
    if plan.members is not None:
        axes.axvline(plan.members, color=INK.light, linewidth=1.0, linestyle=":")
        axes.annotate(
            f"{plan.members:,} members",
            (plan.members, axes.get_ylim()[0]),
            textcoords="offset points",
            xytext=(4, 4),
            color=INK.light,
        )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    plain_log(axes)
    axes.set_xlabel("members")
    axes.set_ylabel(MEASURES[plan.measure].title)
