"""What claims of every kind share: an interval against bounds, what they must say, how many repetitions decide."""

from __future__ import annotations

import math
from collections.abc import Mapping

import scipy.special

from equitangents.errors import InvalidArgumentError
from equitangents.report import FAILS, HOLDS, ORIGINS, UNDECIDED, Decision, Origin, with_interval
from equitangents.statistics import Estimate

_MOST = 1_000_000  # further repetitions that are still worth naming


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


def checked(covers: str, origin: Origin, place: str, repeated: int | None) -> None:
    """Raise InvalidArgumentError for a claim that does not say what its intervals cover, or whose it is."""
    if not covers:
        raise InvalidArgumentError("covers is empty; a claim says what its interval is over, or EXACT, or SINGLE")
    if origin not in ORIGINS:
        raise InvalidArgumentError(f"origin is {origin!r}; it is one of {', '.join(map(repr, ORIGINS))}")
    if origin == "source" and not place:
        raise InvalidArgumentError('place is empty; a claim of a source says where it is made ("Table 1", "review")')
    if repeated is not None and repeated < 1:
        raise InvalidArgumentError(f"repeated is {repeated}; it is at least 1, or None where nothing was repeated")


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
            holds.append(further_by(ratio, repeated, e.level))
        else:
            ratio = shrink(at_least - e.value, above) if e.value < at_least else shrink(e.value - at_most, below)
            misses.append(further_by(ratio, repeated, e.level))
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


def in_words(estimate: Estimate) -> str:
    """A number with its interval."""
    return with_interval(estimate.value, estimate.interval)


def plainly(number: float) -> str:
    """A bound as it was given, not rounded to an interval."""
    return f"{number:g}".replace("-", "−")
