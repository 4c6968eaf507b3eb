"""What figures of studies share."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from equitangents.statistics import Estimate
from equitangents_studies.framework import drawing


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
