"""From a judgement to a verdict: is every error explained by its floor, or within the tolerance?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equitangents.audit.measure.floors import UNINFORMATIVE, Floors
from equitangents.audit.report.result import Verdict
from equitangents.report.verdict import format_number

if TYPE_CHECKING:
    from equitangents.audit.measure.judge import Judgement

NEARLY = 0.1
"""Up to here a violation is told by what it is within."""


def decide(judgement: Judgement, floors: Floors) -> Verdict:
    """ "broken" if some output fails under some element, "equivariant" (or "stochastic") if all are at their floors.

    With a tolerance, violations up to it are "equivariant within tolerance", and only those beyond it "broken".
    """
    headline = judgement.headline
    if judgement.scales.nothing:  # exact zeros everywhere need no scale
        return "undecided" if headline.error.worst > 0 else "equivariant"
    hidden = headline.tolerance is not None and headline.floor > headline.tolerance
    if judgement.at_floor.all() and floors.deterministic and not hidden:
        return "equivariant" if headline.floor <= UNINFORMATIVE else "undecided"
    if judgement.within:
        return "equivariant within tolerance"
    if judgement.above.any():
        return "broken"
    if judgement.at_floor.all() and not floors.deterministic:
        return "stochastic"
    return "undecided"


def number(value: float) -> str:
    """A relative error: per cent from 0.01 % on, powers of ten below; ∞ if it is infinite."""
    return f"{100 * value:.3g} %" if 1e-4 <= value < 1e4 else format_number(value)


def badge(verdict: Verdict, bound: float, tolerance: float | None) -> tuple[str, str, str]:
    """(colour class, sign, words) of a verdict, for pages and Markdown alike."""
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
    """ "1 %"."""
    return number(tolerance or 0.0)
