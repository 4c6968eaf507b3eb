"""What figures of studies share."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

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
