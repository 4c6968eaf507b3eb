"""Layouts, labels and batches: read where they leave no doubt, asked for or refused where they do."""

from __future__ import annotations

import logging

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import equitangents as et
from audit.verdict_cases import QUIET, shown
from equitangents.audit.adapters import as_model
from equitangents.audit.contract.trees import layout_of
from equitangents.errors import InvalidArgumentError, InvalidTypeError

RNG = np.random.default_rng(0)
FAST = {"off_data": False, "effort": "quick", "resamples": 50}
OTHER = {"channels_first": "channels_last", "channels_last": "channels_first", None: None}
SIZES = st.integers(1, 40)


@pytest.mark.parametrize(
    ("layout", "shapes"),
    [
        ("channels_first", [(9, 3, 32, 32), (9, 1, 20, 30), (9, 64, 8, 8), (9, 1, 100), (9, 2, 8, 8, 8)]),
        ("channels_last", [(9, 32, 32, 3), (9, 8, 8, 64), (9, 100, 1)]),
        (None, [(9, 8, 8, 8), (9, 3, 3, 32), (9, 16, 20, 30), (9, 4, 100), (9, 100)]),
    ],
)
def test_what_a_shape_tells(layout: str | None, shapes: list[tuple[int, ...]]) -> None:
    assert [layout_of(shape) for shape in shapes] == [layout] * len(shapes)


@given(st.lists(SIZES, min_size=2, max_size=4))
def test_moving_the_channels_turns_the_answer_round(sizes: list[int]) -> None:
    first = (7, *sizes)
    last = (7, *sizes[1:], sizes[0])
    if layout_of(first) == "channels_first":
        assert layout_of(last) != "channels_first"
    assert layout_of((7, *sizes[::-1])) == OTHER[layout_of(first)]


def exported(f):
    """A model of a kind for which the field has no habit, as ONNX files and PyTorch modules are."""
    model = as_model(f)
    model.states_layout = True
    return model


def weighted(x):
    return np.asarray(x).reshape(len(x), 3, 6, 6) @ np.arange(6.0) @ np.arange(6.0)


def test_a_layout_that_is_read_is_the_one_that_would_be_given(caplog: pytest.LogCaptureFixture) -> None:
    x = RNG.normal(size=(12, 3, 6, 6))
    with caplog.at_level(logging.INFO, "equitangents.audit"):
        read = et.audit(exported(weighted), "C4", x, **FAST)
    assert "layout: channels_first, from the shape (12, 3, 6, 6)" in caplog.text
    given_ = et.audit(exported(weighted), "C4", x, layout="channels_first", **FAST)
    np.testing.assert_array_equal(read.errors, given_.errors)
    assert read.contract.layout == "channels_first"
    acted = et.audit(exported(weighted), et.actions.image_rotations(4), x, **FAST)
    np.testing.assert_array_equal(acted.errors, given_.errors)
    for shape in ((12, 6, 6, 6), (12, 3, 3, 9)):
        with pytest.raises(InvalidArgumentError, match=r"layout is None; .*is ambiguous"):
            et.audit(exported(weighted), "C4", np.zeros(shape), **FAST)


def test_a_group_and_data_in_each_other_s_place_are_told() -> None:
    x = RNG.normal(size=(5, 4, 4, 1))
    for action, data in ((x, "C4"), (x, et.actions.image_rotations(4)), (x.tolist(), "C4"), (jax.numpy.asarray(x), x)):
        with pytest.raises(InvalidTypeError, match=r"second argument is .*; the order is audit\(model, group, x\)"):
            et.audit(lambda a: a.sum((1, 2)), action, data)
    with pytest.raises(InvalidTypeError, match=r"second argument is data, of shape \(5, 4, 4, 1\); the order is \(f"):
        et.metrics.equivariance_error(lambda a: a, x, et.actions.image_rotations(4))


def test_the_layout_is_named_and_channels_first_asked_for() -> None:
    exact = lambda x: x.sum((2, 3))
    for shape, action in (((12, 3, 8, 8), "C4"), ((12, 16, 8, 8), et.actions.image_rotations(4))):
        x = RNG.normal(size=shape)
        with pytest.raises(InvalidArgumentError, match="looks like channels first"):
            et.audit(exact, action, x, **FAST)
        report = et.audit(exact, "C4", x, layout="channels_first", **FAST)
        assert (report.verdict, shown(report, "layout")) == ("equivariant", ["channels_first"])
    assumed = et.audit(lambda x: x.sum((1, 2)), "C4", RNG.normal(size=(12, 8, 8, 8)), **FAST)
    assert shown(assumed, "layout") == ["channels_last"]
    assert shown(et.audit(lambda x: x, "C4", RNG.normal(size=(12, 2)), "vectors", **FAST), "layout") == []


def test_mirror_images_are_called_so() -> None:
    x = RNG.normal(size=(12, 6, 6, 1))
    report = et.audit(lambda x: x[:, 0].sum((1, 2))[:, None] + x[:, 1, 1], "D1", x, **FAST)
    assert [e.label for e in report.elements] == ["mirror image"]
    more = et.audit(lambda x: x[:, 0, 0], "D4", x, **FAST)
    expected = ["90°", "180°", "270°", "mirror image", *(f"mirror image, {k}°" for k in (90, 180, 270))]
    assert [e.label for e in more.elements] == expected


def test_raw_detections_are_no_invariant() -> None:
    x = RNG.normal(size=(6, 32, 32, 1))
    raw = lambda x: np.tile(x[:, :3, :7, 0].reshape(len(x), 1, 21), (1, 6, 1))
    for f in (raw, lambda x: raw(x).transpose(0, 2, 1)):
        with pytest.raises(InvalidArgumentError, match="raw boxes"):
            et.audit(f, "C4", x, **FAST)
        assert et.audit(f, "C4", x, "invariant", **FAST).verdict == "broken"
    assert et.audit(lambda x: raw(x)[:, :, :20], "C4", x, **FAST).verdict == "broken"


GREY, FRAMES = RNG.normal(size=(12, 8, 8)), RNG.normal(size=(12, 3, 8, 8, 2))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("x", "axes", "layout"),
    [(GREY, (1, 2), None), (FRAMES, (2, 3), "channels_last"), (np.moveaxis(FRAMES, 4, 1), (3, 4), "channels_first")],
    ids=["grey", "frames", "frames, channels first"],
)
def test_grey_images_and_frames_turn_as_images_do(x: np.ndarray, axes: tuple, layout: str | None) -> None:
    total = lambda x: np.tanh(x.sum(axes)).reshape(len(x), -1)
    corner = lambda x: total(x) + 0.1 * np.take(np.take(x, 0, axes[1]), 0, axes[0]).reshape(len(x), -1)
    for group in ("C4", "D4"):
        assert et.audit(total, group, x, inputs="images", layout=layout, **FAST).verdict == "equivariant"
    report = et.audit(corner, "C4", x, inputs="images", layout=layout, relative_to="norm", **FAST)
    literal = [np.linalg.norm(corner(np.rot90(x, k, axes)) - corner(x), axis=1) for k in (1, 2, 3)]
    np.testing.assert_allclose(report.errors, literal / np.linalg.norm(corner(x), axis=1), rtol=1e-12)
    moved = et.audit(lambda x: x**2, "C4", x, "images", inputs="images", layout=layout, **FAST)
    assert moved.verdict == "equivariant"
    last = np.moveaxis(x, axes, (1, 2)).reshape(12, 8, 8, -1)  # the same as channels of images
    back = lambda z: np.moveaxis(z.reshape(len(z), 8, 8, *np.delete(x.shape[1:], [a - 1 for a in axes])), (1, 2), axes)
    ask = {"elements": 5, "relative_to": "norm", **FAST}
    turned = et.audit(total, "SO2", x, inputs="images", layout=layout, **ask)
    np.testing.assert_allclose(turned.errors, et.audit(lambda z: total(back(z)), "SO2", last, **ask).errors, rtol=1e-9)
    with pytest.raises(InvalidArgumentError, match="images"):
        et.audit(total, "C4", x, layout=layout, **FAST)


IMAGES = RNG.normal(size=(60, 3, 3, 1))
FLAT = IMAGES.reshape(60, -1)
CLASSES = np.digitize(FLAT @ RNG.normal(size=9), [-1, 1])


@pytest.mark.parametrize("names", [np.arange(3), np.array([7, 2, 5]), np.array(["cat", "dog", "ant"])])
def test_labels_are_those_that_a_classifier_was_fitted_to(names: np.ndarray) -> None:
    y = names[CLASSES]
    model = LogisticRegression().fit(FLAT[:40], y[:40])
    expected = 1 - model.score(FLAT[40:], y[40:])
    for f in (model, [model, model]):
        report = et.audit(f, "C4", IMAGES[40:], y=y[40:], **QUIET)
        assert report.relative.task == "error rate"
        assert report.relative.task_error == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("names", "truth"),
    [((0, 1), (0, 1)), ((-1, 1), (0, 1)), ((3, 1500), (1500, 3)), ((7, 8), (5, 8)), ((0, 1), (-1, 1))],
)
def test_class_numbers_are_compared_with_labels_as_they_are(names: tuple, truth: tuple) -> None:
    f = lambda x: np.where(x[:, 0, 0, 0] > 0, *names)
    y = np.where(IMAGES[:, 1, 1, 0] > 0, *truth)
    report = et.audit(f, "C4", IMAGES, y=y, **QUIET)
    assert report.relative.task_error == pytest.approx((f(IMAGES) != y).mean())
    turned = [(f(np.rot90(IMAGES, k, (1, 2))) != y).mean() for k in (1, 2, 3)]
    assert report.relative.transformed_task_error == pytest.approx(np.mean(turned))
    assert et.audit(f, "C4", IMAGES, y=f(IMAGES), **QUIET).relative.task_error == 0


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.minimum(CLASSES, 1) - 2, "y names class -1; f(x) has"),
        (CLASSES + 5, "y names class 7; f(x) has 3 columns, those of the classes 0 to 2"),
        (FLAT[:, :2], "y has 2 numbers an input, f(x) has 3"),
    ],
)
def test_labels_that_do_not_fit_are_left_out_with_a_word(y: np.ndarray, said: str) -> None:
    f = lambda x: x[:, :, 0, 0]
    report, without = et.audit(f, "C4", IMAGES, y=y, **QUIET), et.audit(f, "C4", IMAGES, **QUIET)
    (why,) = (m.reason for m in report.missing if m.section == "the task's error")
    assert why.startswith(said)
    assert said in report.summary()
    assert report.relative.task_error is None
    np.testing.assert_array_equal(report.errors, without.errors)


def test_outputs_are_probabilities_in_all_batches_or_in_none() -> None:
    def shares(x: np.ndarray) -> np.ndarray:  # of three kinds, of which some inputs have none
        counts = np.maximum(x.reshape(len(x), -1)[:, :3], 0)
        return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-9)

    x = IMAGES[np.argsort(-IMAGES[:, 0, 0, 0])].copy()  # the first has some
    x[-1, 0] = -1.0
    single, full = (et.audit(shares, "C4", x, batch_size=size, **QUIET).headline for size in (1, len(x)))
    assert (single.unit, single.error.estimate.mean) == (full.unit, pytest.approx(full.error.estimate.mean))


def test_a_model_of_one_batch_size_is_given_full_batches() -> None:
    any_size = lambda x: (x * np.arange(9).reshape(3, 3, 1)).sum((1, 2)) + 50

    def sixteen(x: np.ndarray) -> np.ndarray:
        if len(x) != 16:
            raise RuntimeError("expected 16 rows")
        return any_size(x)

    report = et.audit(sixteen, "C4", IMAGES, batch_size=16, **QUIET)
    np.testing.assert_allclose(report.errors, et.audit(any_size, "C4", IMAGES, **QUIET).errors, rtol=1e-12)
    with pytest.raises(RuntimeError, match="expected 16 rows") as refused:
        et.audit(sixteen, "C4", IMAGES, **QUIET)
    assert "batch_size=" in refused.value.__notes__[0]
