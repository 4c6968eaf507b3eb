"""From numbers to verdicts. A claim holds if its whole interval meets the criterion, fails if all of it misses."""

from __future__ import annotations

import math
from collections.abc import Mapping

from equitangents.errors import InvalidArgumentError
from equitangents.report.verdict import FAILS, HOLDS, UNDECIDED, Decision, Verdict, format_number
from equitangents.statistics import Estimate


def decide(estimate: Estimate, *, at_least: float = -math.inf, at_most: float = math.inf) -> Decision:
    """Compare an interval with bounds. Anything that is not a finite number cannot be decided.

    Example:
        >>> decide(Estimate(0.5, 0.4, 0.6), at_least=0.3)
        'holds'
        >>> decide(Estimate(0.5, 0.4, 0.6), at_least=0.45)
        'not decidable at this size'
    """
    if not all(map(math.isfinite, (estimate.value, estimate.low, estimate.high))):
        return UNDECIDED
    if at_least <= estimate.low and estimate.high <= at_most:
        return HOLDS
    if estimate.high < at_least or at_most < estimate.low:
        return FAILS
    return UNDECIDED


def judge(
    claim: str,
    estimates: Mapping[str, Estimate],
    *,
    measure: str,
    source: str,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    unit: str = "",
) -> Verdict:
    """The verdict on a claim about a family of numbers, each under its own label ("after 3 steps, noise").

    The claim holds if it holds for every member of the family, and fails if it fails for any. The number shown is the
    least favourable one, and the note says which that is.
    """
    if not estimates:
        raise InvalidArgumentError("estimates is empty; a claim needs at least one number")
    decisions = {label: decide(e, at_least=at_least, at_most=at_most) for label, e in estimates.items()}
    verdict: Decision = (
        FAILS if FAILS in decisions.values() else UNDECIDED if UNDECIDED in decisions.values() else HOLDS
    )
    candidates = [label for label, decision in decisions.items() if decision == verdict]
    label = min(candidates, key=lambda name: _margin(estimates[name], at_least, at_most))
    shown = estimates[label]
    note = "" if len(estimates) == 1 else f"Shown: the least favourable of {len(estimates)}, {label}."
    return Verdict(
        claim=claim,
        verdict=verdict,
        measure=measure,
        criterion=_criterion(at_least, at_most, unit) + ("" if len(estimates) == 1 else ", each"),
        value=shown.value,
        interval=shown.interval,
        source=source,
        level=shown.level,
        note=note,
        unit=unit,
    )


def _margin(estimate: Estimate, at_least: float, at_most: float) -> float:
    """How far inside the bounds the interval lies; negative outside, −∞ where it is not a number."""
    margins = [estimate.low - at_least, at_most - estimate.high]
    finite = [m for m in margins if math.isfinite(m)]
    return min(finite) if finite and math.isfinite(estimate.value) else -math.inf


def _criterion(at_least: float, at_most: float, unit: str) -> str:
    unit = f" {unit}" if unit else ""
    low, high = (format_number(x) if 0 < abs(x) < 1e-4 else f"{x:g}".replace("-", "−") for x in (at_least, at_most))
    if math.isinf(at_most):
        return f"at least {low}{unit}"
    if math.isinf(at_least):
        return f"at most {high}{unit}"
    return f"between {low} and {high}{unit}"


def say(verdict: Verdict, *, holds: str, fails: str, undecided: str) -> str:
    """The wording that belongs to the verdict."""
    return {HOLDS: holds, FAILS: fails, UNDECIDED: undecided}[verdict.verdict]
