"""What continuous integration asks of a report: limits on errors and agreement, and that nothing got worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from equitangents.audit.report.findings import Findings
from equitangents.audit.report.numbers import FACTOR, Estimate, Standing, of, standing
from equitangents.audit.report.words import above, interval, listed, number, sets_said, signed
from equitangents.errors import InvalidArgumentError
from equitangents.file_limits import read_json
from equitangents.files import file_bytes

LEVEL = 0.05
"""How often a paired test may take chance for growth."""


@dataclass(frozen=True)
class Check:
    """One demand, and whether the report meets it."""

    name: str
    passed: bool
    said: str
    undecided: bool = False
    """Whether it is not met because the report does not decide it."""
    least: bool = False
    """Whether what it limits must not be smaller; otherwise it must not be larger."""


def below(report: Findings, limit: float) -> Check:
    """Whether the headline's mean error is at most `limit`, on the data and off them, and the report can tell."""
    name = f"mean relative error ≤ {limit:g}"
    if report.unscaled and report.doubt is not None and report.doubt.cause == "vanishing":
        return Check(name, False, f"all outputs vanish{_NO_SIZE}", True)
    headline, error = report.shown, report.shown.error.estimate.mean
    found, by = headline.standing(limit)
    if found == "above" or (_tolerated(report, limit) and report.verdict == "broken"):
        return Check(name, False, f"mean relative error {by.mean:.3g} {_beside(by.mean, limit)}, {report.unit_said}")
    elsewhere = above(report.sets, limit)
    if elsewhere:
        return Check(name, False, f"mean relative error {sets_said(elsewhere, report.unit_said)} > {limit:g}")
    open_ = _open(report, found, by, headline.floor, limit)
    if not open_ and _tolerated(report, limit) and report.doubt is not None:
        open_ = report.doubt.said
    rounding = "" if by == headline.error.estimate else f", {by.mean:.3g} without rounding"
    return Check(name, False, open_, True) if open_ else Check(name, True, f"{error:.3g}{rounding}, {report.unit_said}")


_NO_SIZE = ", which shows no symmetry; --output-scale gives a size to judge them against"


def _tolerated(report: Findings, limit: float) -> bool:
    """Whether the report judged by a tolerance that is no less strict: what does not keep it keeps no such limit."""
    tolerance = report.shown.tolerance
    return tolerance is not None and limit <= tolerance


def _beside(error: float, limit: float) -> str:
    return f"> {limit:g}" if error > limit else f"is not within the tolerance under every element, so not ≤ {limit:g}"


def _open(report: Findings, found: Standing, error: Estimate, floor: float, limit: float) -> str:
    """Why an error that is not above a limit does not show that the limit is kept; "" where it does."""
    if report.undefined:
        return f"NaN or infinite values for inputs moved by {listed([u.label for u in report.undefined])}"
    doubt = report.doubt
    if doubt is not None and doubt.cause in ("constant", "spread", "inputs"):
        return doubt.said
    if found != "open":
        return ""
    if not FACTOR * floor <= limit:
        said = f"the floor {number(floor)} hides up to {number(FACTOR * floor)}, more than the limit {number(limit)}"
        return said if doubt is None or doubt.cause == "interval" else f"{said}: {doubt.said}"
    return (
        f"the interval of the mean error, {interval(error)}, holds the limit {number(limit)}; more inputs would decide"
    )


def each_below(report: Findings, limits: Mapping[str, float]) -> list[Check]:
    """Whether outputs are below limits of their own: by the output's name, or "invariant" or an action's name for all
    outputs that should move so.
    """
    found = []
    for name, limit in limits.items():
        outputs = [o for o in report.contract.outputs if name in (o.name, o.action, *_kinds(o.action))]
        if not outputs:
            known = [part for o in report.contract.outputs for part in (o.name, o.action)]
            raise InvalidArgumentError(f"fail_above names {name!r}; the outputs are {', '.join(dict.fromkeys(known))}")
        for o in outputs:
            error, floor = o.shown.mean, o.floor or 0.0
            stands = standing(o.shown, floor, limit)
            said = f"mean relative error {error:.3g} {'>' if stands == 'above' else '≤'} {limit:g}"
            said = f"{said}, {report.unit_said_of(o)}"
            open_ = "" if stands == "above" else _open(report, stands, o.shown, floor, limit)
            if o.vanishes and o.scale is None:
                open_ = f"all of it vanishes{_NO_SIZE}"
            passed = stands == "within" and not open_
            found.append(Check(f"output {o.name} ≤ {limit:g}", passed, f"{o.name}: {open_ or said}", bool(open_)))
    return found


_ALSO = {"permutation": ("labels",), "sets": ("unordered",)}
"""What the kinds of some actions are called on the command line."""


def _kinds(action: str) -> list[str]:
    """The words by which outputs of an action can be named: "vectors", "4x0e+2x1o", "labels"."""
    words = [word.strip("()") for word in action.split(" ")]
    return [*words, *_ALSO.get(words[0], ())]


def agrees(report: Findings, least: float) -> Check:
    """Whether moved inputs keep their predicted class in at least this share of cases."""
    same = report.orbit.same_predictions
    if same is None:
        raise InvalidArgumentError(f"min_agreement is {least:g}, but the outputs of {report.model.name} are no classes")
    if report.orbit.answers == 1:
        said = "every input, moved or not, has the same predicted class, which shows no agreement"
        return Check(
            f"agreement ≥ {least:g}", False, f"{said}; inputs of several classes would decide", True, least=True
        )
    passed = bool(same.mean >= least)
    said = f"same prediction in {number(same.mean)} of cases, {'at least' if passed else 'below'} {number(least)}"
    return Check(f"agreement ≥ {least:g}", passed, said, least=True)


def no_worse(report: Findings, baseline: Path) -> Check:
    """Whether errors of the same inputs did not grow in any unit that a headline may have.

    By paired one-sided t-tests, which together take chance for growth in at most `LEVEL` of cases; below the floor
    nothing grows.
    """
    old = read_baseline(baseline)
    if old.get("inputs_digest") != report.inputs_digest or len(old["input_errors"]) != len(report.input_errors):
        raise InvalidArgumentError(
            f"baseline is {str(baseline)!r}, an audit of other inputs or another group; a paired test needs the same"
        )
    now, before = report.errors_by_unit, old["errors_by_unit"]
    units = [unit for unit in now if unit in before]
    found = [_compared(unit, now[unit], before[unit], _floor_in(report, unit), len(units)) for unit in units]
    n = max((count for _, _, count in found), default=0)
    if n < 2:
        raise InvalidArgumentError(f"baseline is {str(baseline)!r}; a paired test needs at least 2 inputs")
    worse = any(grew for _, grew, _ in found)
    said = f"error {'; '.join(words for words, _, _ in found)}"
    said += f": {'worse' if worse else 'not worse'} by a paired test of {n} inputs"
    return Check(f"no worse than {baseline.name}", not worse, said + _other_units(report, old))


_UNITS = {"labels": "as the share of predicted classes that change"}


def _compared(
    unit: str, now: Sequence[float], before: Sequence[float], floor: float, tests: int
) -> tuple[str, bool, int]:
    """(what changed with its interval, whether it grew, inputs) in one unit."""
    a, b = np.array(now, float), np.array(before, float)
    known = np.isfinite(a) & np.isfinite(b)
    d, n = (a - b)[known], int(known.sum())
    if n < 2:
        return "", False, n
    change, half = float(d.mean()), float(-stdtrit(n - 1, LEVEL / 2) * d.std(ddof=1) / math.sqrt(n))
    mean_now, mean_before = float(a[known].mean()), float(b[known].mean())
    moved = f"changed by {signed(change)} [{signed(change - half)}, {signed(change + half)}]"
    words = f"{_UNITS.get(unit) or of(unit)} {number(mean_before)} before, {number(mean_now)} now ({moved})"
    return words, grown(d) <= LEVEL / tests and mean_now > FACTOR * floor, n


def _floor_in(report: Findings, unit: str) -> float:
    """The mean floor in a unit; of labels none."""
    headline = report.shown
    if unit == headline.unit:
        return headline.floor
    return {"norm": report.floor, "spread": report.relative.floor_by_spread or 0.0}.get(unit, 0.0)


def _other_units(report: Findings, old: Mapping[str, Any]) -> str:
    """A line: the headline's unit is another than before, and a baseline of an earlier version holds one alone."""
    was, unit = (old.get("headline") or {}).get("unit"), report.shown.unit
    said = "" if was in (None, unit) else f"; the first sentence was told {of(was)}, and is now {of(unit)}"
    left = [of(u) if u not in _UNITS else _UNITS[u] for u in report.errors_by_unit if u not in old["errors_by_unit"]]
    if left:
        said += f"; the baseline has no errors {', '.join(left)}: write it anew with --json to compare these"
    return said


def grown(d: np.ndarray) -> float:
    """p-value of a one-sided t-test of differences: that their mean is not above 0."""
    d = np.asarray(d, np.float64)
    d = d[np.isfinite(d)]
    if len(d) < 2:
        return 1.0
    change, spread = float(d.mean()), float(d.std(ddof=1)) / math.sqrt(len(d))
    if spread == 0:
        return 0.0 if change > 0 else 1.0
    return float(stdtr(len(d) - 1, -change / spread))


def read_report(path: Path) -> Any:
    """What the JSON of an earlier report holds; InvalidArgumentError if it cannot be read."""
    try:
        return read_json(file_bytes(path))
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"baseline is {str(path)!r}, which cannot be read: {error}") from None


def read_baseline(path: Path) -> dict[str, Any]:
    """An earlier report as `to_json` wrote it; InvalidArgumentError if it is not one, or lacks the errors of inputs."""
    found = read_report(path)
    if not isinstance(found, dict) or "input_errors" not in found or not found["input_errors"]:
        raise InvalidArgumentError(
            f"baseline is {str(path)!r}, which has no errors of single inputs; write it anew with --json"
        )
    by_unit = found.get("errors_by_unit") or {"norm": found["input_errors"]}  # of format 1 in one unit alone
    for name, errors in (("input_errors", found["input_errors"]), *by_unit.items()):
        if not isinstance(errors, list) or not all(e is None or type(e) in (int, float) for e in errors):
            raise InvalidArgumentError(f"baseline is {str(path)!r}, whose {name} are no list of numbers")
    known = lambda errors: [math.nan if e is None else e for e in errors]
    found["input_errors"] = known(found["input_errors"])
    found["errors_by_unit"] = {unit: known(errors) for unit, errors in by_unit.items()}
    return found
