"""Drawing with one style, and saving as SVG and PNG so that the same numbers give the same bytes."""

from __future__ import annotations

import base64
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.image import imsave
from matplotlib.ticker import FuncFormatter

from equitangents.report.numbers import superscript
from equitangents.report.palette import BLUE, COLOURS, FRAME, GREEN, GRID, INK, MUTED, ORANGE, PURPLE, SKY, VERMILLION

_STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": 9.0,
    "axes.labelcolor": MUTED.light,
    "axes.edgecolor": FRAME.light,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlecolor": INK.light,
    "axes.facecolor": "none",
    "axes.prop_cycle": cycler(color=[c.light for c in (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)]),
    "grid.color": GRID.light,
    "grid.linewidth": 0.8,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.8,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "lines.markersize": 4.5,
    "patch.linewidth": 0.0,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "equitangents",
    "text.color": INK.light,
    "xtick.color": FRAME.light,
    "ytick.color": FRAME.light,
    "xtick.labelcolor": MUTED.light,
    "ytick.labelcolor": MUTED.light,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
}
_WHITE = "#ffffff"


@contextlib.contextmanager
def canvas(width: float = 8.6, height: float = 3.0) -> Iterator[Canvas]:
    """An empty matplotlib figure of `width` × `height` inches in the house style; no window, no global state left."""
    with mpl.rc_context(_STYLE):
        yield Canvas(figsize=(width, height))


def save(figure: Canvas, folder: Path, name: str) -> str:
    """Write `<name>.svg` and `<name>.png` (144 dpi, white ground) into `folder`; return SVG to put inside a page.

    Call it inside `canvas()`, since matplotlib lays a figure out when it is saved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    svg = _svg(figure)
    (folder / f"{name}.svg").write_text(_on_white(svg), encoding="utf-8")
    figure.savefig(folder / f"{name}.png", dpi=144, facecolor=_WHITE, metadata={"Software": None})
    return inline_svg(svg, prefix=name)


def inline_figure(figure: Canvas, name: str) -> str:
    """SVG to put inside a page, where no file is wanted; inside `canvas()`, as `save`."""
    return inline_svg(_svg(figure), prefix=name)


def inline_svg(svg: str, prefix: str) -> str:
    """SVG for an HTML page: no prologue, ids made unique by `prefix`, colours as CSS variables, the page's fonts."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", svg)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'<svg\b([^>]*?)\swidth="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg\b([^>]*?)\sheight="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r"font-family:[^;\"]*;?", "", svg)
    svg = re.sub(r"(font:[^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1var(--sans)", svg)
    for colour in COLOURS:
        svg = re.sub(re.escape(colour.light), f"var(--{colour.name})", svg, flags=re.I)
    return "\n".join(line for line in svg.splitlines() if line.strip())


def png(image: Float[np.ndarray, "rows columns channels"], low: float, high: float) -> str:
    """An image with 1 or 3 channels as a PNG in base64; `low` is black and `high` is white."""
    unit = np.clip((image - low) / ((high - low) or 1.0), 0, 1)
    stream = io.BytesIO()
    imsave(stream, np.round(255 * np.broadcast_to(unit, (*unit.shape[:2], 3))).astype(np.uint8), format="png")
    return base64.b64encode(stream.getvalue()).decode("ascii")


def plain_log(axes: Axes, which: str = "both") -> None:
    """Logarithmic ticks as plain text: 0.01, 1, 1,000, and 10⁻⁶ beyond."""
    formatter = FuncFormatter(lambda value, _: log_label(value))
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if which in (name, "both"):
            axis.set_major_formatter(formatter)
            axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def log_label(value: float) -> str:
    """A tick label for a logarithmic axis."""
    if value <= 0:
        return ""
    if 1e-3 <= value < 1e5:
        return f"{value:,.10g}"
    exponent = f"{value:.0e}".split("e")
    return ("" if exponent[0] == "1" else f"{exponent[0]}·") + f"10{superscript(int(exponent[1]))}"


def _svg(figure: Canvas) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return stream.getvalue()


def _on_white(svg: str) -> str:
    """A drawing on a white ground, for a file shown on its own."""
    match = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>', svg)
    if match is None:
        return svg
    ground = f'<rect width="{match[1]}" height="{match[2]}" fill="{_WHITE}"/>'
    return svg[: match.end()] + ground + svg[match.end() :]
