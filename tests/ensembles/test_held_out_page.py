"""What the page of a fitted classifier says follows from left-out samples, and from the planted faults in them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import equitangents as et
from equitangents.ensembles.infinite.held_out_page import HeldOut, held_out_page
from equitangents.errors import InvalidArgumentError
from equitangents.report import render
from equitangents.report.render import outside_resources

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
    assert sum(n for *_, n in held.confusions()) == (~held.hits).sum()


def test_a_wrong_label_is_the_first_that_looks_mislabelled_and_turning_is_told(fitted):
    model, *_ = fitted
    names = [f"image-{i}.png" for i in range(60)]
    assert int(np.argmin(HeldOut.of(model).of_label)) == PLANTED
    html = render(held_out_page(model, names, title="What <b> was learnt", next_command="predict it"))
    assert "What &lt;b&gt; was learnt" in html
    assert outside_resources(html) == []
    shown = html[html.index('id="which-look-mislabelled"') :]
    assert re.search(r"image-\d+\.png", shown)[0] == f"image-{PLANTED}.png"
    assert re.search(r"Of 60 training images (turned by (90|180|270)°|mirrored) it names \d", html)
    assert "predict it" in html
    right = f"{model.leave_one_out_.hits.sum()} of 60"
    assert right in html


@pytest.mark.parametrize("shape", [(4, 4), (4, 6)])
def test_images_are_turned_by_all_quarters_that_keep_their_shape(shape):
    x, labels = RNG.normal(0, 0.1, (24, *shape, 1)), np.array(["lying", "standing"] * 12)
    x[::2, 1:3] += 1
    x[1::2, :, 1:3] += 1
    html = render(held_out_page(et.InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(x, labels), title="t"))
    worst = re.search(r"Of 24 training images (.+?) it names", html)[1]
    assert (worst in ("turned by 90°", "turned by 270°")) == (shape == (4, 4))


def test_a_calibrated_law_shows_an_error_of_chance_alone():
    p = RNG.dirichlet([1, 1, 1], 20_000)
    labels = (RNG.random((len(p), 1)) > p.cumsum(1)).sum(1)
    classes, names = ("a", "b", "c"), tuple(map(str, range(len(p))))
    held = HeldOut(p, labels, p.argmax(1), classes, names, 1.0)
    assert held.calibration_error() < 3 * held.chance_error() < 0.03
    sharp = p**4 / (p**4).sum(1, keepdims=True)
    assert HeldOut(sharp, labels, p.argmax(1), classes, names, 1.0).calibration_error() > 0.1


def test_an_augmented_model_says_that_turning_changes_nothing_and_arrays_have_tables(fitted):
    _, x, y = fitted
    model = et.InfiniteEnsembleClassifier(NET, augmentation="C4", ridge=1e-2).fit(x, y)
    assert "Nothing, for the elements of" in render(held_out_page(model, title="t"))
    flat = et.InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(x.reshape(60, -1), y)
    html = render(held_out_page(flat, title="t"))
    assert "sample 7" in html
    assert "turned by" not in html


def test_what_cannot_have_a_page_is_said(fitted):
    with pytest.raises(InvalidArgumentError, match="names has 2 entries; the model was fitted to 60"):
        held_out_page(fitted[0], ["a", "b"], title="t")
