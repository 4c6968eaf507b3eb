"""A number of ours beside the source's own: they agree, differ by so much, or our interval is too wide to say."""

from __future__ import annotations

import math
from collections.abc import Mapping

from equitangents.errors import InvalidArgumentError
from equitangents.report import FAILS, HOLDS, SINGLE, UNDECIDED, Verdict
from equitangents.statistics import Estimate
from equitangents_studies.framework.judging import checked, further_by, in_words, meaning_of, plainly


def agreement(
    statement: str,
    ours: Estimate,
    *,
    stated_value: float,
    stated_spread: float,
    measure: str,
    covers: str,
    source: str,
    place: str,
    agrees: str,
    differs: str,
    undecided: str = "",
    unit: str = "",
    numbers: Mapping[str, Estimate] | None = None,
    repeated: int | None = None,
    why: str = "",
) -> Verdict:
    """The verdict on a number of the source's, stated_value ± stated_spread, by the difference d = ours − stated_value.

    The ends of d's interval are √(h² + s²) away from it, h those of `ours`, s the source's spread. They agree if that
    interval contains 0 and reaches at most 2 s to either side, differ if it excludes 0; else it is undecided. `numbers`
    is the family behind `ours`; the rest is as in `claim`.

    Raises InvalidArgumentError as `claim` does, and for a spread that is negative or no number.
    """
    if not (stated_spread >= 0 and math.isfinite(stated_spread) and math.isfinite(stated_value)):
        raise InvalidArgumentError(
            f"stated_value ± stated_spread is {stated_value} ± {stated_spread}; both are finite, the spread at least 0"
        )
    checked(covers, "source", place, repeated)
    d, s = ours.value - stated_value, stated_spread
    below, above = math.hypot(ours.value - ours.low, s), math.hypot(ours.high - ours.value, s)
    difference = Estimate(d, d - below, d + above, ours.level)
    verdict, further = UNDECIDED, None
    if covers != SINGLE and all(map(math.isfinite, (d, below, above))):
        agreeing = (below + above) / 2 <= 2 * s
        verdict = FAILS if difference.low > 0 or difference.high < 0 else HOLDS if agreeing else UNDECIDED
        if verdict == UNDECIDED and repeated is not None:
            enough = max(math.sqrt(3) * s, math.sqrt(max(d * d - s * s, 0.0)))  # of h: they agree, or differ
            further = further_by(enough / ((ours.high - ours.low) / 2), repeated, ours.level)
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
        source=source,
        level=ours.level,
        note=note,
        unit=unit,
        covers=covers,
        stated=stated,
        origin="source",
        place=place,
        meaning=meaning_of(verdict, statement, (agrees, differs, undecided)),
        why=why if verdict == FAILS else "",
        numbers=family,
        difference=difference,
        repeated=repeated,
        further=further,
    )


def _distance(value: float, stated: float) -> float:
    return abs(value - stated) if math.isfinite(value) else math.inf
