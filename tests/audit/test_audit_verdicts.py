"""What an audit's first sentence says: percentages of what, and to within what."""

from __future__ import annotations

import html as entities
import json
import re
from pathlib import Path

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import IMAGES, QUIET, features, invariant, literal, off_by, shown
from equitangents.audit.report.checks import agrees
from equitangents.audit.report.forms import escaped
from equitangents.audit.report.rows import rows
from equitangents.errors import InvalidArgumentError, InvalidTypeError

RNG = np.random.default_rng(0)


def test_a_large_constant_part_does_not_make_a_model_equivariant() -> None:
    f = lambda x: 20 + features(x)
    by_norm, by_spread = literal(f, IMAGES)
    assert by_norm < 0.1 < 1 < by_spread
    report = et.audit(f, "C4", IMAGES, **QUIET)
    assert report.headline.unit == "spread"
    assert report.headline.error.estimate.mean == pytest.approx(by_spread)
    assert report.error.estimate.mean == pytest.approx(by_norm), "the old number stays under its name"
    assert report.relative.error_by_spread.estimate.mean == pytest.approx(by_spread)
    assert f"error {100 * by_spread:.3g} %" in report.first_line
    assert "of the spread, noise floor " in report.first_line
    assert shown(report, "error")[1].startswith(f"{100 * by_norm:.3g} %")


def test_the_headline_is_the_larger_of_both_unless_told() -> None:
    f = lambda x: features(x)[:, :1]  # of one output some values are small, and their relative errors large
    by_norm, by_spread = literal(f, IMAGES)
    assert by_norm > by_spread
    for told, unit, expected in (
        ("larger", "norm", by_norm),
        ("norm", "norm", by_norm),
        ("spread", "spread", by_spread),
    ):
        headline = et.audit(f, "C4", IMAGES, relative_to=told, **QUIET).headline
        assert headline.unit == unit
        assert headline.error.estimate.mean == pytest.approx(expected)


def test_errors_that_are_infinite_for_some_inputs_are_told_by_the_spread() -> None:
    report = et.audit(lambda x: np.maximum(x[:, 0, 0], 0), "C4", IMAGES, **QUIET)
    assert np.isinf(report.error.estimate.mean)
    assert report.headline.unit == "spread"
    assert np.isfinite(report.headline.error.worst)
    assert "∞" not in report.first_line
    assert "∞" in shown(report, "error")[1]


def test_one_input_and_a_constant_have_no_spread() -> None:
    one = et.audit(lambda x: features(x), "C4", IMAGES[:1], **QUIET)
    assert one.headline.unit == "norm"
    assert one.relative.error_by_spread is None
    assert one.headline.reason == "one input has no spread"
    assert one.verdict in ("broken", "undecided")
    constant = et.audit(lambda x: 0 * x[:, 0, 0] + 0.1, "C4", IMAGES, **QUIET)
    assert (constant.verdict, constant.reason) == ("undecided", "constant")
    assert constant.headline.unit == "norm"


def test_always_the_same_answer_shows_no_symmetry() -> None:
    numbers = et.audit(lambda x: np.full(len(x), 3), "C4", IMAGES, **QUIET)
    assert (numbers.verdict, numbers.reason) == ("undecided", "constant")
    scores = et.audit(lambda x: invariant(x) + np.array([9.0, 0, 0]), "C4", IMAGES, **QUIET)
    assert scores.verdict == "equivariant"
    check = agrees(scores, 0.95)
    assert (check.passed, check.undecided) == (False, True)
    assert agrees(et.audit(invariant, "C4", IMAGES, **QUIET), 0.95).passed


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"relative_to": "mean"}, InvalidArgumentError, "relative_to is 'mean'"),
        ({"tolerance": 0}, InvalidArgumentError, "tolerance is 0"),
        ({"tolerance": float("nan")}, InvalidArgumentError, "tolerance is nan"),
        ({"tolerance": "1 %"}, InvalidTypeError, "tolerance is '1 %'"),
        ({"output_scale": -1.0}, InvalidArgumentError, "output_scale is -1.0"),
        ({"output_scale": {"energy": "1"}}, InvalidTypeError, r"output_scale\['energy'\] is '1'"),
        ({"output_scale": {"forces": 1.0}}, InvalidArgumentError, r"names \['forces'\]; expected 'f\(x\)'"),
    ],
)
def test_what_verdicts_are_told_is_checked(arguments: dict, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        et.audit(features, "C4", IMAGES, **{**QUIET, **arguments})


def test_a_violation_below_the_tolerance_is_equivariant_within_it() -> None:
    kept = et.audit(off_by(0.003), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert kept.verdict == "equivariant within tolerance"
    assert kept.first_line.startswith("equivariant within tolerance: error 0.3 %")
    assert shown(kept, "tolerance") == ["1 %"]
    beyond = et.audit(off_by(0.03), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert beyond.verdict == "broken"
    assert beyond.reason == "above the tolerance"
    near = et.audit(off_by(0.0094), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert near.verdict == "undecided"
    assert near.reason == "interval"
    assert et.audit(invariant, "C4", IMAGES, tolerance=0.01, **QUIET).verdict == "equivariant"


def test_one_element_beyond_the_tolerance_is_not_averaged_away() -> None:
    action = et.actions.permutations(et.groups.cyclic(12), (np.arange(12)[:, None] + np.arange(12)) % 12)
    x = RNG.normal(size=(50, 12, 1))
    f = lambda x: x.reshape(len(x), 2, 6).sum(2)  # halves change places under the sixth step
    report = et.audit(f, action, x, tolerance=0.5, **QUIET)
    assert report.verdict == "broken"


def test_a_floor_above_the_tolerance_decides_nothing() -> None:
    x = RNG.normal(size=(40, 9, 9, 1))
    report = et.audit(lambda x: 1 + x.mean((1, 2)), "C16", x, tolerance=1e-6, relative_to="norm", **QUIET)
    assert report.verdict == "undecided"


@pytest.mark.quick(1)
@pytest.mark.parametrize("share", [0.0, 0.003, 0.5])
@pytest.mark.parametrize("tolerance", [None, 0.01])
def test_summary_markdown_json_and_page_agree(share: float, tolerance: float | None, tmp_path: Path) -> None:
    report = et.audit(off_by(share), "C4", IMAGES, tolerance=tolerance, **QUIET)
    written = json.loads(report.to_json(tmp_path / "a.json").read_text(encoding="utf-8"))
    markdown, page = report.to_markdown(), report.html()
    assert written["verdict"] == report.verdict
    assert written["reason"] == report.reason
    assert report.summary().splitlines()[0] == report.first_line
    assert len(report.first_line) <= 120
    assert f"**{escaped(report.first_line)}**" in markdown
    shown_there = entities.unescape(page)
    assert report.first_line in shown_there
    for row in rows(report):
        cells = [" ".join(cell.split()) for cell in row.cells]
        assert f"| {' | '.join(map(escaped, cells))} |" in markdown
        assert all(cell in shown_there for cell in cells)
    good = report.verdict.startswith("equivariant")
    assert good == (re.search(r'class="badge (\w+)"', page)[1] == "holds") == markdown.startswith("## ✅")
    assert good == report.first_line.startswith("equivariant")
    row = re.search(r"\| 90° \| (.*?) \\\[", markdown)[1]
    mean = next(e for e in report.elements if e.label == "90°").judged.estimate.mean
    assert row == (f"{100 * mean:.3g} %" if mean >= 1e-4 else row)
