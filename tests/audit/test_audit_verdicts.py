"""Verdicts: one decision by error, interval, floor and limit; on the data and off it; of models that round inside."""

from __future__ import annotations

import html as entities
import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from audit.verdict_cases import IMAGES, QUIET, WEIGHTS, features, invariant, literal, off_by, shown
from equitangents.audit import parts
from equitangents.audit.measure.judge import compared, decide, kept
from equitangents.audit.report.checks import agrees, below
from equitangents.audit.report.forms import escaped
from equitangents.audit.report.numbers import Distribution, MeanEstimate, standing
from equitangents.audit.report.rows import table
from equitangents.audit.report.sections import DECIDES, REASONS
from equitangents.cli.audit import ABOVE, finish
from equitangents.testing import assert_equivariant

RNG = np.random.default_rng(0)


def test_a_large_constant_part_does_not_make_a_model_equivariant() -> None:
    f = lambda x: 20 + features(x)
    by_norm, by_spread = literal(f, IMAGES)
    assert by_norm < 0.1 < 1 < by_spread
    report = et.audit(f, "C4", IMAGES, **QUIET)
    assert (report.headline.unit, report.headline.error.estimate.mean) == ("spread", pytest.approx(by_spread))
    assert report.error.estimate.mean == pytest.approx(by_norm), "the old number stays under its name"
    assert report.relative.error_by_spread.estimate.mean == pytest.approx(by_spread)
    beside = et.audit(lambda x: (f(x), np.ones((len(x), 2))), "C4", IMAGES, **QUIET)
    assert [o.unit for o in beside.contract.outputs] == ["spread", "norm"], "a constant has no spread"
    assert f"error {100 * by_spread:.3g} %" in report.first_line
    assert "of the spread, noise floor " in report.first_line
    assert shown(report, "error")[1].startswith(f"{100 * by_norm:.3g} %")


def test_the_headline_is_the_larger_of_both_unless_told() -> None:
    f = lambda x: features(x)[:, :1]  # of one output some values are small, and their relative errors large
    by_norm, by_spread = literal(f, IMAGES)
    assert by_norm > by_spread
    for told, unit, wanted in (("larger", "norm", by_norm), ("norm", "norm", by_norm), ("spread", "spread", by_spread)):
        headline = et.audit(f, "C4", IMAGES, relative_to=told, **QUIET).headline
        assert headline.unit == unit
        assert headline.error.estimate.mean == pytest.approx(wanted)


def test_errors_that_are_infinite_for_some_inputs_are_told_by_the_spread() -> None:
    report = et.audit(lambda x: np.maximum(x[:, 0, 0], 0), "C4", IMAGES, **QUIET)
    assert np.isinf(report.error.estimate.mean)
    assert report.headline.unit == "spread"
    assert np.isfinite(report.headline.error.worst)
    assert "∞" not in report.first_line
    assert "∞" in shown(report, "error")[1]


def test_one_input_and_a_constant_have_no_spread() -> None:
    one = et.audit(lambda x: features(x), "C4", IMAGES[:1], **QUIET)
    assert (one.headline.unit, one.relative.error_by_spread) == ("norm", None)
    assert one.verdict in ("broken", "undecided")
    constant = et.audit(lambda x: 0 * x[:, 0, 0] + 0.1, "C4", IMAGES, **QUIET)
    assert (constant.verdict, constant.reason, constant.headline.unit) == ("undecided", "constant", "norm")


def test_always_the_same_answer_shows_no_symmetry() -> None:
    numbers = et.audit(lambda x: np.full(len(x), 3), "C4", IMAGES, **QUIET)
    assert (numbers.verdict, numbers.reason) == ("undecided", "constant")
    scores = et.audit(lambda x: invariant(x) + np.array([9.0, 0, 0]), "C4", IMAGES, **QUIET)
    assert scores.verdict == "equivariant"
    check = agrees(scores, 0.95)
    assert (check.passed, check.undecided) == (False, True)
    assert agrees(et.audit(invariant, "C4", IMAGES, **QUIET), 0.95).passed


def test_a_violation_below_the_tolerance_is_equivariant_within_it() -> None:
    kept = et.audit(off_by(0.003), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert kept.verdict == "equivariant within tolerance"
    assert kept.first_line.startswith("equivariant within tolerance: error 0.3 %")
    assert shown(kept, "tolerance") == ["1 %"]
    halves = lambda x: (off_by(0.003)(x) + off_by(0.003)(np.rot90(x, 2, (1, 2)))) / 2  # exact under the half turn
    assert et.audit(halves, "C4", IMAGES, tolerance=0.01, **QUIET).verdict == "equivariant within tolerance"
    beyond = et.audit(off_by(0.03), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert (beyond.verdict, beyond.reason) == ("broken", "above the tolerance")
    near = et.audit(off_by(0.0094), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert (near.verdict, near.reason) == ("undecided", "interval")
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
    for row in table(report).rows:
        cells = [" ".join(cell.split()) for cell in row]
        assert f"| {' | '.join(map(escaped, cells))} |" in markdown
        assert all(cell in shown_there for cell in cells)
    good = report.verdict.startswith("equivariant")
    assert good == (re.search(r'class="badge (\w+)"', page)[1] == "holds") == markdown.startswith("## ✅")
    assert good == report.first_line.startswith("equivariant")


BORDERS = np.random.default_rng(5)
INNER = np.pad(BORDERS.normal(size=(24, 4, 4, 1)), ((0, 0), (2, 2), (2, 2), (0, 0)))
BORDER = BORDERS.normal(size=(8, 8, 1)) * np.pad(np.zeros((4, 4, 1)), ((2, 2), (2, 2), (0, 0)), constant_values=1.0)
RISING = np.arange(64.0).reshape(8, 8, 1)
OFF_DATA = {"layers": False, "resamples": 100}


def bordered(x: np.ndarray) -> np.ndarray:
    """Invariant on images with empty borders, and on no others."""
    return np.stack([x.sum((1, 2, 3)), (x**2).sum((1, 2, 3))], 1) + (x * BORDER).sum((1, 2, 3))[:, None] ** 2


def test_the_first_line_is_not_green_for_what_holds_on_the_data_alone():
    report = et.audit(bordered, "C4", INNER, **OFF_DATA)
    noise = next(s for s in report.sets if s.name == "noise")
    turned = np.array([bordered(np.rot90(INNER, k, (1, 2))) for k in range(4)])
    assert np.abs(turned - turned[0]).max() < 1e-12
    assert (report.verdict, report.reason) == ("equivariant on its data", "fails off the data")
    assert noise.above
    assert f"noise {100 * noise.judged.mean:.3g} %" in shown(report, "off the data")[0]
    assert report.to_dict()["verdict"] == "equivariant on its data"
    assert "equivariant on its data" in report.html()
    assert "❔" in report.to_markdown()
    check = below(report, 0.05)
    assert (check.passed, check.undecided) == (False, False)
    assert "off the data, noise" in check.value
    with pytest.raises(AssertionError, match="equivariant on its data"):
        assert_equivariant(bordered, "C4", INNER, off_data=True)
    alone = et.audit(bordered, "C4", INNER, off_data=False, **OFF_DATA)
    assert (alone.verdict, below(alone, 0.05).passed) == ("equivariant", True)


def test_a_tolerance_is_not_kept_by_a_model_that_breaks_it_off_the_data():
    slightly = lambda x: bordered(x) + 1e-4 * (x * RISING).sum((1, 2, 3))[:, None]
    report = et.audit(slightly, "C4", INNER, tolerance=0.05, **OFF_DATA)
    assert (report.verdict, shown(report, "tolerance")) == ("equivariant on its data", ["5 %"])
    nearly = et.audit(slightly, "C4", INNER, **OFF_DATA)
    assert nearly.verdict == "broken"
    assert not below(nearly, 0.05).passed


@pytest.mark.quick(1)
@pytest.mark.parametrize(("dtype", "centre"), [(np.float64, 0.0), (np.float32, 30.0), (np.float16, 0.0)])
def test_a_model_that_is_exact_everywhere_stays_green(dtype, centre):
    model = lambda x: invariant(x.astype(dtype)).astype(dtype) + dtype(centre)
    report = et.audit(model, "C4", IMAGES.astype(dtype), **OFF_DATA)
    assert report.verdict in ("equivariant", "undecided")
    assert not any(s.above for s in report.sets)
    smooth = lambda x: np.tanh(x.mean((1, 2)) @ WEIGHTS[:1].astype(dtype)) + dtype(centre)
    report = et.audit(smooth, "SO2", IMAGES[:20].astype(dtype), elements=6, **OFF_DATA)
    assert not any(s.above for s in report.sets)


SINGLE = RNG.normal(size=(64, 6, 6, 1)).astype(np.float32)
EVEN, ODD = RNG.normal(size=(2, 36, 3)) / 6


def network(x, share, dtype):
    """An invariant part, and an odd one in this share, computed in numbers of this type."""
    of = lambda x, w: jnp.tanh(jnp.asarray(x, dtype).reshape(len(x), -1) @ jnp.asarray(w, dtype))
    mean = lambda w: sum(of(jnp.rot90(jnp.asarray(x), k, (1, 2)), w) for k in range(4)) / 4
    return mean(EVEN) + jnp.asarray(share, dtype) * (of(x, ODD) - mean(ODD)) if share else mean(EVEN)


def grid(a, steps):
    return jnp.round(a * steps) / steps


KINDS = {
    "float16 inside": lambda x, c: network(x, c, jnp.float16).astype(jnp.float32),
    "bfloat16 inside": lambda x, c: network(x, c, jnp.bfloat16).astype(jnp.float32),
    "bfloat16": lambda x, c: network(x, c, jnp.bfloat16),
    "8 bits inside": lambda x, c: grid(network(grid(x, 32), c, jnp.float32), 128),
    "float32 above 100,000": lambda x, c: network(x, c, x.dtype) + jnp.asarray(1e5, x.dtype),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", KINDS)
def test_exact_networks_hold_and_broken_ones_do_not(kind):
    exact, broken = (et.audit(lambda x, c=c: KINDS[kind](x, c), "C4", SINGLE, **QUIET) for c in (0.0, 0.05))
    assert exact.verdict == "equivariant", exact.first_line
    assert broken.verdict == "broken", broken.first_line


SIZES = st.one_of(st.floats(0, 1), st.floats(-6, 0).map(lambda e: 10.0**e), st.just(0.0))
EDGES = st.tuples(SIZES, SIZES, SIZES).map(sorted)
GREEN = ("equivariant", "equivariant within tolerance")


@cache
def audited():
    """(the report of an exact model, what was measured of it)."""
    seen, found = [], parts.measure_parts

    def seeing(m, notes):
        seen.append(m)
        return found(m, notes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "measure_parts", seeing)
        return et.audit(invariant, "C4", IMAGES, **QUIET), seen[-1]


def judged(interval, floor, share, tolerance):
    """The report of one element whose mean error, interval and floor are these, with its first line."""
    report, m = audited()
    judgement = m.judgement
    low, mean, high = interval
    error = Distribution(MeanEstimate(mean, low, high), low, mean, high, high)
    changes = {"error": error, "bound": high, "floor": floor, "rounding": share * floor, "tolerance": tolerance}
    headline = replace(judgement.headline, **changes)
    at_floor, above = (np.full((1, 3), found) for found in compared(error, floor, tolerance))
    told = replace(judgement, headline=headline, at_floor=at_floor, above=above, within=kept(error, headline))
    verdict, reason = decide(told, m.floors)
    return replace(report, verdict=verdict, headline=headline, reason=reason)


def exit_status(report, check):
    """What the command line ends with."""
    try:
        finish(report, SimpleNamespace(html=None, json=None, markdown=None, junit=None), [check])
    except typer.Exit as ended:
        return ended.exit_code
    return 0


@pytest.mark.slow
@given(EDGES, SIZES, st.sampled_from([0.0, 1.0]), SIZES)
@settings(max_examples=100, deadline=None)
def test_line_and_exit_status_agree(interval, floor, share, limit):
    low, _, high = interval
    passes = high <= limit and 2 * floor <= limit
    fails = low > limit and low > 2 * floor
    for tolerance in (None, limit):
        report = judged(interval, floor, share, tolerance)
        verdict, line = report.verdict, report.first_line
        check, colour = below(report, limit), report.state
        assert (check.passed, check.undecided) == (passes, not passes and not fails), check
        assert exit_status(report, check) == (0 if passes else ABOVE)
        assert report.to_dict()["verdict"] == verdict
        assert len(line) <= 120
        assert report.reason in REASONS
        assert (verdict == "undecided") == (report.reason in DECIDES), "an open verdict says what would decide it"
        said = [line.startswith(word) for word in ("equivariant", "undecided", "broken")]
        assert said == [verdict in GREEN, verdict == "undecided", verdict == "broken"], line
        if tolerance is not None:
            assert (verdict in GREEN, colour == "holds") == (passes, passes), verdict
            assert (verdict == "broken", colour == "fails") == (fails, fails), verdict
        if verdict == "equivariant" or verdict == "undecided":
            assert check.passed or check.undecided, "what may be the floor is not above a limit"
        if verdict == "broken" and tolerance is None:
            assert low > 2 * floor
            assert below(report, high).passed
        if floor > limit / 2:
            assert not check.passed, f"hides up to {2 * floor}"


def test_nothing_stands_anywhere_where_a_number_is_missing():
    nan, one = math.nan, MeanEstimate(0.1, 0.1, 0.1)
    assert standing(MeanEstimate(nan, nan, nan), 0.0, 1.0) == "open"
    assert (standing(MeanEstimate(nan, 0.0, 0.0), 0.0, 1.0), standing(one, nan, 1.0)) == ("open", "open")
    assert (standing(one, nan), standing(one, 0.0, nan)) == ("open", "open")
    assert standing(MeanEstimate(math.inf, math.inf, math.inf), 0.0, 1.0) == "above"


def exceeds(error, limit, tests=1, confidence=0.95):
    return compared(error, 0.0, limit, tests, confidence)[1]


def error(mean, low, median=1.0):
    return Distribution(MeanEstimate(mean, low, 2 * mean - low), 0.0, median, 2.0, 3.0)


@pytest.mark.parametrize("tests", [1, 2, 60])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_lower_end_of_an_interval_that_holds_for_all_at_once(tests, confidence):
    """Of normal errors: as many standard errors below the mean as (1 − confidence) / 2 tests leaves on one side."""
    steps = scipy.stats.norm.isf((1 - confidence) / 2 / tests)
    one = error(1.0, 1 - 0.1 * scipy.stats.norm.isf((1 - confidence) / 2))
    assert exceeds(one, 1 - 0.1 * steps - 1e-9, tests, confidence)
    assert not exceeds(one, 1 - 0.1 * steps + 1e-9, tests, confidence)


def test_without_an_interval_it_is_the_median():
    assert exceeds(error(2.0, np.nan, median=1.0), 0.9)
    assert not exceeds(error(2.0, np.nan, median=1.0), 1.1)
