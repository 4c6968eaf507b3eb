"""First line and exit status go by one decision of (mean error, its interval, floor, limit)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from audit.verdict_cases import IMAGES, invariant
from equitangents.audit import assemble
from equitangents.audit.measure.judge import compared, decide, kept, reason
from equitangents.audit.parts import measure_parts
from equitangents.audit.report.checks import below
from equitangents.audit.report.numbers import Estimate, Spread, standing
from equitangents.audit.report.rows import STATES
from equitangents.audit.report.sections import DECIDES, REASONS
from equitangents.cli.audit import ABOVE, finish

QUIET = {"off_data": False, "data_test": None, "layers": False, "resamples": 100}
SIZES = st.one_of(st.floats(0, 1), st.floats(-6, 0).map(lambda e: 10.0**e), st.just(0.0))
EDGES = st.tuples(SIZES, SIZES, SIZES).map(sorted)
GREEN = ("equivariant", "equivariant within tolerance")


@cache
def audited():
    """(the report of an exact model, what was measured of it)."""
    seen = []

    def seeing(m, bench):
        seen.append(m)
        return measure_parts(m, bench)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "measure_parts", seeing)
        return et.audit(invariant, "C4", IMAGES, **QUIET), seen[-1]


def judged(interval, floor, share, tolerance):
    """The report of one element whose mean error, interval and floor are these, with its first line."""
    report, m = audited()
    judgement = m.judgement
    low, mean, high = interval
    error = Spread(Estimate(mean, low, high), low, low, mean, high, high, high)
    headline = replace(
        judgement.headline, error=error, bound=high, floor=floor, rounding=share * floor, tolerance=tolerance
    )
    at_floor, above = compared(error, floor, tolerance)
    told = replace(
        judgement,
        headline=headline,
        at_floor=np.full((1, 3), at_floor),
        above=np.full((1, 3), above),
        within=kept(error, headline),
    )
    verdict = decide(told, m.floors)
    return replace(report, verdict=verdict, headline=headline, reason=reason(told, m.floors, verdict))


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
        check, colour = below(report, limit), STATES[verdict]
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
    nan, one = math.nan, Estimate(0.1, 0.1, 0.1)
    assert standing(Estimate(nan, nan, nan), 0.0, 1.0) == "open"
    assert standing(Estimate(nan, 0.0, 0.0), 0.0, 1.0) == "open"
    assert standing(one, nan, 1.0) == "open"
    assert standing(one, nan) == "open"
    assert standing(one, 0.0, nan) == "open"
    assert standing(Estimate(math.inf, math.inf, math.inf), 0.0, 1.0) == "above"
