"""What continuous integration asks of a report: limits on errors and agreement, and that nothing got worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr

from equitangents.audit.report.findings import Findings
from equitangents.audit.report.judged import headline_of, output_error, unit_of, unit_of_output, unscaled
from equitangents.audit.report.words import number
from equitangents.claims import read_json
from equitangents.errors import InvalidArgumentError

LEVEL = 0.05
"""How often a paired test may take chance for growth."""
FLOORS = 2.0
"""Errors below so many floors are no growth."""


@dataclass(frozen=True)
class Check:
    """One demand, and whether the report meets it."""

    name: str
    passed: bool
    said: str


def below(report: Findings, limit: float) -> Check:
    """Whether the headline's mean error is at most `limit`."""
    name = f"mean relative error ≤ {limit:g}"
    if unscaled(report) and report.verdict == "undecided":
        return Check(name, True, "all outputs vanish; --output-scale gives a size to judge them against")
    error = headline_of(report).error.estimate.mean
    if not error <= limit:
        return Check(name, False, f"mean relative error {error:.3g} > {limit:g}, {unit_of(report)}")
    return Check(name, True, f"{error:.3g}, {unit_of(report)}")


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
            error = output_error(o).mean
            unit = unit_of_output(o, report)
            said = f"mean relative error {error:.3g} {'≤' if error <= limit else '>'} {limit:g}, {unit}"
            found.append(Check(f"output {o.name} ≤ {limit:g}", bool(error <= limit), f"{o.name}: {said}"))
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
    passed = bool(same.mean >= least)
    said = f"same prediction in {number(same.mean)} of cases, {'at least' if passed else 'below'} {number(least)}"
    return Check(f"agreement ≥ {least:g}", passed, said)


def no_worse(report: Findings, baseline: Path) -> Check:
    """Whether errors of the same inputs did not grow, by a paired one-sided t-test; below the floor they do not."""
    old = read_baseline(baseline)
    now, before = np.array(report.input_errors, float), np.array(old["input_errors"], float)
    if old.get("inputs_digest") != report.inputs_digest or len(now) != len(before):
        raise InvalidArgumentError(
            f"baseline is {str(baseline)!r}, an audit of other inputs or another group; a paired test needs the same"
        )
    known = np.isfinite(now) & np.isfinite(before)
    d = (now - before)[known]
    name = f"no worse than {baseline.name}"
    if len(d) < 2:
        raise InvalidArgumentError(f"baseline is {str(baseline)!r}; a paired test needs at least 2 inputs")
    worse = grown(d) <= LEVEL and float(now[known].mean()) > FLOORS * report.floor
    said = f"mean error of ‖f(x)‖ {number(float(before[known].mean()))} before, {number(float(now[known].mean()))} now"
    return Check(name, not worse, f"{said}: {'worse' if worse else 'not worse'} by a paired test of {len(d)} inputs")


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


def read_baseline(path: Path) -> dict[str, Any]:
    """An earlier report as `to_json` wrote it; InvalidArgumentError if it is not one, or lacks the errors of inputs."""
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"baseline is {str(path)!r}, which cannot be read: {error}") from None
    if not isinstance(found, dict) or "input_errors" not in found or not found["input_errors"]:
        raise InvalidArgumentError(
            f"baseline is {str(path)!r}, which has no errors of single inputs; write it anew with --json"
        )
    errors = found["input_errors"]
    if not isinstance(errors, list) or not all(e is None or type(e) in (int, float) for e in errors):
        raise InvalidArgumentError(f"baseline is {str(path)!r}, whose input_errors are no list of numbers")
    found["input_errors"] = [math.nan if e is None else e for e in found["input_errors"]]
    return found
