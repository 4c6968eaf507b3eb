"""Numbers, lists and verdicts in the words of reports."""

from __future__ import annotations

import math

from equitangents.audit.report.findings import Verdict
from equitangents.audit.report.sections import Estimate, Headline, OutputContract
from equitangents.report.verdict import format_number

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


def badge(verdict: Verdict, headline: Headline) -> tuple[str, str, str]:
    """(colour class, sign, words) of a verdict, for pages and Markdown alike."""
    tolerance, bound = headline.tolerance, within(headline)
    if verdict == "equivariant within tolerance":
        return "holds", "✓", f"Within {tolerance_said(tolerance)}"
    if verdict == "broken":
        if tolerance is not None:
            return "fails", "✗", f"Not within {tolerance_said(tolerance)}"
        nearly = bound <= NEARLY
        return ("undecided", "≈", f"Within {number(bound)}, not exactly") if nearly else ("fails", "✗", "Broken")
    return {
        "equivariant": ("holds", "✓", "At the floor"),
        "stochastic": ("undecided", "≈", "Random"),
        "undecided": ("undecided", "?", "Not decidable with this sample"),
    }[verdict]


def tolerance_said(tolerance: float | None) -> str:
    """The tolerance as a percentage, "1 %"."""
    return number(tolerance or 0.0)


def of(unit: str) -> str:
    """What a percentage is of."""
    return {
        "norm": "of ‖f(x)‖",
        "spread": "of the spread between inputs",
        "absolute": "of output_scale",
        "classes": "of cases",
        "probability": "of probability",
        "share": "as a share of pixels or boxes",
    }[unit]


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
