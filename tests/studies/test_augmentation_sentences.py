"""Claims of four studies of augmentation, on numbers made for the purpose; records, and legends of figures."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from equitangents.errors import InvalidArgumentError
from equitangents.statistics import Estimate
from equitangents_studies.continuous import study as continuous
from equitangents_studies.continuous.claims import claims as continuous_claims
from equitangents_studies.finite_width import study as finite_width
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import EXACT
from equitangents_studies.framework.records import Records
from equitangents_studies.mlp_to_gcnn import study as mlp_to_gcnn
from equitangents_studies.mlp_to_gcnn.study import claims as mlp_to_gcnn_claims
from equitangents_studies.sampling import study as sampling
from equitangents_studies.sampling.claims import claims as sampling_claims
from equitangents_studies.sampling.study import RANDOM, STRATEGIES
from studies.miniatures import study


def sampled(scale=1.0):
    """Violations b^(−1/2) of every choice of elements; those of importance sampling times `scale`."""
    settings = sampling.Settings(budgets=(1, 2, 4), times=(0.1, 1.0), draws=60)
    base = np.array([1.0, 2**-0.5, 0.5])[:, None, None, None] * np.array([1.0, 2.0])[:, None]
    rng = np.random.default_rng(0)
    draw = lambda s: (scale if s == "important" else 1.0) * base * np.exp(0.1 * rng.normal(size=(3, 60, 2, 2)))
    tables = {s: draw(s) if s in RANDOM else draw(s)[:, :1] for s in STRATEGIES}
    results = sampling.Results(np.array([0.1, 1.0]), tables, tables, np.zeros((2, 2)))
    return sampling_claims(settings, results)


def finite():
    settings = finite_width.Settings(
        tasks=("ising",), widths=(8, 16, 32), channels=(8, 16, 32), group_channels=(4,), members=48, cnn_members=48,
        sizes=(1, 2, 4), steps=(1, 2),
    )  # fmt: skip
    rng, kinds = np.random.default_rng(0), finite_width.KINDS
    changes = {kind: {n: rng.normal(size=(2, 48, 20)) for n in settings.widths} for kind in kinds}
    one = dict.fromkeys(kinds, np.ones(2))
    cell = finite_width.Cell(np.array([1, 2]), one, one, changes)
    cells = dict.fromkeys((("mlp", "ising"), ("cnn", "ising")), cell)
    group = {"ising": {4: np.zeros((2, 3, 5))}}
    return finite_width.claims(settings, finite_width.Results({"ising": "energies"}, cells, group))


def turned():
    settings = continuous.Settings(orders=(2, 4), trained=(2,), steps=(1,), angles=8, members=6)
    rng = np.random.default_rng(0)
    each = lambda value: dict.fromkeys(continuous.WAYS, value)
    profile = rng.random((2, 1, 8, 6)) * np.array([2.0, 1.0])[:, None, None, None]
    results = continuous.Results(
        steps=np.array([1]), kappa=each(np.array([2.0, 1.0])), profile=each(profile), size=each(np.ones((2, 1))),
        floor=np.ones((2, 1, 8, 6)) + rng.random((2, 1, 8, 6)), round_trip=np.ones(8), constant=np.ones((2, 1, 6)),
        members={2: rng.normal(size=(6, 8, 6, 3))},
    )  # fmt: skip
    return continuous_claims(settings, results)


def exchanged_results(distance=0.0):
    settings = mlp_to_gcnn.Settings(times=(1.0,), widths=(8, 16), draws=6, trained_widths=(4,), members=6, steps=(0, 1))
    rng = np.random.default_rng(0)
    members = {("mlp", 4, name): rng.normal(size=(2, 6, 5)) for name in mlp_to_gcnn.SETS}
    members |= {("gcnn", *key[1:]): np.zeros_like(outputs) for key, outputs in members.items()}
    deep = lambda value: {(theorem, depth): value for theorem in ("5.2", "5.3") for depth in (1, 6)}
    results = mlp_to_gcnn.Results(
        times=np.array([1.0]), kernel_distance=np.zeros(2), distance=np.full((1, 4), distance),
        without_augmentation=np.ones((1, 4)), std_ratio=np.ones(1), exact=np.zeros((2, 1, 4)),
        squares=rng.random((6, 2)), outputs=members, deep_without={},
        deep_distance=deep(np.array([[0.0, 0.0, 0.0, distance]])), deep_kernels=deep(np.array([0.0, distance])),
        deep_exact={1: np.zeros((1, 4)), 3: np.full((1, 4), distance)},
    )  # fmt: skip
    return settings, results


def exchanged(distance=0.0):
    return mlp_to_gcnn_claims(*exchanged_results(distance))


CLAIMS = {"sampling": sampled, "finite-width": finite, "continuous": turned, "mlp-to-gcnn": exchanged}


@pytest.mark.parametrize("name", CLAIMS)
class TestEveryClaim:
    def test_what_networks_or_elements_were_drawn_for_has_an_interval_that_says_what_it_is_over(self, name):
        drawn = {"sampling": 5, "finite-width": 12, "continuous": 4, "mlp-to-gcnn": 2}[name]
        over = [claim.covers for claim in CLAIMS[name]() if claim.covers != EXACT]
        assert len(over) == drawn
        assert set(over) <= {
            "draws of elements", "members", "disjoint batches of members", "inputs", "networks", "draws of networks",
        }  # fmt: skip

    def test_settings_are_refused_before_anything_is_measured(self, name):
        bad = {
            "sampling": {"draws": 1}, "finite-width": {"members": 3}, "continuous": {"members": 2},
            "mlp-to-gcnn": {"draws": 2},
        }[name]  # fmt: skip
        one = study(name)
        with pytest.raises(InvalidArgumentError, match=next(iter(bad))):
            one.check(type(one.presets["quick"])(**bad), None)


@pytest.mark.parametrize(("distance", "verdict"), [(0.0, "holds"), (1e-6, "fails")])
def test_means_at_infinite_width_that_differ_fail(distance, verdict):
    claims = exchanged(distance)
    assert [claims[i].outcome for i in (0, 5, 6, 7)] == [verdict] * 4


def test_where_the_source_states_a_number_it_stands_beside_ours():
    stated = {name: [claim.stated for claim in CLAIMS[name]()] for name in CLAIMS}
    assert stated["mlp-to-gcnn"][0] == "equal"
    assert stated["sampling"][0] == "exactly invariant"
    assert stated["continuous"][:2] == ["at most 1", "0"]
    assert stated["finite-width"][1:3] == stated["finite-width"][7:9] == ["−1/2", "−1"]
    assert stated["finite-width"][-1] == "0"


@pytest.mark.parametrize("scale", np.linspace(0.95, 1.1, 7))
def test_printed_ratios_of_sampling_lie_on_the_side_of_1_that_the_verdict_says(scale):
    claim = sampled(scale)[3]
    low, high = map(float, claim.interval_cell.split(" to "))
    said = "holds" if high <= 1 else "fails" if low > 1 else "undecided"
    assert claim.outcome == said


def test_a_legend_of_several_panels_names_each_line_once(tmp_path):
    folder = SimpleNamespace(figures=tmp_path)
    with drawing.panels(folder, "two", titles=("a", "b"), caption="c", alt="a") as drawn:
        for axes, own in zip(drawn, "ab", strict=True):
            for label in ("both", own):
                axes.plot([0, 1], [0, 1], label=label)
        drawn.legend(*drawn)
        legend = drawn.canvas.legends[0]
        assert sorted(text.get_text() for text in legend.get_texts()) == ["a", "b", "both"]
    assert drawn.figure.name == "two"


def test_a_legend_that_is_too_wide_for_the_canvas_takes_fewer_columns(tmp_path):
    with drawing.panels(SimpleNamespace(figures=tmp_path), "wide", caption="c", alt="a") as drawn:
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
    with drawing.panels(SimpleNamespace(figures=tmp_path), "short", caption="c", alt="a") as drawn:
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
