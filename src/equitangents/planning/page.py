"""A plan as a drawing, and as one HTML file that loads nothing.

Drawn is the violation against the number of members: median, the band up to the wanted quantile, target and answer.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogLocator

from equitangents._version import __version__
from equitangents.errors import InvalidArgumentError
from equitangents.files import whole_file
from equitangents.planning.violations import Curve
from equitangents.report.figures import canvas, inline_svg, label_line, plain_log
from equitangents.report.palette import BLUE, COLOURS, INK, MUTED, VERMILLION
from equitangents.report.render import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def svg(curve: Curve) -> str:
    """The drawing, ready to be put inside a page."""
    with canvas(7.2, 3.4) as figure:
        draw(figure, curve)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return inline_svg(stream.getvalue(), prefix="plan")


def write_drawing(curve: Curve, path: Path) -> Path:
    """The drawing as a file, on a white ground."""
    if path.suffix not in (".svg", ".png"):
        raise InvalidArgumentError(f"path is {str(path)!r}; expected a name that ends in .svg or .png")
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, canvas(7.2, 3.4) as figure:
        draw(figure, curve)
        metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(partial, format=path.suffix[1:], dpi=144, facecolor="#ffffff", metadata=metadata)
    return path


def draw(figure: Figure, curve: Curve) -> None:
    """Draw the curve on an empty figure."""
    axes = figure.add_subplot()
    points = [p for p in curve.points if np.isfinite(p.upper) and p.upper > 0]
    sizes = [p.members for p in points]
    lower, median, upper = ([max(getattr(p, name), 1e-12) for p in points] for name in ("lower", "median", "upper"))
    axes.fill_between(sizes, lower, upper, color=BLUE.light, alpha=0.15, linewidth=0)
    axes.plot(sizes, upper, color=BLUE.light)
    axes.plot(sizes, median, color=BLUE.light, linestyle="--", linewidth=1.2)
    axes.axhline(curve.target, color=VERMILLION.light, linewidth=1.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if curve.limit > 1e-9:
        axes.axhline(curve.limit, color=MUTED.light, linewidth=1.0, linestyle=":")
    if points:
        floor = min([curve.target, *(m for m in median if m > 1e-9)])
        axes.set_ylim(floor / 3, max([curve.target, *upper]) * 2)
        axes.set_xlim(sizes[0], max(sizes[-1], 2))
        label_line(axes, sizes[-1], upper[-1], curve.upper, BLUE.light)
        label_line(axes, sizes[-1], curve.target, "target", VERMILLION.light)
    if curve.members is not None:
        axes.axvline(curve.members, color=INK.light, linewidth=1.0, linestyle=":")
        axes.annotate(
            f"{curve.members:,} {curve.noun}",
            (curve.members, axes.get_ylim()[0]),
            textcoords="offset points",
            xytext=(4, 4),
            color=INK.light,
        )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    plain_log(axes)
    axes.set_xlabel("members")
    axes.set_ylabel(curve.title)


def write_page(path: Path, **shown: object) -> Path:
    """What is `shown` as one HTML page, which appears at `path` only when it is complete.

    The answer, facts by name, the drawing, and rows of cells under the columns' names: `plan.html.jinja` says which.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    template = environment().get_template("plan.html.jinja")
    with whole_file(path) as partial:
        partial.write_text(template.render(plan=shown, version=__version__, colours=COLOURS), encoding="utf-8")
    return path
