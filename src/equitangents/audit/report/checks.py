"""Checks for continuous integration: limits on errors and agreement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from equitangents.audit.report.numbers import FACTOR, UNITS, Standing, interval, number, standing
from equitangents.audit.report.rows import above
from equitangents.audit.report.sections import DECIDES, REASONS, Findings, Reason
from equitangents.errors import InvalidArgumentError
from equitangents.keywords import unknown


@dataclass(frozen=True)
class Check:
    """One limit, and whether the report meets it."""

    name: str
    passed: bool
    value: str
    """The measured value; for an undecided check, why and what would decide it."""
    undecided: bool = False
    """Whether it is not met because the report is undecided."""


def below(report: Findings, limit: float) -> Check:
    """Whether the headline's mean error is known to be at most `limit`, on the data and off it."""
    name, headline = f"error ≤ {number(limit)}", report.headline
    if report.unscaled and report.reason == "vanishing":
        return _undecided(name, "vanishing")
    stands, by = headline.standing(limit)
    value = f"{interval(by)} {report.unit}"
    if stands == "above" or (_tolerated(report, limit) and report.verdict == "broken"):
        return Check(name, False, value)
    elsewhere = above(report.sets, limit)
    if elsewhere:
        return Check(name, False, f"off the data, {elsewhere[0].name}: {interval(elsewhere[0].judged)} {report.unit}")
    open_ = _open(report, stands, headline.floor, limit)
    if open_ is None and _tolerated(report, limit) and report.verdict == "undecided":
        open_ = report.reason
    return Check(name, True, value) if open_ is None else _undecided(name, open_)


def _undecided(name: str, why: Reason) -> Check:
    return Check(name, False, "; ".join(filter(None, (REASONS[why], DECIDES.get(why)))), True)


def _tolerated(report: Findings, limit: float) -> bool:
    """Whether the report used a tolerance at least as large as the limit."""
    tolerance = report.headline.tolerance
    return tolerance is not None and limit <= tolerance


def _open(report: Findings, stands: Standing, floor: float, limit: float) -> Reason | None:
    """Why an error not above a limit is undecided; None if it is below the limit."""
    if report.undefined:
        return "not finite"
    if report.reason in ("constant", "spread", "unmoved inputs"):
        return report.reason
    if stands != "open":
        return None
    if FACTOR * floor <= limit:
        return "interval"
    return report.reason if report.reason in DECIDES and report.reason != "interval" else report.headline.hiding


def each_below(report: Findings, limits: Mapping[str, float]) -> list[Check]:
    """Whether outputs are below limits of their own: by the output's name, or by that of the action, "invariant"."""
    checks = []
    for name, limit in limits.items():
        outputs = [o for o in report.contract.outputs if name in (o.name, o.action)]
        if not outputs:
            known = dict.fromkeys(part for o in report.contract.outputs for part in (o.name, o.action))
            raise unknown("fail_above", name, list(known))
        for o in outputs:
            stands = standing(o.judged, o.floor, limit)
            title = f"output {o.name} ≤ {number(limit)}"
            why = None if stands == "above" else _open(report, stands, o.floor, limit)
            why = "vanishing" if o.vanishes and o.scale is None else why
            value = f"{interval(o.judged)} {report.unit_of(o)}"
            checks.append(Check(title, stands == "within", value) if why is None else _undecided(title, why))
    return checks


def agrees(report: Findings, least: float) -> Check:
    """Whether moved inputs keep their predicted class in at least this share of cases."""
    same, name = report.orbit.same_predictions, f"agreement ≥ {number(least)}"
    if same is None:
        raise InvalidArgumentError("min_agreement", least, "outputs that are classes")
    if report.orbit.answers == 1:
        return Check(name, False, "one class for all inputs, moved or not; inputs of several classes", True)
    return Check(name, bool(same.mean >= least), f"{number(same.mean)} {UNITS['classes']}")
