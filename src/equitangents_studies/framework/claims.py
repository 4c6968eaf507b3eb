"""From numbers to verdicts. A claim holds if its whole interval meets the criterion, fails if all of it misses.

Everything that a report says of its outcome follows from here: `claim` joins a statement with its numbers, its bound
and what each verdict would mean; `lead` and `meaning` are read off the verdicts of all claims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from equitangents.errors import InvalidArgumentError
from equitangents.report import (
    EXACT,
    FAILS,
    HOLDS,
    IN_ERRORS,
    P_VALUE,
    SINGLE,
    UNDECIDED,
    Decision,
    Verdict,
    format_number,
    plain_number,
)
from equitangents.statistics import Estimate
from equitangents_studies.framework.records import Records
from equitangents_studies.framework.wording import after

__all__ = [
    "EXACT", "IN_ERRORS", "P_VALUE", "SINGLE", "Claim", "Means", "Records", "after", "claim", "decide", "lead",
    "meaning",
]  # fmt: skip


@dataclass(frozen=True)
class Means:
    """What each outcome of a claim means for somebody who must choose: one sentence each, true in that case."""

    holds: str
    fails: str
    undecided: str = ""


@dataclass(frozen=True)
class Claim(Verdict):
    """A verdict, the numbers that led to it by their labels, and what it means."""

    numbers: Mapping[str, Estimate] = field(default_factory=dict)
    means: Means = Means("", "")

    @property
    def meaning(self) -> str:
        """The sentence that belongs to the verdict; empty if the claim carries none."""
        unsaid = f"This run does not decide whether this is so: “{self.claim}”." if self.means.holds else ""
        return {HOLDS: self.means.holds, FAILS: self.means.fails, UNDECIDED: self.means.undecided or unsaid}[
            self.verdict
        ]

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain values, with its meaning and every number of the family."""
        fields = {key: value for key, value in super().to_dict().items() if key not in ("numbers", "means")}
        family = {
            label: {"value": plain_number(e.value), "interval": [plain_number(end) for end in e.interval]}
            for label, e in self.numbers.items()
        }
        return {**fields, "meaning": self.meaning, "numbers": family}


def claim(
    statement: str,
    numbers: Mapping[str, Estimate] | Records,
    *,
    measure: str,
    covers: str,
    source: str,
    holds: str,
    fails: str,
    undecided: str = "",
    stated: str = "",
    at_least: float = -math.inf,
    at_most: float = math.inf,
    unit: str = "",
) -> Claim:
    """The verdict on `statement` about a family of numbers, each under its own label ("after 3 steps, noise").

    The claim holds if it holds for every member of the family, and fails if it fails for any. The number shown is the
    least favourable one, and the note says which that is. `covers` says what the intervals are over ("inputs",
    "members"); it is `EXACT` for numbers that no sampling enters, `IN_ERRORS` for those in units of their own standard
    error, `P_VALUE` for the result of a test, `SINGLE` for one random measurement without an interval, which decides
    nothing. `stated` is the source's own number, where there is one. `holds`, `fails` and `undecided` say what each
    verdict means for somebody who must choose: one sentence each, true in that case.

    Raises InvalidArgumentError for an empty family, and if `covers` is empty.
    """
    numbers = numbers.labelled() if isinstance(numbers, Records) else dict(numbers)
    if not numbers:
        raise InvalidArgumentError("numbers is empty; a claim needs at least one number")
    if not covers:
        raise InvalidArgumentError("covers is empty; a claim says what its interval is over, or EXACT, or SINGLE")
    decisions = {label: decide(e, at_least=at_least, at_most=at_most) for label, e in numbers.items()}
    verdict: Decision = (
        FAILS if FAILS in decisions.values() else UNDECIDED if UNDECIDED in decisions.values() else HOLDS
    )
    if covers == SINGLE:
        verdict = UNDECIDED
    candidates = [label for label, decision in decisions.items() if decision == verdict] or list(numbers)
    label = min(candidates, key=lambda name: _margin(numbers[name], at_least, at_most))
    shown, several = numbers[label], len(numbers) > 1
    return Claim(
        claim=statement,
        verdict=verdict,
        measure=measure,
        criterion=_criterion(at_least, at_most, unit) + (", each" if several else ""),
        value=shown.value,
        interval=shown.interval,
        source=source,
        level=shown.level,
        note=f"Shown: the least favourable of {len(numbers)}, {label}." if several else "",
        unit=unit,
        covers=covers,
        stated=stated,
        bounds=(at_least, at_most),
        numbers=numbers,
        means=Means(holds, fails, undecided),
    )


def decide(estimate: Estimate, *, at_least: float = -math.inf, at_most: float = math.inf) -> Decision:
    """Compare an interval with bounds. What is not finite, or has no interval, cannot be decided.

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


def lead(verdicts: Sequence[Verdict]) -> str:
    """One sentence on the outcome of all claims: how many hold, and which do not.

    Example:
        >>> from equitangents.statistics import exactly
        >>> numbers = {"here": exactly(0.5)}
        >>> said = {"measure": "", "covers": EXACT, "source": "", "holds": "", "fails": ""}
        >>> lead([claim("It is small", numbers, at_most=1, **said), claim("It is large", numbers, at_least=1, **said)])
        '1 of 2 claims holds; fails: “It is large”.'
    """
    named = lambda decision: ", ".join(f"“{v.claim}”" for v in verdicts if v.verdict == decision)
    held = sum(v.verdict == HOLDS for v in verdicts)
    parts = [f"{held} of {len(verdicts)} claims {'holds' if held == 1 else 'hold'}"]
    parts += [
        f"{word}: {named(decision)}"
        for word, decision in (("undecided", UNDECIDED), ("fails", FAILS))
        if named(decision)
    ]
    return "; ".join(parts) + "."


def meaning(verdicts: Sequence[Verdict]) -> list[str]:
    """A paragraph for every claim that says what its verdict means."""
    return [v.meaning for v in verdicts if isinstance(v, Claim) and v.meaning]


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
