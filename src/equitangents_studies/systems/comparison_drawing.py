"""Learning curves of architectures, drawn for a page: on data as they are, and moved."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from equitangents.report import figures, palette
from equitangents_studies.systems.curves import ErrorName, LearningCurve
from equitangents_studies.systems.factors import AS_THEY_ARE, Key

_COLOURS = (palette.INK, palette.VERMILLION, palette.BLUE, palette.GREEN, palette.PURPLE, palette.ORANGE)
_ACROSS = 2  # panels


def drawing(curves: Mapping[Key, LearningCurve], error: ErrorName) -> str:
    """One panel of all architectures on the data as they are, and one for each that notices a group."""
    names = list(dict.fromkeys(name for name, _ in curves))
    plain = [(name, AS_THEY_ARE) for name in names]
    panels: list[tuple[str, list[Key], list[str]]] = [("Data as they are", plain, names)]
    for name in names:
        keys = [key for key in curves if key[0] == name]
        if len(keys) > 1:
            labels = ["as they are" if group == AS_THEY_ARE else f"moved by {group}" for _, group in keys]
            panels.append((f"{name}, data moved", keys, labels))
    down = -(-len(panels) // _ACROSS)
    with figures.canvas(8.6, 3.0 * down) as figure:
        first: Axes | None = None
        for place, (title, keys, labels) in enumerate(panels, 1):
            axes = figure.add_subplot(down, _ACROSS, place, sharey=first)
            first = first or axes
            _panel(axes, curves, error, keys, labels)
            axes.set_title(title)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return figures.inline_svg(stream.getvalue(), prefix="systems")


def _panel(
    axes: Axes,
    curves: Mapping[Key, LearningCurve],
    error: ErrorName,
    keys: Sequence[Key],
    labels: Sequence[str],
) -> None:
    sizes = curves[keys[0]].sizes
    for i, (key, label) in enumerate(zip(keys, labels, strict=True)):
        values = curves[key].estimates(error)
        centre = np.array([e.value for e in values])
        bars = np.nan_to_num([[e.value - e.low for e in values], [e.high - e.value for e in values]])
        colour = _COLOURS[i % len(_COLOURS)].light
        place = sizes * 1.02 ** (i - (len(keys) - 1) / 2)
        axes.errorbar(
            place, centre, np.maximum(bars, 0), color=colour, fmt="o-", lw=1.2, ms=3.5, elinewidth=1.0, label=label
        )
    axes.set_xscale("log")
    if all((curves[key].of(error).mean(axis=1) > 0).all() for key in curves):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        figures.plain_log(axes, "y")
    ticks = sizes[:: max(1, -(-len(sizes) // 6))]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([float(n) for n in ticks], [figures.log_label(float(n)) for n in ticks])
    axes.set_xlabel("training inputs")
    axes.set_ylabel(f"{error} error")
    axes.legend()
