"""Numbers as pages show them, with as many digits as their interval supports."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def with_interval(
    value: float, interval: tuple[float, float], bounds: tuple[float, float] = (-math.inf, math.inf)
) -> str:
    """A number and its interval as a cell of a table shows them, or that there is none; `bounds` as in `format_number`.

    >>> with_interval(0.5, (0.42, 0.61)), with_interval(0.5, (math.nan, math.nan))
    ('0.50 (0.42 to 0.61)', '0.500 (no interval)')
    """
    shown = format_number(value, interval, bounds)
    if any(map(math.isnan, interval)):
        return f"{shown} (no interval)"
    low, high = (format_number(end, interval, bounds) for end in interval)
    return f"{shown} ({low} to {high})"


def format_number(
    value: float, interval: tuple[float, float] | None = None, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> str:
    """`value` with two digits of its uncertainty, in plain notation between 1e-4 and 1e5, else scientific.

    Where that would print `value` on the wrong side of one of `bounds`, or upon it, there are more digits.

    Example:
        >>> format_number(0.123456, (0.11, 0.13))
        '0.123'
        >>> format_number(3.2e-15)
        '3.2·10⁻¹⁵'
        >>> format_number(1.0004, (0.95, 1.15), (0, 1))
        '1.0004'
    """
    if not math.isfinite(value):
        return "∞" if value == math.inf else "−∞" if value == -math.inf else "not a number"
    if value == 0 and (interval is None or not interval[0] < interval[1]):
        return "0"
    spread = interval[1] - interval[0] if interval is not None else 0.0
    spread = spread if math.isfinite(spread) else 0.0
    scale = max(abs(value), spread)
    write: Callable[[float, int], str] = _plain if 1e-4 <= scale < 1e5 else _scientific
    digits = 1
    if write is _plain:
        finest = 2 - math.floor(math.log10(scale)) if spread == 0 else min(1 - math.floor(math.log10(spread)), 6)
        digits = max(finest, 0)
    while digits < 17 and any(_side(a, b) != _side(value, b) for a, b in _printed(value, digits, write, bounds)):
        digits += 1
    return write(value, digits)


def _printed(value: float, digits: int, write: Any, bounds: tuple[float, float]) -> list[tuple[float, float]]:
    """What a reader would compare: the number as printed with `digits`, and every finite bound."""
    printed = float(f"{value:.{digits}{'e' if write is _scientific else 'f'}}")
    return [(printed, bound) for bound in bounds if math.isfinite(bound)]


def _side(value: float, bound: float) -> int:
    return int(value > bound) - int(value < bound)


def _plain(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def _scientific(value: float, digits: int) -> str:
    leading, exponent = f"{value:.{digits}e}".split("e")
    leading = leading.replace("-", "−").removesuffix(".0")
    power = superscript(int(exponent))
    return f"10{power}" if leading == "1" else f"{leading}·10{power}"


def superscript(exponent: int) -> str:
    """A whole number as an exponent.

    >>> "10" + superscript(-12)
    '10⁻¹²'
    """
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
