"""What figures of studies share."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from equitangents.studies.framework import drawing


@pytest.mark.parametrize(("width", "numbered"), [(3.0, ["800", "3,200", "12,800"]), (9.0, None)])
def test_numbers_below_an_axis_stay_clear_of_one_another(width, numbered):
    ticks = [800, 1600, 3200, 6400, 12800]
    axes = Figure(figsize=(width, 2)).subplots()
    axes.plot([100, 12800], [1, 2])
    drawing.logarithmic(axes, "x", ticks, base=2)
    labels = [label for label in axes.xaxis.get_major_formatter().format_ticks(axes.get_xticks()) if label]
    assert labels == (numbered or [f"{t:,}" for t in ticks])
