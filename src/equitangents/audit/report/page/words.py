"""Numbers as a reader of the page wants them."""

from __future__ import annotations

import math

from equitangents.audit.report.sections import Estimate
from equitangents.report.verdict import format_number

DASH = "–"
PERCENT = "\u00a0%"  # a number and its unit stay on one line


def relative(value: float | None) -> str:
    """A relative error: per cent where that reads well, a power of ten where it is small.

    >>> relative(0.0312), relative(2.5e-7), relative(0.0), relative(None)
    ('3.1\\xa0%', '2.5·10⁻⁷', '0', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    if abs(value) < 1e-4:
        return format_number(value)
    percent = 100 * value
    digits = max(0, 1 - math.floor(math.log10(abs(percent))))
    return f"{percent:.{digits}f}{PERCENT}".replace("-", "−")


def share(value: float | None) -> str:
    """A share of a whole, in per cent with one digit; 100 % only if it is exactly that."""
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{100 * value:.1f}"
    return f"{'99.9+' if text == '100.0' and value < 1 else text.removesuffix('.0')}{PERCENT}"


def between(estimate: Estimate | None) -> str:
    """The interval of an estimate of a relative error."""
    if estimate is None:
        return DASH
    return "no interval" if math.isnan(estimate.low) else f"{relative(estimate.low)} to {relative(estimate.high)}"


def count(value: int) -> str:
    """A whole number with separators."""
    return f"{value:,}"
