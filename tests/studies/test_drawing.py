"""What figures of studies share."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from equitangents.statistics import Estimate
from equitangents_studies.framework import drawing
from equitangents_studies.framework.folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run", {"study": "s", "settings": {}})


@pytest.mark.parametrize(("width", "numbered"), [(3.0, ["800", "3,200", "12,800"]), (9.0, None)])
def test_numbers_below_an_axis_stay_clear_of_one_another(width, numbered):
    ticks = [800, 1600, 3200, 6400, 12800]
    axes = Figure(figsize=(width, 2)).subplots()
    axes.plot([100, 12800], [1, 2])
    drawing.logarithmic(axes, "x", ticks, base=2)
    labels = [label for label in axes.xaxis.get_major_formatter().format_ticks(axes.get_xticks()) if label]
    assert labels == (numbered or [f"{t:,}" for t in ticks])


def test_a_logarithmic_axis_within_a_decade_has_numbers():
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([100, 1000], [0.3, 0.85])
    drawing.logarithmic(axes, "both", [100, 1000])
    figure.canvas.draw()
    assert [label.get_text() for label in axes.get_yticklabels() if label.get_text()]
    low, high = axes.get_ylim()
    shown = [t for t in axes.get_yticks() if low <= t <= high]
    assert len(shown) >= 4


def test_the_points_of_a_figure_are_kept_with_their_bars():
    nan = float("nan")
    axes = Figure().subplots()
    axes.set_title("left")
    values = [Estimate(3.0, 2.0, 5.0), Estimate(4.0, nan, nan), Estimate(nan, nan, nan)]
    drawing.estimates(axes, [1, 2, 3], values, "black", label="ours")
    axes.plot([1, 2], [7, 8], label="law")
    axes.axhline(0)
    points = drawing.drawn_points([axes])
    rows = list(zip(*points.values(), strict=True))
    assert rows[0] == ("left", "ours", 1.0, 3.0, 2.0, 5.0)
    assert [row[1:4] for row in rows[:2]] == [("ours", 1.0, 3.0), ("ours", 2.0, 4.0)]
    assert [row[1:4] for row in rows[-2:]] == [("law", 1.0, 7.0), ("law", 2.0, 8.0)]
    assert len(rows) == 5


def test_a_legend_of_several_panels_names_each_line_once(folder):
    with drawing.panels(folder, "two", titles=("a", "b"), caption="c", alt="a") as drawn:
        for axes, own in zip(drawn, "ab", strict=True):
            for label in ("both", own):
                axes.plot([0, 1], [0, 1], label=label)
        drawn.legend(*drawn)
        legend = drawn.canvas.legends[0]
        assert sorted(text.get_text() for text in legend.get_texts()) == ["a", "b", "both"]
    assert drawn.figure.name == "two"


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("lines", "columns", "across", "label"),
    [(6, None, None, "an ensemble of so many networks, number {}"), (5, 2, 2, "{}"), (2, 6, 2, "{}"), (1, 6, 1, "{}"),
     (4, 4, 4, "{}")],
)  # fmt: skip
def test_a_legend_fits_the_canvas_and_has_the_columns_asked_for_and_none_that_are_empty(
    folder, lines, columns, across, label
):
    with drawing.panels(folder, "legend", caption="c", alt="a") as drawn:
        for k in range(lines):
            drawn[0].plot([0, 1], [0, k], label=label.format(k))
        drawn.legend(**({} if columns is None else {"columns": columns}))
        drawn.canvas.draw_without_rendering()
        (legend,), renderer = drawn.canvas.legends, FigureCanvasAgg(drawn.canvas).get_renderer()
        assert legend.get_window_extent(renderer).width <= drawn.canvas.bbox.width
        places = [text.get_window_extent(renderer).x0 for text in legend.get_texts()]
        assert len(places) == lines
        assert across is None or len(set(np.round(places))) == across
