"""From numbers to verdicts. A claim holds if its whole interval meets the criterion, fails if all of it misses.

All that a report says of its outcome follows from here: `claim` joins a statement with its numbers, its bound and what
each verdict would mean, `agreement` a number of ours with the source's own; `lead` is read off all verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import scipy.special

from equitangents.errors import InvalidArgumentError
from equitangents.report import format_number
from equitangents.statistics import Estimate
from equitangents_studies.framework.records import Records, in_words
from equitangents_studies.verdict import (
    EXACT,
    FAILS,
    HOLDS,
    IN_ERRORS,
    ORIGINS,
    P_VALUE,
    SINGLE,
    UNDECIDED,
    Decision,
    Origin,
    Verdict,
)

__all__ = [
    "EXACT", "IN_ERRORS", "P_VALUE", "ROUNDING", "SINGLE", "By", "Claim", "Covers", "Records", "after", "agreement",
    "claim", "decide", "exact", "identity", "in_words", "lead", "ours", "standing", "theirs", "to_rounding",
]  # fmt: skip

Claim = Verdict
Covers = str | tuple[str, int | None]
_MOST = 1_000_000  # further repetitions that are still worth naming


@dataclass(frozen=True)
class By:
    """Whose claim it is, from which `source`, the `place` where that says so ("Table 1"), and its own number, `stated`.

    Raises InvalidArgumentError for another origin, and for a source's claim without its place.
    """

    origin: Origin
    source: str
    place: str = ""
    stated: str = ""

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise InvalidArgumentError(f"origin is {self.origin!r}; it is one of {', '.join(map(repr, ORIGINS))}")
        if self.origin == "source" and not self.place:
            raise InvalidArgumentError(
                'place is empty; a claim of a source says where it is made ("Table 1", "review")'
            )


def theirs(source: str, place: str, stated: str = "") -> By:
    """A claim of a `source`, which makes it in a `place` and has the number `stated`."""
    return By("source", source, place, stated)


def ours(source: str, *, place: str = "", stated: str = "") -> By:
    """A question of our own; `source` says where it comes from: "theory; the bounds are our choice"."""
    return By("ours", source, place, stated)


def identity(source: str, *, place: str = "", stated: str = "") -> By:
    """An identity that our code obeys, by `source`."""
    return By("check", source, place, stated)


def claim(
    statement: str,
    numbers: Mapping[str, Estimate] | Records,
    *,
    measure: str,
    covers: Covers,
    by: By,
    holds: str,
    fails: str,
    undecided: str = "",
    at_least: float = -math.inf,
    at_most: float = math.inf,
    unit: str = "",
    aggregate: tuple[str, Estimate] | None = None,
    why: str = "",
) -> Claim:
    """The verdict on `statement` about a family of numbers, each under its own label ("after 3 steps, noise").

    With `aggregate`, a label and a number ("the mean over sets"), the verdict is on that number, and the least
    favourable of the family is named beside it. Without it the claim is about each: it holds if it holds for every
    member of the family, fails if it fails for any, and shows the least favourable one.

    `by` says whose claim it is: `theirs`, `ours`, or that of an `identity`. `covers` says what the intervals are over
    ("inputs"), or that and how many of them were measured, ("members", 64): an undecided claim then says how many more
    would decide it. It is `EXACT` for numbers that no sampling enters, `IN_ERRORS` for those in units of their own
    standard error, `P_VALUE` for the result of a test, `SINGLE` for one random measurement without an interval, which
    decides nothing. `holds`, `fails` and `undecided` say what each verdict means for somebody who must choose: one
    sentence each, true in that case; `why` gives the experiment that says why a source's claim fails.

    Raises InvalidArgumentError for an empty family, if `covers` is empty, and for fewer than one repetition.
    """
    numbers = numbers.labelled() if isinstance(numbers, Records) else dict(numbers)
    if not numbers:
        raise InvalidArgumentError("numbers is empty; a claim needs at least one number")
    covers, repeated = _covered(covers)
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
        source=str(by.source),  # a plain text, of a work, too
        confidence=shown.confidence,
        note=note,
        unit=unit,
        covers=covers,
        stated=by.stated,
        bounds=(at_least, at_most),
        origin=by.origin,
        place=by.place,
        meaning=meaning_of(verdict, statement, (holds, fails, undecided)),
        why=why if verdict == FAILS else "",
        numbers=numbers,
        aggregate="" if aggregate is None else label,
        repeated=repeated,
        further=further_of_all(judged, at_least, at_most, repeated) if verdict == UNDECIDED else None,
    )


exact = partial(claim, covers=EXACT)
"""A claim about numbers that no sampling enters."""

ROUNDING = 1e-8  # of the largest number, in double precision
to_rounding = partial(exact, at_most=ROUNDING)
"""A claim that two results are equal, or that a violation is 0, to rounding: no sampling enters."""


def lead(verdicts: Sequence[Verdict], named: bool = True) -> str:
    """One sentence on how the source's claims came out: how many hold or agree; `named`, which do not, else how many.

    Where no claim is a source's, it is what the first answer to a question of ours means. A check that fails is always
    named.

    Example:
        >>> from equitangents.statistics import exactly
        >>> numbers = {"here": exactly(0.5)}
        >>> said = {"measure": "", "covers": EXACT, "by": theirs("", "Table 1"), "holds": "", "fails": ""}
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


def standing(verdicts: Sequence[Verdict]) -> str:
    """What became of a source's claim that several verdicts are on: "confirmed", "refuted" or "not decided".

    Questions of our own and checks of the code have no part in it; without a claim of a source it is "not tested".

    Example:
        >>> from equitangents.statistics import exactly
        >>> said = {"measure": "", "covers": EXACT, "holds": "", "fails": "", "at_most": 1}
        >>> small = claim("It is small", {"here": exactly(0.5)}, by=theirs("", "Table 1"), **said)
        >>> asked = claim("So is this", {"here": exactly(2)}, by=ours("ours"), **said)
        >>> standing([small, asked]), standing([asked])
        ('confirmed', 'not tested')
    """
    found = {v.verdict for v in verdicts if v.origin == "source"}
    if not found:
        return "not tested"
    return "refuted" if FAILS in found else "not decided" if UNDECIDED in found else "confirmed"


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


def agreement(
    statement: str,
    ours: Estimate,
    *,
    stated_value: float,
    stated_spread: float,
    measure: str,
    covers: Covers,
    by: By,
    agrees: str,
    differs: str,
    undecided: str = "",
    unit: str = "",
    numbers: Mapping[str, Estimate] | None = None,
    why: str = "",
) -> Verdict:
    """The verdict on a number of the source's, stated_value ± stated_spread, by the difference d = ours − stated_value.

    The ends of d's interval are √(h² + s²) away from it, h those of `ours`, s the source's spread. They agree if that
    interval contains 0 and reaches at most 2 s to either side, differ if it excludes 0; else it is undecided. `numbers`
    is the family behind `ours`; the rest is as in `claim`, where `by` is always a source's.

    Raises InvalidArgumentError as `claim` does, and for a spread that is negative or no number.
    """
    if not (stated_spread >= 0 and math.isfinite(stated_spread) and math.isfinite(stated_value)):
        raise InvalidArgumentError(
            f"stated_value ± stated_spread is {stated_value} ± {stated_spread}; both are finite, the spread at least 0"
        )
    covers, repeated = _covered(covers)
    d, s = ours.value - stated_value, stated_spread
    below, above = math.hypot(ours.value - ours.low, s), math.hypot(ours.high - ours.value, s)
    difference = Estimate(d, d - below, d + above, ours.confidence)
    verdict, further = UNDECIDED, None
    if covers != SINGLE and all(map(math.isfinite, (d, below, above))):
        agreeing = (below + above) / 2 <= 2 * s
        verdict = FAILS if difference.low > 0 or difference.high < 0 else HOLDS if agreeing else UNDECIDED
        if verdict == UNDECIDED and repeated is not None:
            enough = max(math.sqrt(3) * s, math.sqrt(max(d * d - s * s, 0.0)))  # of h: they agree, or differ
            further = further_by(enough / ((ours.high - ours.low) / 2), repeated, ours.confidence)
    family = dict(numbers or {})
    note = ""
    if family:
        far = max(family, key=lambda name: _distance(family[name].value, stated_value))
        note = f"Of {len(family)} the farthest from the source’s is {far}: {in_words(family[far])}."
    stated = f"{plainly(stated_value)} ± {plainly(stated_spread)} {unit}".strip()
    return Verdict(
        claim=statement,
        verdict=verdict,
        measure=measure,
        criterion="the difference contains 0 within both uncertainties, and reaches at most twice the source’s",
        value=ours.value,
        interval=ours.interval,
        source=str(by.source),  # a plain text, of a work, too
        confidence=ours.confidence,
        note=note,
        unit=unit,
        covers=covers,
        stated=stated,
        origin="source",
        place=by.place,
        meaning=meaning_of(verdict, statement, (agrees, differs, undecided)),
        why=why if verdict == FAILS else "",
        numbers=family,
        difference=difference,
        repeated=repeated,
        further=further,
    )


def _distance(value: float, stated: float) -> float:
    return abs(value - stated) if math.isfinite(value) else math.inf


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


def _covered(covers: Covers) -> tuple[str, int | None]:
    """What a claim's intervals are over, and how many of them there are; raises where it does not say so."""
    what, repeated = (covers, None) if isinstance(covers, str) else covers
    if not what:
        raise InvalidArgumentError("covers is empty; a claim says what its interval is over, or EXACT, or SINGLE")
    if repeated is not None and repeated < 1:
        raise InvalidArgumentError(f"repeated is {repeated}; it is at least 1, or None where nothing was repeated")
    return what, repeated


def meaning_of(verdict: Decision, statement: str, means: tuple[str, str, str]) -> str:
    """The sentence that belongs to `verdict`, of those for what holds, fails and is undecided."""
    holds, fails, undecided = means
    unsaid = f"This run does not decide whether this is so: “{statement}”." if holds else ""
    return {HOLDS: holds, FAILS: fails, UNDECIDED: undecided or unsaid}[verdict]


def further_of_all(
    numbers: Mapping[str, Estimate], at_least: float, at_most: float, repeated: int | None
) -> int | None:
    """How many more repetitions decide a claim about each of `numbers`: one that fails is enough, or all hold."""
    if repeated is None:
        return None
    misses: list[int | None] = []
    holds: list[int | None] = []
    for e in numbers.values():
        if decide(e, at_least=at_least, at_most=at_most) != UNDECIDED:
            continue
        below, above = e.value - e.low, e.high - e.value
        shrink = lambda room, width: room / width if width > 0 else math.inf
        if at_least <= e.value <= at_most:
            ratio = min(shrink(e.value - at_least, below), shrink(at_most - e.value, above))
            holds.append(further_by(ratio, repeated, e.confidence))
        else:
            ratio = shrink(at_least - e.value, above) if e.value < at_least else shrink(e.value - at_most, below)
            misses.append(further_by(ratio, repeated, e.confidence))
    failing = [count for count in misses if count is not None]
    if failing or not holds:
        return min(failing, default=None)
    return None if None in holds else max(count for count in holds if count is not None)


def further_by(ratio: float, repeated: int, level: float) -> int | None:
    """How many repetitions beyond those there are make Student's interval shorter than `ratio` times what it is."""
    if repeated < 2 or not 0 < ratio <= 1:
        return None
    length = lambda count: float(scipy.special.stdtrit(count - 1, (1 + level) / 2)) / math.sqrt(count)
    asked = ratio * length(repeated)
    enough, short = repeated + _MOST, repeated  # `short` are too few
    if not length(enough) < asked:
        return None
    while enough - short > 1:
        middle = (enough + short) // 2
        enough, short = (middle, short) if length(middle) < asked else (enough, middle)
    return enough - repeated


def plainly(number: float) -> str:
    """A bound as it was given, not rounded to an interval."""
    return f"{number:g}".replace("-", "−")


def after(step: int) -> str:
    """A number of training steps.

    Example:
        >>> after(0), after(1), after(2000)
        ('at initialisation', 'after 1 step', 'after 2,000 steps')
    """
    return "at initialisation" if step == 0 else f"after {step:,} step{'' if step == 1 else 's'}"
