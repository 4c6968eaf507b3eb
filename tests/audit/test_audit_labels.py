"""Labels, files, batches and shared inputs of an audit: taken as they are meant, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import equitangents as et
from equitangents.audit import Shared
from equitangents.errors import InvalidArgumentError

QUIET = {"off_data": False, "data_test": None, "resamples": 100}
RNG = np.random.default_rng(0)
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


def test_labels_of_no_class_are_refused() -> None:
    model = LogisticRegression().fit(FLAT, CLASSES + 5)
    with pytest.raises(InvalidArgumentError, match="classes, 5, 6, 7"):
        et.audit(model, "C4", IMAGES, y=CLASSES, **QUIET)


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


def test_a_shared_input_cannot_be_moved() -> None:
    edges = Shared(np.array([[0, 1], [1, 2]]))
    with pytest.raises(InvalidArgumentError, match=r"x\[1\] is 'Shared'"):
        et.audit(lambda h, e: h, "S_n", (FLAT, edges), "points", inputs=("points", "edges"), **QUIET)


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path, command) -> None:
    np.savez(tmp_path / "x.npz", x=IMAGES)
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "table.csv").write_text("1,2,3\n")
    (tmp_path / "junk.pkl").write_bytes(b"junk")
    good = "numpy:square", str(tmp_path / "x.npz")
    for model, data, options, said in (
        (good[0], str(tmp_path / "half.npz"), [], "cannot read"),
        (good[0], str(tmp_path / "table.csv"), [], "neither .npy nor .npz"),
        (good[0], str(tmp_path / "table.csv"), ["--trust"], "neither .npy nor .npz"),
        (str(tmp_path / "junk.pkl"), good[1], ["--trust"], "expected a file that can be unpickled"),
    ):
        status, _, error = command("audit", model, "--data", data, "--group", "C4", *options)
        assert status == 2
        assert said in error
        assert error.count("\n") == 1


def test_a_model_of_one_batch_size_is_given_full_batches() -> None:
    def sixteen(x: np.ndarray) -> np.ndarray:
        if len(x) != 16:
            raise RuntimeError("expected 16 rows")
        return (x * np.arange(9).reshape(3, 3, 1)).sum((1, 2)) + 50

    def any_size(x: np.ndarray) -> np.ndarray:
        return (x * np.arange(9).reshape(3, 3, 1)).sum((1, 2)) + 50

    report = et.audit(sixteen, "C4", IMAGES, batch_size=16, **QUIET)
    np.testing.assert_allclose(report.errors, et.audit(any_size, "C4", IMAGES, **QUIET).errors, rtol=1e-12)
    assert "expected 16 rows" in next(m.reason for m in report.missing if m.section == "smaller batches")
    with pytest.raises(RuntimeError, match="expected 16 rows"):
        et.audit(sixteen, "C4", IMAGES, **QUIET)
