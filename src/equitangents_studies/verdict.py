"""A claim and what the numbers say about it. A verdict is computed from an interval and a bound, never written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from equitangents.extending import formatting
from equitangents.report import format_number, with_interval
from equitangents.statistics import Estimate

Decision = Literal["holds", "fails", "not decidable at this size"]
Origin = Literal["source", "ours", "check"]

HOLDS: Decision = "holds"
FAILS: Decision = "fails"
UNDECIDED: Decision = "not decidable at this size"
ORIGINS: tuple[Origin, ...] = get_args(Origin)

EXACT = "deterministic"  # what `covers` says of a number that no sampling enters
IN_ERRORS = "in units of its own standard error"
SINGLE = "a single measurement without an interval"
P_VALUE = "a p-value, which has no interval"
_WITHOUT = (EXACT, IN_ERRORS, SINGLE, P_VALUE)


@dataclass(frozen=True)
class Verdict:
    """One row of a report's table of claims.

    `claim` is the sentence that was tested, `measure` what the number is, `criterion` what it was compared with,
    `value` the number, `interval` its interval at that `confidence`. `origin` is whose claim it is: a work's
    ("source"), a question of our own ("ours") or an identity that our code obeys ("check"); `source` names the work, or
    says why we ask; `place` is where the work says so, `stated` its own number. `covers` says what the interval is over
    ("inputs", "members"), or is `EXACT`, `IN_ERRORS`, `P_VALUE` or `SINGLE`. `bounds` are those of the criterion:
    numbers are printed with as many digits as it takes to see on which side of them they lie.

    `meaning` is the sentence that belongs to the verdict, `why` the experiment that says why a claim fails. `numbers`
    are the family behind the number by their labels, `aggregate` the label of the number itself where the verdict is on
    a summary of the family. `difference` is the number minus the source's own, where the two are compared. Of an
    undecided claim `repeated` says how many of what `covers` names there are, and `further` how many more decide it if
    the number stays where it is; None where no number of them does.
    """

    claim: str
    verdict: Decision
    measure: str
    criterion: str
    value: float
    interval: tuple[float, float]
    source: str
    confidence: float = 0.95
    note: str = ""
    unit: str = ""
    covers: str = ""
    stated: str = ""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    origin: Origin = "ours"
    place: str = ""
    meaning: str = ""
    why: str = ""
    numbers: Mapping[str, Estimate] = field(default_factory=dict)
    aggregate: str = ""
    difference: Estimate | None = None
    repeated: int | None = None
    further: int | None = None

    @property
    def number(self) -> str:
        """The value, rounded to what its interval supports, with its unit; "no number" where there is none."""
        if math.isnan(self.value):
            return "no number"
        return f"{format_number(self.value, self.interval, self.bounds)} {self.unit}".strip()

    @property
    def uncertainty(self) -> str:
        """The interval in words and what it is over, or why there is none."""
        low, high = self.interval
        if self.covers in _WITHOUT:
            return self.covers
        if math.isnan(low) or math.isnan(high):
            return "no interval" if math.isnan(self.value) else "no interval: too few samples, or all of them equal"
        if low == high:
            return f"no variation over {self.covers}" if self.covers else EXACT
        a, b = (format_number(x, self.interval, self.bounds) for x in (low, high))
        return f"{100 * self.confidence:.4g} % interval {a} to {b}" + (f" over {self.covers}" if self.covers else "")

    @property
    def outcome(self) -> str:
        """The verdict in words: of a number of the source's that it agrees, or by how much it differs."""
        if self.verdict == UNDECIDED:
            return "undecided"
        if self.difference is None:
            return self.verdict
        if self.verdict == HOLDS:
            return "agrees"
        by = with_interval(self.difference.value, self.difference.interval, (0.0, math.inf))
        return f"differs by {by} {self.unit}".strip()

    @property
    def mark(self) -> str:
        """`outcome` behind its sign; empty for a question of our own, which has an answer and does not fail."""
        return "" if self.origin == "ours" else f"{ {HOLDS: '✓', FAILS: '✗'}.get(self.verdict, '?') } {self.outcome}"

    def remedy(self, seconds: float = math.nan) -> str:
        """What would decide an undecided claim, and how long that takes if the run so far took `seconds`."""
        if self.verdict != UNDECIDED or self.repeated is None:
            return ""
        before = f"Undecided after {self.repeated:,} ({self.covers})"
        if self.further is None:
            return f"{before}: more of them alone would not decide it."
        return f"{before}: {self.needed(seconds)}."

    def needed(self, seconds: float = math.nan) -> str:
        """How many more repetitions would decide an undecided claim, and how long they take; nothing if none would."""
        if self.verdict != UNDECIDED or self.repeated is None or self.further is None:
            return ""
        takes = (
            seconds * self.further / self.repeated
        )  # what the run does once, however often it repeats, takes no more
        time = f", at most about {formatting.duration(takes)}," if math.isfinite(takes) else ""
        return f"{self.further:,} more{time} would decide it if the number stays where it is"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        plain = {name: value for name, value in asdict(self).items() if name not in ("numbers", "difference")}
        plain["value"] = plain_number(self.value)
        plain["interval"] = [plain_number(end) for end in self.interval]
        plain["bounds"] = [bound if math.isfinite(bound) else None for bound in self.bounds]
        plain["numbers"] = {label: _plain_estimate(e) for label, e in self.numbers.items()}
        plain["difference"] = None if self.difference is None else _plain_estimate(self.difference)
        return {**plain, "number": self.number, "uncertainty": self.uncertainty}

    @staticmethod
    def from_dict(kept: Mapping[str, Any]) -> Verdict:
        """The verdict of which `to_dict` made this; KeyError, TypeError or ValueError where it is something else."""
        found = {f.name: kept[f.name] for f in fields(Verdict)}
        ends = lambda pair: (read_number(pair[0]), read_number(pair[1]))
        estimate = lambda e: Estimate(read_number(e["value"]), *ends(e["interval"]), kept["confidence"])
        found["value"], found["interval"] = read_number(kept["value"]), ends(kept["interval"])
        low, high = kept["bounds"]
        found["bounds"] = (-math.inf if low is None else low, math.inf if high is None else high)
        found["numbers"] = {label: estimate(e) for label, e in kept["numbers"].items()}
        found["difference"] = None if kept["difference"] is None else estimate(kept["difference"])
        if found["origin"] not in ORIGINS:
            raise ValueError(f"origin is {found['origin']!r}; it is one of {', '.join(ORIGINS)}")
        return Verdict(**found)


def _plain_estimate(e: Estimate) -> dict[str, Any]:
    return {"value": plain_number(e.value), "interval": [plain_number(end) for end in e.interval]}


def plain_number(value: float) -> float | str | None:
    """A number as JSON can hold it: None for what is not one, text for what is infinite.

    >>> plain_number(0.5), plain_number(math.nan), plain_number(-math.inf)
    (0.5, None, '-inf')
    """
    return None if math.isnan(value) else value if math.isfinite(value) else str(float(value))


def read_number(kept: float | str | None) -> float:
    """The number that `plain_number` made plain.

    >>> read_number(0.5), read_number(None), read_number("-inf")
    (0.5, nan, -inf)
    """
    return math.nan if kept is None else float(kept)
