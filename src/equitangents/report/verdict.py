"""A claim and what the numbers say about it. A verdict is computed from an interval and a bound, never written."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from equitangents.formatting import superscript

Decision = Literal["holds", "fails", "not decidable at this size"]

HOLDS: Decision = "holds"
FAILS: Decision = "fails"
UNDECIDED: Decision = "not decidable at this size"


@dataclass(frozen=True)
class Verdict:
    """One row of a report's table of claims.

    `claim` is the sentence that was tested, `measure` what the number is, `criterion` what it was compared with,
    `value` the number, `interval` its confidence interval at `level`, `source` who claims it.
    """

    claim: str
    verdict: Decision
    measure: str
    criterion: str
    value: float
    interval: tuple[float, float]
    source: str
    level: float = 0.95
    note: str = ""
    unit: str = ""

    @property
    def number(self) -> str:
        """The value, rounded to what its interval supports, with its unit."""
        return f"{format_number(self.value, self.interval)} {self.unit}".strip()

    @property
    def uncertainty(self) -> str:
        """The interval in words, or that the number is exact to rounding."""
        low, high = self.interval
        if math.isnan(low) or math.isnan(high):
            return "no interval: too few samples, or all of them equal"
        if low == high:
            return "deterministic"
        a, b = (format_number(x, self.interval) for x in (low, high))
        return f"{100 * self.level:.4g} % interval {a} to {b}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        fields = asdict(self)
        fields["interval"] = [None if math.isnan(end) else end for end in self.interval]
        return {**fields, "number": self.number, "uncertainty": self.uncertainty}


def format_number(value: float, interval: tuple[float, float] | None = None) -> str:
    """`value` with two digits of its uncertainty, in plain notation between 1e-4 and 1e5, else scientific.

    Example:
        >>> format_number(0.123456, (0.11, 0.13))
        '0.123'
        >>> format_number(3.2e-15)
        '3.2·10⁻¹⁵'
    """
    if not math.isfinite(value):
        return "∞" if value == math.inf else "−∞" if value == -math.inf else "not a number"
    if value == 0 and (interval is None or interval[0] == interval[1]):
        return "0"
    spread = interval[1] - interval[0] if interval is not None else 0.0
    spread = spread if math.isfinite(spread) else 0.0
    scale = max(abs(value), spread)
    if not 1e-4 <= scale < 1e5:
        return _scientific(value)
    digits = 2 - math.floor(math.log10(scale))
    if spread > 0:
        digits = min(max(1 - math.floor(math.log10(spread)), 0), 6)
    text = f"{value:.{max(digits, 0)}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def _scientific(value: float) -> str:
    digits, exponent = f"{value:.1e}".split("e")
    digits = "" if digits == "1.0" else digits.replace("-", "−").removesuffix(".0") + "·"
    return f"{digits}10{superscript(int(exponent))}"
