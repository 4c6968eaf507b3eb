"""What continuous integration asks of a report: limits on errors and agreement, and that nothing got worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr

from equitangents.audit.report.numbers import FACTOR, UNITS, Standing, interval, number, standing
from equitangents.audit.report.rows import above
from equitangents.audit.report.sections import DECIDES, REASONS, Reason
from equitangents.errors import InvalidArgumentError
from equitangents.files import file_bytes
from equitangents.foreign_files import read_json
from equitangents.keywords import unknown

if TYPE_CHECKING:
    from equitangents.audit.report.findings import Findings

_REPORT = "an audit that --json wrote, with the errors of single inputs"
LEVEL = 0.05
"""How often a paired test may take chance for growth."""


@dataclass(frozen=True)
class Check:
    """One demand, and whether the report meets it."""

    name: str
    passed: bool
    value: str
    """What was found; where it is undecided, why and what would decide it."""
    undecided: bool = False
    """Whether it is not met because the report does not decide it."""


def below(report: Findings, limit: float) -> Check:
    """Whether the headline's mean error is at most `limit`, on the data and off them, and the report can tell."""
    name, headline = f"error ≤ {number(limit)}", report.headline
    if report.unscaled and report.reason == "vanishing":
        return _undecided(name, "vanishing")
    found, by = headline.standing(limit)
    value = f"{interval(by)} {report.unit}"
    if found == "above" or (_tolerated(report, limit) and report.verdict == "broken"):
        return Check(name, False, value)
    elsewhere = above(report.sets, limit)
    if elsewhere:
        return Check(name, False, f"off the data, {elsewhere[0].name}: {interval(elsewhere[0].judged)} {report.unit}")
    open_ = _open(report, found, headline.floor, limit)
    if open_ is None and _tolerated(report, limit) and report.verdict == "undecided":
        open_ = report.reason
    return Check(name, True, value) if open_ is None else _undecided(name, open_)


def _undecided(name: str, why: Reason) -> Check:
    return Check(name, False, "; ".join(filter(None, (REASONS[why], DECIDES.get(why)))), True)


def _tolerated(report: Findings, limit: float) -> bool:
    """Whether the report judged by a tolerance that is no less strict: what does not keep it keeps no such limit."""
    tolerance = report.headline.tolerance
    return tolerance is not None and limit <= tolerance


def _open(report: Findings, found: Standing, floor: float, limit: float) -> Reason | None:
    """Why an error that is not above a limit does not show that the limit is kept; None where it does."""
    if report.undefined:
        return "not finite"
    if report.reason in ("constant", "spread", "unmoved inputs"):
        return report.reason
    if found != "open":
        return None
    if FACTOR * floor <= limit:
        return "interval"
    return report.reason if report.reason in DECIDES and report.reason != "interval" else report.headline.hiding


def each_below(report: Findings, limits: Mapping[str, float]) -> list[Check]:
    """Whether outputs are below limits of their own: by the output's name, or "invariant" or an action's name for all
    outputs that should move so.
    """
    found = []
    for name, limit in limits.items():
        outputs = [o for o in report.contract.outputs if name in (o.name, o.action, *_kinds(o.action))]
        if not outputs:
            known = dict.fromkeys(part for o in report.contract.outputs for part in (o.name, o.action))
            raise unknown("fail_above", name, list(known))
        for o in outputs:
            stands = standing(o.judged, o.floor, limit)
            title = f"output {o.name} ≤ {number(limit)}"
            why = None if stands == "above" else _open(report, stands, o.floor, limit)
            why = "vanishing" if o.vanishes and o.scale is None else why
            value = f"{interval(o.judged)} {report.unit_of(o)}"
            found.append(Check(title, stands == "within", value) if why is None else _undecided(title, why))
    return found


_ALSO = {"permutation": ("labels",), "sets": ("unordered",)}
"""What the kinds of some actions are called on the command line."""


def _kinds(action: str) -> list[str]:
    """The words by which outputs of an action can be named: "vectors", "4x0e+2x1o", "labels"."""
    words = [word.strip("()") for word in action.split(" ")]
    return [*words, *_ALSO.get(words[0], ())]


def agrees(report: Findings, least: float) -> Check:
    """Whether moved inputs keep their predicted class in at least this share of cases."""
    same, name = report.orbit.same_predictions, f"agreement ≥ {number(least)}"
    if same is None:
        raise InvalidArgumentError("min_agreement", least, "outputs that are classes")
    if report.orbit.answers == 1:
        return Check(name, False, "one class for all inputs, moved or not; inputs of several classes", True)
    return Check(name, bool(same.mean >= least), f"{number(same.mean)} {UNITS['classes']}")


def no_worse(report: Findings, baseline: Path) -> Check:
    """Whether errors of the same inputs did not grow in any unit that a headline may have.

    By paired one-sided t-tests, which together take chance for growth in at most `LEVEL` of cases; below the floor
    nothing grows.
    """
    old = read_baseline(baseline)
    if old.get("inputs_digest") != report.inputs_digest or len(old["input_errors"]) != len(report.input_errors):
        raise InvalidArgumentError("baseline", str(baseline), "an audit of the same inputs and group")
    now, before = report.errors_by_unit, old["errors_by_unit"]
    pairs = {unit: _both_known(now[unit], before[unit]) for unit in now if unit in before}
    if max((a.shape[1] for a in pairs.values()), default=0) < 2:
        raise InvalidArgumentError("baseline", str(baseline), remedy="a paired test needs at least 2 inputs")
    worse = [u for u, (a, b) in pairs.items() if _grown(a - b) <= LEVEL / len(pairs) and a.mean() > _hidden(report, u)]
    unit = (worse or [u for u in pairs if pairs[u].shape[1]])[0]
    was, found = (number(float(errors.mean())) for errors in pairs[unit][::-1])
    return Check(f"no worse than {baseline.name}", not worse, f"{was} before, {found} now, {UNITS.get(unit, unit)}")


def _both_known(now: Sequence[float], before: Sequence[float]) -> np.ndarray:
    """(2, inputs): the errors of those inputs that have one in both reports."""
    both = np.array([now, before], np.float64)
    return both[:, np.isfinite(both).all(axis=0)]


def _hidden(report: Findings, unit: str) -> float:
    """The error up to which the mean floor in a unit explains it; of labels none."""
    headline = report.headline
    floors = {"norm": report.floor, "spread": report.relative.floor_by_spread or 0.0, headline.unit: headline.floor}
    return FACTOR * floors.get(unit, 0.0)


def _grown(d: np.ndarray) -> float:
    """p-value of a one-sided t-test of differences: that their mean is not above 0."""
    if len(d) < 2:
        return 1.0
    change, deviation = float(d.mean()), float(d.std(ddof=1)) / math.sqrt(len(d))
    if deviation == 0:
        return 0.0 if change > 0 else 1.0
    return float(stdtr(len(d) - 1, -change / deviation))


def read_report(path: Path) -> Any:
    """What the JSON of an earlier report holds; InvalidArgumentError if it cannot be read."""
    try:
        return read_json(file_bytes(path))
    except (OSError, ValueError) as error:
        raise InvalidArgumentError("baseline", str(path), "a report that can be read", str(error)) from None


def read_baseline(path: Path) -> dict[str, Any]:
    """An earlier report as `to_json` wrote it; InvalidArgumentError if it is not one, or lacks the errors of inputs."""
    found = read_report(path)
    single, by_unit = (
        found.get(name) if isinstance(found, dict) else None for name in ("input_errors", "errors_by_unit")
    )
    if not isinstance(single, list) or not isinstance(by_unit, dict) or not single or not by_unit:
        raise InvalidArgumentError("baseline", str(path), _REPORT)
    for errors in (single, *by_unit.values()):
        numbers = isinstance(errors, list) and all(e is None or type(e) in (int, float) for e in errors)
        if not numbers or len(errors) != len(single):
            raise InvalidArgumentError("baseline", str(path), _REPORT)
    known = lambda errors: [math.nan if e is None else e for e in errors]
    found["input_errors"] = known(single)
    found["errors_by_unit"] = {unit: known(errors) for unit, errors in by_unit.items()}
    return found
