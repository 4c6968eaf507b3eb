"""A figure of one or several panels: canvas, axes, titles, labels, legend beside the curves, files, caption."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from equitangents.report import Figure, figures
from equitangents_studies.framework.folder import RunFolder


class Panels:
    """Axes to draw on, left to right and top to bottom; `figure` is there when the drawing is done."""

    def __init__(self, canvas: Canvas, axes: Sequence[Axes], caption: str) -> None:
        self.canvas = canvas
        self.axes = list(axes)
        self.caption = caption
        self.figure: Figure

    def __iter__(self) -> Iterator[Axes]:
        return iter(self.axes)

    def __getitem__(self, index: int) -> Axes:
        return self.axes[index]

    def legend(self, *sources: Axes, columns: int = 6, **look: Any) -> None:
        """One legend for all panels, below them, where no curve can run across it: the entries of `sources`, each once.

        Without `sources` they are those of the first panel. It has as many columns as fit on the canvas.
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
    """Draw in the block; afterwards `figures/<name>.svg` and `.png` exist, and `.figure` goes into a section.

    One panel for every one of `titles`, in `rows` rows; `xlabel` stands below the last row, `ylabel` beside the first
    column; `layout` goes to `matplotlib.figure.Figure.subplots` (`sharey=True`, `width_ratios=...`).
    """
    with figures.canvas(*size) as canvas:
        across = len(titles) // rows
        grid = canvas.subplots(rows, across, squeeze=False, **layout)
        drawn = Panels(canvas, list(grid.flat), caption)
        for axes, title in zip(drawn.axes, titles, strict=True):
            axes.set_title(title)
        for axes in grid[-1]:
            axes.set_xlabel(xlabel)
        for axes in grid[:, 0]:
            axes.set_ylabel(ylabel)
        yield drawn
        svg = figures.save(canvas, folder.figures, name)
    drawn.figure = Figure(name, drawn.caption, svg, alt=alt)
