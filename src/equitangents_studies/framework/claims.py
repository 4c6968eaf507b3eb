"""From numbers to verdicts. A claim holds if its whole interval meets the criterion, fails if all of it misses.

All that a report says of its outcome follows from here: `claim` joins a statement with its numbers, its bound and what
each verdict would mean, `agreement` a number of ours with the source's own; `lead` is read off all verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
    Origin,
    Verdict,
    format_number,
)
from equitangents.statistics import Estimate
from equitangents_studies.framework.agreement import agreement
from equitangents_studies.framework.judging import checked, decide, further_of_all, in_words, meaning_of, plainly
from equitangents_studies.framework.records import Records
from equitangents_studies.framework.wording import after

__all__ = [
    "EXACT", "IN_ERRORS", "P_VALUE", "SINGLE", "Claim", "Records", "after", "agreement", "claim", "decide", "lead",
]  # fmt: skip

Claim = Verdict


def claim(
    statement: str,
    numbers: Mapping[str, Estimate] | Records,
    *,
    measure: str,
    covers: str,
    origin: Origin,
    source: str,
    holds: str,
    fails: str,
    undecided: str = "",
    place: str = "",
    stated: str = "",
    at_least: float = -math.inf,
    at_most: float = math.inf,
    unit: str = "",
    aggregate: tuple[str, Estimate] | None = None,
    repeated: int | None = None,
    why: str = "",
) -> Claim:
    """The verdict on `statement` about a family of numbers, each under its own label ("after 3 steps, noise").

    With `aggregate`, a label and a number ("the mean over sets"), the verdict is on that number, and the least
    favourable of the family is named beside it. Without it the claim is about each: it holds if it holds for every
    member of the family, fails if it fails for any, and shows the least favourable one.

    `origin` is whose claim it is: "source", then with the `place` where the work says so ("Table 1"); "ours", a
    question of our own; "check", an identity that our code obeys. `covers` says what the intervals are over ("inputs",
    "members"); it is `EXACT` for numbers that no sampling enters, `IN_ERRORS` for those in units of their own standard
    error, `P_VALUE` for the result of a test, `SINGLE` for one random measurement without an interval, which decides
    nothing. `repeated` is how many of what `covers` names were measured: an undecided claim then says how many more
    would decide it. `stated` is the source's own number, where there is one. `holds`, `fails` and `undecided` say what
    each verdict means for somebody who must choose: one sentence each, true in that case; `why` gives the experiment
    that says why a source's claim fails.

    Raises InvalidArgumentError for an empty family, if `covers` is empty, for another origin, for a source's claim
    without its place, and for fewer than one repetition.
    """
    numbers = numbers.labelled() if isinstance(numbers, Records) else dict(numbers)
    if not numbers:
        raise InvalidArgumentError("numbers is empty; a claim needs at least one number")
    checked(covers, origin, place, repeated)
    judged = {aggregate[0]: aggregate[1]} if aggregate is not None else numbers
    decisions = {label: decide(e, at_least=at_least, at_most=at_most) for label, e in judged.items()}
    verdict: Decision = (
        FAILS if FAILS in decisions.values() else UNDECIDED if UNDECIDED in decisions.values() else HOLDS
    )
    if covers == SINGLE:
        verdict = UNDECIDED
    least = lambda labels: min(labels, key=lambda name: _margin(numbers[name], at_least, at_most))
    if aggregate is not None:
        (label, shown), worst = aggregate, least(numbers)
        note = f"Shown: {label}. The least favourable of {len(numbers)} is {worst}: {in_words(numbers[worst])}."
        criterion = _criterion(at_least, at_most, unit)
    else:
        label = least([label for label, decision in decisions.items() if decision == verdict] or list(numbers))
        shown, several = numbers[label], len(numbers) > 1
        note = f"Shown: the least favourable of {len(numbers)}, {label}." if several else ""
        criterion = _criterion(at_least, at_most, unit) + (", each" if several else "")
    return Verdict(
        claim=statement,
        verdict=verdict,
        measure=measure,
        criterion=criterion,
        value=shown.value,
        interval=shown.interval,
        source=source,
        level=shown.level,
        note=note,
        unit=unit,
        covers=covers,
        stated=stated,
        bounds=(at_least, at_most),
        origin=origin,
        place=place,
        meaning=meaning_of(verdict, statement, (holds, fails, undecided)),
        why=why if verdict == FAILS else "",
        numbers=numbers,
        aggregate="" if aggregate is None else label,
        repeated=repeated,
        further=further_of_all(judged, at_least, at_most, repeated) if verdict == UNDECIDED else None,
    )


def lead(verdicts: Sequence[Verdict], named: bool = True) -> str:
    """One sentence on how the source's claims came out: how many hold or agree; `named`, which do not, else how many.

    Where no claim is a source's, it is what the first answer to a question of ours means. A check that fails is always
    named.

    Example:
        >>> from equitangents.statistics import exactly
        >>> numbers = {"here": exactly(0.5)}
        >>> said = {"measure": "", "covers": EXACT, "origin": "source", "source": "", "place": "Table 1"}
        >>> said |= {"holds": "", "fails": ""}
        >>> lead([claim("It is small", numbers, at_most=1, **said), claim("It is large", numbers, at_least=1, **said)])
        '1 of 2 claims of the source holds; fails: “It is large”.'
    """
    theirs = [v for v in verdicts if v.origin == "source"]
    met = [_met(theirs, kind) for kind in ("claim", "number")]
    missed = sorted((v for v in theirs if v.verdict != HOLDS), key=lambda v: v.verdict == FAILS)
    if theirs and named:
        each = {v.outcome: [f"“{w.claim}”" for w in missed if w.outcome == v.outcome] for v in missed}
        rest = "".join(f"; {outcome}: {', '.join(claims)}" for outcome, claims in each.items())
    else:
        failing = sum(v.verdict == FAILS for v in missed)
        open_ = len(missed) - failing
        rest = f", {open_} {'is' if open_ == 1 else 'are'} undecided" if open_ else ""
        rest += f", {failing} {'does' if failing == 1 else 'do'} not" if failing else ""
    answers = [v.meaning for v in verdicts if v.origin == "ours" and v.meaning]
    without = answers[0] if answers else "This run tests no claim of a source."
    said = ", ".join(part for part in met if part) + rest + "." if theirs else without
    broken = [f"“{v.claim}”" for v in verdicts if v.origin == "check" and v.verdict == FAILS]
    return said + (f" A check of the code fails: {', '.join(broken)}." if broken else "")


def _met(theirs: Sequence[Verdict], kind: str) -> str:
    """How many of the source's claims hold, or of its numbers agree with ours; nothing where there are none."""
    members = [v for v in theirs if (v.difference is None) == (kind == "claim")]
    count, verb = sum(v.verdict == HOLDS for v in members), "hold" if kind == "claim" else "agree"
    of = f"{len(members)} {kind}{'' if len(members) == 1 else 's'} of the source"
    return f"{count} of {of} {verb}{'s' if count == 1 else ''}" if members else ""


def _margin(estimate: Estimate, at_least: float, at_most: float) -> float:
    """How far inside the bounds the interval lies; negative outside, −∞ where it is not a number."""
    margins = [estimate.low - at_least, at_most - estimate.high]
    finite = [m for m in margins if math.isfinite(m)]
    return min(finite) if finite and math.isfinite(estimate.value) else -math.inf


def _criterion(at_least: float, at_most: float, unit: str) -> str:
    unit = f" {unit}" if unit else ""
    low, high = (format_number(x) if 0 < abs(x) < 1e-4 else plainly(x) for x in (at_least, at_most))
    if math.isinf(at_most):
        return f"at least {low}{unit}"
    if math.isinf(at_least):
        return f"at most {high}{unit}"
    return f"between {low} and {high}{unit}"
