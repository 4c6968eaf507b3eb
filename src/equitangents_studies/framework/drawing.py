"""Figures: panels with their files and caption, estimates with bars, axes of times that begin at 0 or end at ∞."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib import font_manager, rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogLocator

from equitangents.report import Figure, figures, palette
from equitangents.statistics import Estimate
from equitangents_studies.framework.folder import Columns, RunFolder

_CHARACTER = 0.6  # width of a figure over the size of its type


@dataclass(eq=False)
class Panels:
    """Axes to draw on, left to right and top to bottom; `figure` exists once the drawing is complete."""

    canvas: Canvas
    axes: list[Axes]
    caption: str
    figure: Figure = field(init=False)

    def __iter__(self) -> Iterator[Axes]:
        return iter(self.axes)

    def __getitem__(self, index: int) -> Axes:
        return self.axes[index]

    def legend(self, *sources: Axes, columns: int = 6, **look: Any) -> None:
        """Draw one legend below all panels, with each entry of `sources` once, in as many columns as fit.

        `sources` defaults to the first panel. Without a call in the block the first panel's labels get a legend.
        """
        entries: dict[str, Any] = {}
        for axes in sources or self.axes[:1]:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        renderer = FigureCanvasAgg(self.canvas).get_renderer()
        for across in range(min(columns, max(len(entries), 1)), 0, -1):
            legend = self.canvas.legend(entries.values(), entries, loc="outside lower center", ncols=across, **look)
            if across == 1 or legend.get_window_extent(renderer).width <= self.canvas.bbox.width:
                return
            legend.remove()


@contextlib.contextmanager
def panels(
    folder: RunFolder,
    name: str,
    *,
    caption: str,
    alt: str,
    titles: Sequence[str] = ("",),
    rows: int = 1,
    size: tuple[float, float] = (8.6, 3.3),
    xlabel: str = "",
    ylabel: str = "",
    **layout: Any,
) -> Iterator[Panels]:
    """Draw in the block; afterwards `figures/<name>.svg` and `.png` exist, `results/<name>.csv` has the points of
    series with a label or bars, and `.figure` is for the page.

    One panel for every one of `titles`, in `rows` rows; `xlabel` stands below the last row, `ylabel` left of the first
    column; `layout` goes to `matplotlib.figure.Figure.subplots` (`sharey=True`, `width_ratios=...`).
    """
    with figures.canvas(*size) as canvas:
        across = len(titles) // rows
        grid = canvas.subplots(rows, across, squeeze=False, **layout)
        drawn = Panels(canvas, [*grid.flat], caption)
        for axes, title in zip(drawn.axes, titles, strict=True):
            axes.set_title(title)
        for axes in grid[-1]:
            axes.set_xlabel(xlabel)
        for axes in grid[:, 0]:
            axes.set_ylabel(ylabel)
        yield drawn
        none = not canvas.legends and all(axes.get_legend() is None for axes in drawn.axes)
        if none and drawn.axes[0].get_legend_handles_labels()[1]:
            drawn.legend()
        svg = figures.save(canvas, folder.figures, name)
        if (points := drawn_points(drawn.axes))["x"]:
            folder.write_table(name, points)
    drawn.figure = Figure(name, drawn.caption, svg, alt=alt)


def drawn_points(panels: Sequence[Axes]) -> Columns:
    """Table of all drawn points with the ends of their bars, by panel (title or index) and series (label)."""
    names = ("panel", "series", "x", "y", "low", "high")
    rows: list[tuple[Any, ...]] = []
    for i, axes in enumerate(panels, 1):
        panel = axes.get_title() or i
        for held in axes.containers:
            if isinstance(held, ErrorbarContainer):
                line, _, (bars, *_) = held.lines
                label = str(held.get_label())
                label = "" if label.startswith("_") else label
                ends = [np.asarray(path.vertices)[:, 1] for path in bars.get_paths()]
                rows += [(panel, label, *xy, *end) for xy, end in zip(np.asarray(line.get_xydata()), ends, strict=True)]
        for line in axes.lines:
            label = str(line.get_label())
            if not label.startswith("_"):
                rows += [(panel, label, *xy, math.nan, math.nan) for xy in np.asarray(line.get_xydata())]
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def estimates(
    axes: Axes, x: Sequence[float] | np.ndarray, values: Sequence[Estimate], colour: str, **look: Any
) -> None:
    """Dots with interval bars, joined by a thin line."""
    centre = np.array([e.value for e in values])
    bars = np.array([[e.value - e.low for e in values], [e.high - e.value for e in values]])
    look = {"fmt": "o-", "lw": 1.2, "ms": 4, "elinewidth": 1.0, **look}
    axes.errorbar(np.asarray(x, dtype=float), centre, np.maximum(bars, 0), color=colour, **look)


def curves(
    axes: Axes,
    x: Sequence[float] | np.ndarray,
    values: Mapping[str, Sequence[Estimate]],
    colours: Iterable[palette.Colour],
    *,
    offset: float,
    **look: Any,
) -> None:
    """`estimates` over the same x by label; each series is shifted by the factor `offset`, so that no bar is hidden."""
    middle = (len(values) - 1) / 2
    for i, ((label, each), colour) in enumerate(zip(values.items(), colours, strict=False)):
        estimates(axes, np.asarray(x) * offset ** (i - middle), each, colour.light, **{"label": label, **look})


def drawable(e: Estimate) -> Estimate:
    """The estimate, without a bar if it has no interval."""
    return e if e.has_interval else Estimate(e.value, e.value, e.value, e.confidence)


def power(axes: Axes, x: Sequence[float] | np.ndarray, first: float, exponent: float, **look: Any) -> None:
    """A thin dotted power law for comparison: `first` · (x/x₀)^`exponent`, x₀ the first x."""
    x = np.asarray(x, dtype=float)
    axes.plot(x, first * (x / x[0]) ** exponent, **{"color": palette.MUTED.light, "lw": 0.9, "ls": (0, (2, 2)), **look})


def shades_of(values: Sequence[Any]) -> list[tuple[Any, str]]:
    """As many of the ordered `values` as there are distinguishable shades, the ends included."""
    count = min(len(values), len(palette.STEPS))
    chosen = [values[round(i * (len(values) - 1) / max(count - 1, 1))] for i in range(count)]
    return list(zip(chosen, palette.steps(count), strict=True))


def logarithmic(
    axes: Axes,
    which: str = "both",
    ticks: Sequence[float] | np.ndarray | None = None,
    *,
    base: int = 10,
    fine: bool = False,
) -> None:
    """Logarithmic scales with plain numbers; `ticks` are those of x; `fine` marks 1, 2 and 5 of every decade of y.

    If y spans less than a decade, which may contain no power of ten, all digits are marked.
    """
    if which in ("x", "both"):
        axes.set_xscale("log", base=base)
    if which in ("y", "both"):
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 10 * low:
            axes.yaxis.set_major_locator(LogLocator(subs=range(1, 10)))
        elif fine:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    if ticks is not None:
        axes.set_xticks([float(t) for t in ticks])
    figures.plain_log(axes, which)
    if ticks is not None and which in ("x", "both"):
        kept = _labels_that_fit(axes, sorted({float(t) for t in ticks}))
        axes.xaxis.set_major_formatter(lambda value, _: figures.log_label(value) if value in kept else "")


def _labels_that_fit(axes: Axes, ticks: Sequence[float]) -> set[float]:
    """Ticks of x whose labels do not overlap; larger ticks take precedence."""
    size = font_manager.FontProperties(size=rcParams["xtick.labelsize"]).get_size_in_points()
    width = axes.get_window_extent().width * 72 / axes.figure.dpi
    low, high = np.log(axes.get_xlim())
    kept: set[float] = set()
    free = np.inf
    for tick in reversed(ticks):
        place = width * (np.log(tick) - low) / (high - low)
        half = _CHARACTER * size * (len(figures.log_label(tick)) + 1) / 2
        if place + half <= free:
            kept.add(tick)
            free = place - half
    return kept


def places(times: Sequence[float] | np.ndarray) -> np.ndarray:
    """Positions of times on an axis that gives each time one place, since a logarithmic axis has none for 0 and ∞."""
    return np.arange(len(times), dtype=float)


def time_ticks(axes: Axes, times: Sequence[float] | np.ndarray, label: str = "training time") -> None:
    """Ticks for `places`."""
    axes.set_xticks(places(times), [figures.log_label(t) if 0 < t < np.inf else "0" if t == 0 else "∞" for t in times])
    axes.set_xlabel(label)


def heading(title: str) -> str:
    """A panel's title: capitalise the first letter only (MNIST stays MNIST)."""
    return title[:1].upper() + title[1:]


def name_of(time: float | np.ndarray) -> str:
    """Label of a training time."""
    return "at initialisation" if time == 0 else "at the end" if np.isinf(time) else f"at time {time:g}"
