"""Claims about augmented MLPs on made-up numbers, settings that are refused; records, and legends of figures."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from equitangents.statistics import Estimate
from equitangents_studies import mlp_to_gcnn
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Records
from equitangents_studies.framework.folder import RunFolder

RUN = {"study": "s", "settings": {}}


def exchanged(distance):
    settings = mlp_to_gcnn.Settings(times=(1.0,), widths=(8, 16), draws=6, trained_widths=(4,), members=6, steps=(0, 1))
    rng = np.random.default_rng(0)
    members = {("mlp", 4, name): rng.normal(size=(2, 6, 5)) for name in mlp_to_gcnn.SETS}
    members |= {("gcnn", *key[1:]): np.zeros_like(outputs) for key, outputs in members.items()}
    deep = lambda value: {(theorem, depth): value for theorem in ("5.2", "5.3") for depth in (1, 6)}
    return mlp_to_gcnn.claims(settings, mlp_to_gcnn.Results(
        times=np.array([1.0]), kernel_distance=np.zeros(2), distance=np.full((1, 4), distance),
        without_augmentation=np.ones((1, 4)), exact=np.zeros((2, 1, 4)),
        squares=rng.random((6, 2)), outputs=members,
        deep_distance=deep(np.array([[0.0, 0.0, 0.0, distance]])), deep_kernels=deep(np.array([0.0, distance])),
        deep_exact={1: np.zeros((1, 4)), 3: np.full((1, 4), distance)},
    ))  # fmt: skip


@pytest.mark.parametrize(("distance", "verdict"), [(0.0, "holds"), (1e-6, "fails")])
def test_means_at_infinite_width_that_differ_fail(distance, verdict):
    claims = exchanged(distance)
    assert [claims[i].outcome for i in (0, 5, 6, 7)] == [verdict] * 4


def test_a_legend_of_several_panels_names_each_line_once(tmp_path):
    with drawing.panels(RunFolder(tmp_path / "run", RUN), "two", titles=("a", "b"), caption="c", alt="a") as drawn:
        for axes, own in zip(drawn, "ab", strict=True):
            for label in ("both", own):
                axes.plot([0, 1], [0, 1], label=label)
        drawn.legend(*drawn)
        legend = drawn.canvas.legends[0]
        assert sorted(text.get_text() for text in legend.get_texts()) == ["a", "b", "both"]
    assert drawn.figure.name == "two"


def test_a_legend_that_is_too_wide_for_the_canvas_takes_fewer_columns(tmp_path):
    with drawing.panels(RunFolder(tmp_path / "run", RUN), "wide", caption="c", alt="a") as drawn:
        for k in range(6):
            drawn[0].plot([0, 1], [0, k], label=f"an ensemble of so many networks, number {k}")
        drawn.legend()
        (legend,) = drawn.canvas.legends
        renderer = FigureCanvasAgg(drawn.canvas).get_renderer()
        assert legend.get_window_extent(renderer).width <= drawn.canvas.bbox.width
        assert len(legend.get_texts()) == 6


@pytest.mark.quick(1)
@pytest.mark.parametrize(("lines", "columns", "across"), [(5, 2, 2), (2, 6, 2), (1, 6, 1), (4, 4, 4)])
def test_a_legend_has_the_columns_asked_for_and_none_that_are_empty(tmp_path, lines, columns, across):
    with drawing.panels(RunFolder(tmp_path / "run", RUN), "short", caption="c", alt="a") as drawn:
        for k in range(lines):
            drawn[0].plot([0, 1], [0, k], label=str(k))
        drawn.legend(columns=columns)
        drawn.canvas.draw_without_rendering()
        renderer = FigureCanvasAgg(drawn.canvas).get_renderer()
        places = [text.get_window_extent(renderer).x0 for text in drawn.canvas.legends[0].get_texts()]
        assert len(set(np.round(places))) == across


def test_records_at_given_coordinates_are_those_at_all_of_them():
    found = Records.over(lambda a, b: Estimate(10 * a + b, np.nan, np.nan), a=(1, 2), b=(3, 4, 5))
    assert found.where(a=2, b=4).values.tolist() == [24]
    assert found.where(b=5, a=1).rows == ((1, 5),)
    assert found.where(a=1).values.tolist() == [13, 14, 15]
    assert found.where().values.tolist() == found.values.tolist()
    assert not found.where(a=3, b=4).rows
