"""A claim as data: a statement, its numbers and its bound. The outcome is computed from intervals, never written.

A claim holds if its whole interval meets the bound, fails if the whole interval misses it, and is undecided otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from equitangents.report import format_number, with_interval
from equitangents.statistics import Estimate

Outcome = Literal["holds", "fails", "undecided"]
Kind = Literal["source", "ours", "check"]

HOLDS: Outcome = "holds"
FAILS: Outcome = "fails"
UNDECIDED: Outcome = "undecided"
KINDS: tuple[Kind, ...] = get_args(Kind)
TITLES: dict[Kind, str] = {
    "source": "Claims of the source",
    "ours": "Questions of our own",
    "check": "Checks of the code",
}

EXACT = "deterministic"  # `covers` of a number without sampling
IN_ERRORS = "in units of its own standard error"
SINGLE = "a single measurement without an interval"
P_VALUE = "a p-value, which has no interval"
_WITHOUT = (EXACT, IN_ERRORS, SINGLE, P_VALUE)


@dataclass(frozen=True)
class Claim:
    """One row of a report's table of claims.

    `kind` is "source" for a claim of a work, "ours" for a question of our own, "check" for an identity of the code.
    `source` names the work, `place` where it makes the claim, `stated` its own number. `number` and `interval` are what
    `measure` describes; `bound` is (at least, at most). `covers` is what the interval is over ("inputs"), or EXACT,
    IN_ERRORS, P_VALUE or SINGLE.

    `numbers` is the family behind the number by label, `shown` the label of `number`. With `aggregate`, `number`
    summarises the family and decides; without it every member must meet the bound. `reference` is the source's own
    number and its standard deviation s: then the difference d = number − reference decides; its interval has half
    widths √(h² + s²). The two agree (holds) if that interval contains 0 and reaches on average at most 2 s to either
    side. `theorem`: whether the source proves it.
    """

    statement: str
    kind: Kind
    source: str
    place: str
    measure: str
    number: float
    interval: tuple[float, float]
    bound: tuple[float, float] = (-math.inf, math.inf)
    stated: str = ""
    unit: str = ""
    covers: str = ""
    confidence: float = 0.95
    numbers: Mapping[str, Estimate] = field(default_factory=dict)
    shown: str = ""
    aggregate: bool = False
    reference: tuple[float, float] | None = None
    theorem: bool = False

    @property
    def estimate(self) -> Estimate:
        """The number with its interval."""
        return Estimate(self.number, *self.interval, self.confidence)

    @property
    def decisive(self) -> list[Estimate]:
        """The numbers that decide: the difference, the aggregate, or each of the family."""
        if self.difference is not None:
            return [self.difference]
        return [self.estimate] if self.aggregate or not self.numbers else list(self.numbers.values())

    @property
    def difference(self) -> Estimate | None:
        """The number minus the source's own, where the two are compared."""
        if self.reference is None:
            return None
        d, s = self.number - self.reference[0], self.reference[1]
        below, above = (math.hypot(end - self.number, s) for end in self.interval)
        return Estimate(d, d - below, d + above, self.confidence)

    @property
    def outcome(self) -> Outcome:
        """Whether the claim holds; single measurements and values that are not finite are undecided."""
        if self.covers == SINGLE:
            return UNDECIDED
        if self.difference is not None:
            return self._agreement(self.difference)
        outcomes = [decide(e, self.bound) for e in self.decisive]
        return FAILS if FAILS in outcomes else UNDECIDED if UNDECIDED in outcomes else HOLDS

    def _agreement(self, difference: Estimate) -> Outcome:
        if not all(map(math.isfinite, (difference.value, *difference.interval))):
            return UNDECIDED
        if difference.low > 0 or difference.high < 0:
            return FAILS
        return HOLDS if (difference.high - difference.low) / 2 <= 2 * _std(self.reference) else UNDECIDED

    @property
    def number_cell(self) -> str:
        """The number, rounded to what its interval supports, with its unit."""
        return f"{format_number(self.number, self.interval, self.bound)} {self.unit}".strip()

    @property
    def interval_cell(self) -> str:
        """The ends of the interval; `covers` if there is no interval."""
        if self.covers in _WITHOUT or any(map(math.isnan, self.interval)):
            return self.covers if self.covers in _WITHOUT else "no interval"
        low, high = (format_number(end, self.interval, self.bound) for end in self.interval)
        return f"{low} to {high}"

    @property
    def bound_cell(self) -> str:
        """The bound as a condition on the number; for a comparison the source's number and its standard deviation."""
        if self.reference is not None:
            return "{:g} ± {:g}".format(*self.reference).replace("-", "−")
        at_least, at_most = ("" if math.isinf(end) else f"{end:g}".replace("-", "−") for end in self.bound)
        return " … ".join((f"≥ {at_least}" if at_least else "", f"≤ {at_most}" if at_most else "")).strip(" …")

    @property
    def family(self) -> dict[str, str]:
        """Every number behind the claim with its interval, as cells, by label."""
        return {label: with_interval(e.value, e.interval, self.bound) for label, e in self.numbers.items()}

    def to_dict(self) -> dict[str, Any]:
        """All fields and `outcome` as plain values, for JSON."""
        plain: dict[str, Any] = {name: value for name, value in asdict(self).items() if name != "numbers"}
        plain |= {"number": plain_number(self.number), "interval": [plain_number(end) for end in self.interval]}
        plain["bound"] = [end if math.isfinite(end) else None for end in self.bound]
        plain["reference"] = None if self.reference is None else list(self.reference)
        plain["numbers"] = {
            label: [plain_number(x) for x in (e.value, e.low, e.high)] for label, e in self.numbers.items()
        }
        return {**plain, "outcome": self.outcome}

    @staticmethod
    def from_dict(kept: Mapping[str, Any]) -> Claim:
        """Inverse of `to_dict`; raises KeyError, TypeError or ValueError for other content."""
        found = {f.name: kept[f.name] for f in fields(Claim)}
        if found["kind"] not in KINDS:
            raise ValueError(f"kind is {found['kind']!r}; expected one of {', '.join(KINDS)}")
        low, high = found["bound"]
        found["bound"] = (-math.inf if low is None else low, math.inf if high is None else high)
        found["number"], (low, high) = read_number(found["number"]), found["interval"]
        found["interval"] = (read_number(low), read_number(high))
        found["reference"] = None if found["reference"] is None else tuple(found["reference"])
        found["numbers"] = {
            label: Estimate(read_number(value), read_number(low), read_number(high), found["confidence"])
            for label, (value, low, high) in found["numbers"].items()
        }
        return Claim(**found)


def _std(reference: tuple[float, float] | None) -> float:
    return math.nan if reference is None else reference[1]


def decide(estimate: Estimate, bound: tuple[float, float]) -> Outcome:
    """Compare an interval with (at least, at most). Undecided if it is missing or not finite.

    >>> decide(Estimate(0.5, 0.4, 0.6), (0.3, math.inf)), decide(Estimate(0.5, 0.4, 0.6), (0.45, math.inf))
    ('holds', 'undecided')
    """
    at_least, at_most = bound
    if not all(map(math.isfinite, (estimate.value, estimate.low, estimate.high))):
        return UNDECIDED
    if at_least <= estimate.low and estimate.high <= at_most:
        return HOLDS
    return FAILS if estimate.high < at_least or at_most < estimate.low else UNDECIDED


def margin(estimate: Estimate, bound: tuple[float, float]) -> float:
    """Distance of the interval from the bound, positive inside and negative outside; −∞ for NaN."""
    finite = [m for m in (estimate.low - bound[0], bound[1] - estimate.high) if math.isfinite(m)]
    return min(finite) if finite and math.isfinite(estimate.value) else -math.inf


def plain_number(value: float) -> float | str | None:
    """A number as JSON can hold it: None for NaN, text for infinity.

    >>> plain_number(0.5), plain_number(math.nan), plain_number(-math.inf)
    (0.5, None, '-inf')
    """
    return None if math.isnan(value) else value if math.isfinite(value) else str(float(value))


def read_number(kept: float | str | None) -> float:
    """The number of `plain_number`.

    >>> read_number(0.5), read_number(None), read_number("-inf")
    (0.5, nan, -inf)
    """
    return math.nan if kept is None else float(kept)
