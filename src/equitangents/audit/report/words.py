"""Numbers, lists, verdicts, rules and curves in the words of reports; each sentence follows from its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from equitangents.audit.report.numbers import Estimate, of, standing
from equitangents.audit.report.sections import (
    HOLDING,
    Headline,
    OutputContract,
    RuleResult,
    SetResult,
    StrengthResult,
    Verdict,
)
from equitangents.report.numbers import format_number

NEARLY = 0.1
"""Up to here a violation is told by what it is within."""
NAMED = 4
"""So many elements or outputs are named."""
WORSE = "makes the model worse at its task"
"""How a remedy's note begins whose task error rises."""
BETTER = "makes the model better at its task"
UNPRICED = "what it does to the task was not measured"


def number(value: float) -> str:
    """A relative error: per cent from 0.01 % on, powers of ten below; ∞ if it is infinite."""
    if 10 <= value < 1e4:
        return f"{100 * value:,.0f} %"
    return f"{100 * value:.3g} %" if 1e-4 <= value < 1e4 else format_number(value)


def signed(value: float) -> str:
    """A difference of relative errors, with its sign."""
    return f"{'−' if value < 0 else '+'}{number(abs(value))}"


def badge(verdict: Verdict, headline: Headline, sets: Sequence[SetResult] = ()) -> tuple[str, str, str]:
    """(colour class, sign, words) of a verdict and of the sets off the data, for pages and Markdown alike."""
    tolerance, bound = headline.tolerance, within(headline)
    alone = " on its data alone" if beyond(verdict, headline, sets) else ""
    if verdict == "equivariant on its data":
        return (
            "undecided",
            "≈",
            "On its data alone" if tolerance is None else f"Within {tolerance_said(tolerance)}{alone}",
        )
    if verdict == "equivariant within tolerance":
        return "holds", "✓", f"Within {tolerance_said(tolerance)}"
    if verdict == "broken":
        if tolerance is not None:
            return "fails", "✗", f"Not within {tolerance_said(tolerance)}"
        nearly = bound <= NEARLY
        return ("undecided", "≈", f"Within {number(bound)}{alone}, not exactly") if nearly else ("fails", "✗", "Broken")
    return {
        "equivariant": ("holds", "✓", "At the floor"),
        "stochastic": ("undecided", "≈", "Random"),
        "undecided": ("undecided", "?", "Not decidable with this sample"),
    }[verdict]


def beyond(verdict: Verdict, headline: Headline, sets: Sequence[SetResult]) -> list[SetResult]:
    """The sets off the data for which what the badge says of the data does not hold."""
    claimed = headline.tolerance
    if verdict == "broken":
        claimed = within(headline)
        if headline.tolerance is not None or not claimed <= NEARLY:
            return []
    elif verdict not in (*HOLDING, "equivariant on its data"):
        return []
    return above(sets, claimed)


def above(sets: Sequence[SetResult], limit: float | None) -> list[SetResult]:
    """The sets off the data whose error is above a limit, and above what their floors explain."""
    return [s for s in sets if s.kind != "data" and s.above and standing(s.shown, s.shown_floor, limit) == "above"]


def sets_said(sets: Sequence[SetResult], unit: str) -> str:
    """Each of these sets with its error: "on noise 112 % [108 %, 116 %] of the spread …, floor 1.2e-15 and on …"."""
    return " and ".join(f"on {s.name} {interval(s.shown)} {unit}, floor {number(s.shown_floor)}" for s in sets)


def tolerance_said(tolerance: float | None) -> str:
    """The tolerance as a percentage, "1 %"."""
    return number(tolerance or 0.0)


def share_of(e: Estimate, unit: str) -> str:
    """An error with its interval and what it is a share of; words where that vanishes for some inputs."""
    if math.isinf(e.mean):
        return f"of no bound relative to {of(unit).removeprefix('of ')}, which vanishes for some inputs"
    return f"{interval(e)} {of(unit)}"


def within(headline: Headline) -> float:
    """What the error is within: the mean's bound under every element, or, where single errors are large, the worst."""
    return headline.bound if headline.error.worst <= NEARLY else max(headline.bound, headline.error.worst)


def interval(e: Estimate) -> str:
    """A share with its interval, if there is one."""
    if not (math.isfinite(e.low) or math.isfinite(e.high)) or math.isnan(e.low) or math.isnan(e.high):
        return number(e.mean)
    return f"{number(e.mean)} [{number(e.low)}, {number(e.high)}]"


def matching_said(o: OutputContract) -> str:
    """What of a set was matched, missed and extra, after a comma; "" of other outputs."""
    if o.matching is None:
        return ""
    parts = [
        f"{number(e.mean)} {what}"
        for e, what in (
            (o.matching.iou, "IoU of matched boxes"),
            (o.matching.missed, "missed"),
            (o.matching.extra, "extra"),
        )
        if e is not None
    ]
    return f", {', '.join(parts)}" if parts else ""


def listed(names: list[str], most: int = NAMED) -> str:
    """ "a, b and c", or "a, b, c, d and 7 more"."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def rule_said(rule: RuleResult, several: bool = False) -> str:
    """One sentence: the rule and its error beside that of an invariant output, or that none was found."""
    output = f"output {rule.output}" if several and not rule.output.startswith("output") else rule.output
    error = "an unknown error" if rule.error is None else number(rule.error.mean)
    without = "an unknown error" if rule.invariant is None else number(rule.invariant.mean)
    of_what = f"{of(rule.unit)}, on {rule.tested_on} inputs"
    if rule.kind == "inverse":
        whose = f" of {output}" if several else ""
        return (
            f"The sign of the given action{whose} is wrong: with its inverse, {rule.rule}, the error is {error} in "
            f"place of {without} ({of_what})."
        )
    if rule.found:
        whose = f"{output[0].upper()}{output[1:]} is equivariant" if several else "Equivariant"
        to = "exactly" if rule.error is not None and rule.error.mean == 0 else f"to {error}"
        return f"{whose} {to} if {rule.rule}; as invariant {without} ({of_what} that did not fit this).{_labels(rule)}"
    if not rule.tried:
        return (
            f"No rule was found by which {output} moves: what was fitted does not respect the products of the group, "
            f"and the group moves nothing of its shape; as invariant {without} ({of_what})."
        )
    return (
        f"No rule was found by which {output} moves: of {len(rule.tried)} that were fitted on {rule.fitted_on} inputs "
        f"({listed(rule.tried)}) the best leaves {error}; as invariant {without} ({of_what} that did not fit them)."
    )


def _labels(rule: RuleResult) -> str:
    """How many predictions change places as the rule says, and by how much probabilities differ; "" without classes."""
    if rule.agreement is None:
        return ""
    differ = "" if rule.probability is None else f", probabilities differ by {number(rule.probability.mean)}"
    return f" Labels turn with the inputs: {number(rule.agreement.mean)} of predictions agree{differ}."


def by_hand(rule: RuleResult) -> str:
    """How to give a found rule the next time; "" where that needs "find"."""
    if not rule.found or rule.by_hand is None:
        return ""
    option = ""
    if rule.by_hand.startswith("equitangents.audit.Labels(["):
        rows = rule.by_hand.removeprefix("equitangents.audit.Labels(").removesuffix(")").replace(" ", "")
        option = f", on the command line --outputs labels:{rows.strip('[]').replace('],[', '/')}"
    elif rule.by_hand.startswith('"'):
        option = f", on the command line --outputs {rule.by_hand[1:-1]}"
    return f"by hand, for {rule.output}: output_action={rule.by_hand}{option}"


def curve_said(name: str, points: Sequence[StrengthResult], unit: str, tolerance: float | None) -> str:
    """Where the error is largest, at which strengths it is at its floor or within the tolerance, and predictions."""
    finite = [p for p in points if math.isfinite(p.error.mean)]
    worst = max(finite or points, key=lambda p: p.error.mean)
    if all(p.at_floor for p in points):
        return f"{name}: at the floor at every strength {_span(points)}"
    parts = [f"{name}: mean error {interval(worst.error)} {of(unit)} at {worst.strength:g}, where it is largest"]
    if tolerance is not None:
        parts.append(
            _where(points, lambda p: standing(p.error, p.floor, tolerance) == "within", f"within {number(tolerance)}")
        )
    parts.append(_where(points, lambda p: p.at_floor, "at the floor"))
    kept = [p for p in points if p.same_predictions is not None]
    if kept:
        least = min(kept, key=lambda p: p.same_predictions.mean if p.same_predictions is not None else 1.0)
        assert least.same_predictions is not None
        same = interval(least.same_predictions)
        parts.append(
            "all predictions stay the same at every strength"
            if least.same_predictions.mean == 1
            else f"{same} of predictions stay the same at {least.strength:g}, the fewest"
        )
    return "; ".join(parts)


def _where(points: Sequence[StrengthResult], holds: Callable[[StrengthResult], bool], said: str) -> str:
    """At which of the strengths something holds: runs of neighbours from their first to their last."""
    runs: list[list[StrengthResult]] = []
    last = -2
    for i, p in enumerate(points):
        if holds(p):
            if i == last + 1:
                runs[-1].append(p)
            else:
                runs.append([p])
            last = i
    if not runs:
        return f"{said} at no strength"
    return f"{said} {' and '.join(_span(run) for run in runs)}"


def _span(points: Sequence[StrengthResult]) -> str:
    if len(points) == 1:
        return f"at {points[0].strength:g}"
    return f"from {points[0].strength:g} to {points[-1].strength:g} ({len(points)} strengths)"
