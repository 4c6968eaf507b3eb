"""A model that is symmetric on its data alone: the first line says so, and badge, JSON and exit status with it."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import IMAGES, WEIGHTS, features, invariant, shown
from equitangents.audit.report.checks import below
from equitangents.testing import assert_equivariant

RNG = np.random.default_rng(5)
INNER = np.pad(RNG.normal(size=(24, 4, 4, 1)), ((0, 0), (2, 2), (2, 2), (0, 0)))
BORDER = RNG.normal(size=(8, 8, 1)) * np.pad(np.zeros((4, 4, 1)), ((2, 2), (2, 2), (0, 0)), constant_values=1.0)
RISING = np.arange(64.0).reshape(8, 8, 1)
QUIET = {"data_test": None, "layers": False, "resamples": 100}


def bordered(x: np.ndarray) -> np.ndarray:
    """Invariant on images with empty borders, and on no others."""
    return np.stack([x.sum((1, 2, 3)), (x**2).sum((1, 2, 3))], 1) + (x * BORDER).sum((1, 2, 3))[:, None] ** 2


def test_the_first_line_is_not_green_for_what_holds_on_the_data_alone():
    report = et.audit(bordered, "C4", INNER, **QUIET)
    noise = next(s for s in report.sets if s.name == "noise")
    turned = np.array([bordered(np.rot90(INNER, k, (1, 2))) for k in range(4)])
    assert np.abs(turned - turned[0]).max() < 1e-12
    assert report.verdict == "equivariant on its data"
    assert report.reason == "fails off the data"
    assert noise.above
    assert f"noise {100 * noise.judged.mean:.3g} %" in shown(report, "off the data")[0]
    assert report.to_dict()["verdict"] == "equivariant on its data"
    assert "equivariant on its data" in report.html()
    assert "❔" in report.to_markdown()
    assert 'name="off the data, noise"' in report.to_junit()
    check = below(report, 0.05)
    assert (check.passed, check.undecided) == (False, False)
    assert "off the data, noise" in check.value
    with pytest.raises(AssertionError, match="equivariant on its data"):
        assert_equivariant(bordered, "C4", INNER, off_data=True)
    alone = et.audit(bordered, "C4", INNER, off_data=False, **QUIET)
    assert (alone.verdict, below(alone, 0.05).passed) == ("equivariant", True)


def test_a_tolerance_is_not_kept_by_a_model_that_breaks_it_off_the_data():
    slightly = lambda x: bordered(x) + 1e-4 * (x * RISING).sum((1, 2, 3))[:, None]
    report = et.audit(slightly, "C4", INNER, tolerance=0.05, **QUIET)
    assert report.verdict == "equivariant on its data"
    assert shown(report, "tolerance") == ["5 %"]
    nearly = et.audit(slightly, "C4", INNER, **QUIET)
    assert nearly.verdict == "broken"
    assert nearly.reason == "worse off the data"
    assert nearly.first_line.startswith("broken (worse off the data): ")
    assert not below(nearly, 0.05).passed


@pytest.mark.quick(1)
@pytest.mark.parametrize(("dtype", "centre"), [(np.float64, 0.0), (np.float32, 30.0), (np.float16, 0.0)])
def test_a_model_that_is_exact_everywhere_stays_green(dtype, centre):
    model = lambda x: invariant(x.astype(dtype)).astype(dtype) + dtype(centre)
    report = et.audit(model, "C4", IMAGES.astype(dtype), **QUIET)
    assert report.verdict in ("equivariant", "undecided")
    assert not any(s.above for s in report.sets)
    smooth = lambda x: np.tanh(x.mean((1, 2)) @ WEIGHTS[:1].astype(dtype)) + dtype(centre)
    report = et.audit(smooth, "SO2", IMAGES[:20].astype(dtype), elements=6, **QUIET)
    assert not any(s.above for s in report.sets)


def test_a_model_that_is_broken_on_its_data_says_no_more():
    report = et.audit(features, "C4", IMAGES, **QUIET)
    assert report.verdict == "broken"
    assert report.reason == "above noise floor"
