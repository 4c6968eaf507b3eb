"""What the page of a fitted classifier says follows from left-out samples, and from the planted faults in them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import equitangents as et
from equitangents.errors import InvalidArgumentError
from equitangents.fit import auto, page
from equitangents.fit.page import held_out_page
from equitangents.fit.result import HeldOut
from pages import outside_resources

RNG = np.random.default_rng(0)
NET = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(1), et.nn.Relu(), et.nn.Dense(1))
PLANTED = 7


def bright_above(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images whose upper or lower half is bright, in three classes with empty ones, and which."""
    labels = RNG.integers(0, 3, count)
    x = RNG.normal(0, 0.2, (count, 4, 4, 1))
    x[labels == 0, :2] += 1
    x[labels == 1, 2:] += 1
    return x, np.array(["top", "low", "none"])[labels]


@pytest.fixture(scope="module")
def fitted():
    x, y = bright_above(60)
    y[PLANTED] = "top" if y[PLANTED] != "top" else "low"
    return et.InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(x, y), x, y


def test_numbers_are_those_of_classifiers_fitted_without_the_sample(fitted):
    model, x, y = fitted
    held = HeldOut.of(model)
    for i in (0, PLANTED, 31):
        others = et.InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(np.delete(x, i, 0), np.delete(y, i))
        assert held.classes[held.predictions[i]] == others.predict(x[i : i + 1])[0]
    assert held.hits.mean() == pytest.approx(model.leave_one_out_.accuracy)
    np.testing.assert_allclose(held.probabilities.sum(1), 1)
    assert sum(n for *_, n in held.bins()) == 60


def section(html: str, name: str) -> str:
    """The part of a page under a heading."""
    start = html.index(f'<section id="{name}">')
    return html[start : html.index("</section>", start)]


def test_a_wrong_label_is_the_first_that_looks_mislabelled(fitted):
    model, *_ = fitted
    names = [f"image-{i}.png" for i in range(60)]
    assert int(np.argmin(HeldOut.of(model).of_label)) == PLANTED
    html = held_out_page(model, names, title="What <b> was learnt", next_command="predict it").html()
    assert "What &lt;b&gt; was learnt" in html
    assert outside_resources(html) == []
    shown = section(html, "wrong-or-mislabelled")
    assert re.search(r"image-\d+\.png", shown)[0] == f"image-{PLANTED}.png"
    assert shown.count('src="data:image/png;base64,') == min(8, (~HeldOut.of(model).hits).sum())
    assert "predict it" in html
    assert f"(95 %): {100 * model.leave_one_out_.accuracy:.1f} % (" in html


def test_a_calibrated_law_shows_an_error_of_chance_alone():
    p = RNG.dirichlet([1, 1, 1], 20_000)
    labels = (RNG.random((len(p), 1)) > p.cumsum(1)).sum(1)
    classes = ("a", "b", "c")
    held = HeldOut(p, labels, classes)
    assert held.calibration_error() < 3 * held.chance_error() < 0.03
    sharp = p**4 / (p**4).sum(1, keepdims=True)
    assert HeldOut(sharp, labels, classes).calibration_error() > 0.1


@pytest.mark.parametrize(
    ("classes", "heads"), [(("1", "20", "b c"), ("1", "20", "b c")), (("дерево", "a b", "c"), "123")]
)
def test_long_names_of_classes_are_numbers_with_a_legend(classes, heads):
    labels = np.array([0, 1, 2, 2])
    (table,) = page._confusion(HeldOut(np.eye(3)[[0, 1, 2, 1]], labels, classes)).shown
    assert table.header == ["", *heads]
    assert table.rows[2] == [f"{heads[2]} (2)", "0", "1", "1"]
    assert ("2: a b" in table.caption) == (heads == "123")


def test_no_point_of_the_reliability_diagram_is_cut(monkeypatch):
    drawn, labels = [], np.array([0, 1] * 10)
    monkeypatch.setattr("equitangents.fit.page.inline_figure", lambda figure, name: drawn.append(figure) or "")
    page._calibration(HeldOut(np.eye(2)[labels], labels, ("a", "b")), None)
    (axes,) = drawn[0].axes
    (points,) = (line for line in axes.lines if line.get_marker() == "o")
    pixels = axes.transData.transform(points.get_xydata())
    inside = axes.transAxes.transform([(0, 0), (1, 1)])
    radius = points.get_markersize() / 2 * drawn[0].dpi / 72
    assert (pixels - radius >= inside[0]).all()
    assert (pixels + radius <= inside[1]).all()


def test_predictions_may_be_left_open_below_a_probability():
    p = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]])
    held = HeldOut(p, np.array([0, 0, 1, 1]), ("a", "b"))
    assert held.answered(0.7) == (0.75, pytest.approx(2 / 3))
    share, right = held.answered(0.95)
    assert share == 0
    assert np.isnan(right)


def test_a_choice_has_baselines_angles_and_a_learning_curve():
    x, y = bright_above(40)
    choice = auto(x, y, baselines=False, minutes=600)
    html = held_out_page(choice.model, [f"{i}.png" for i in range(40)], title="t", choice=choice).html()
    assert outside_resources(html) == []
    assert choice.best.name in html
    assert [each.angle for each in choice.rotations] == [0, *(40.0 * k for k in range(1, 9))]
    for name in ("accuracy", "confusion", "calibration", "least-certain", "rotated-images", "learning-curve"):
        section(html, name)
    assert "<svg" in section(html, "accuracy")


def test_arrays_have_tables_and_names_are_of_all_samples(fitted):
    plain, x, y = fitted
    flat = et.InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(x.reshape(60, -1), y)
    assert "sample 7" in held_out_page(flat, title="t").html()
    with pytest.raises(InvalidArgumentError, match="names has length 2; expected 60"):
        held_out_page(plain, ["a", "b"], title="t")
