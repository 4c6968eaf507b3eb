"""Shares that are whole numbers of points: which of them meet a target, without the rounding of 1 − 3.8/4."""

from __future__ import annotations

import math
from fractions import Fraction

_ROUNDING = Fraction(1, 10**12)  # a target so near to a share is meant to be that share


def largest_share(target: float, points: int) -> float:
    """The largest k/points, k a whole number, that is at most the target; 0.05 of 80 points are 4, as 1 − 0.95 are.

    >>> largest_share(0.15, 80) == 12 / 80, largest_share(1 - 0.9, 10) == 0.1, largest_share(0.1, 4)
    (True, True, 0.0)
    """
    return math.floor(points * (Fraction(target) + _ROUNDING)) / points


def one_in(share: float) -> tuple[int, int]:
    """A share as "k of m" in small whole numbers: 0.95 is 19 of 20.

    >>> one_in(0.95), one_in(0.9), one_in(0.999)
    ((19, 20), (9, 10), (999, 1000))
    """
    fraction = Fraction(share).limit_denominator(1000)
    return fraction.numerator, fraction.denominator


def percent(share: float) -> str:
    """0.95 as "95 %", to three digits.

    >>> percent(0.95), percent(1 - 0.05), percent(0.3333)
    ('95 %', '95 %', '33.3 %')
    """
    return f"{100 * share:.3g} %" if abs(share) < 0.9995 or share == 1 else f"{100 * share:.6g} %"
