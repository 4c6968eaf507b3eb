"""Arrays of numbers of 106 bits, each the unevaluated sum of two doubles (Dekker 1971): sums, products, roots, angles.

Errors are a few times 2^-104 of the result, where no product leaves the range 1e-280 to 1e280.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

_SPLIT = 134217729.0  # 2^27 + 1
_TERMS = 24  # of Taylor series below π/8, the last of which is 1e-38


@dataclass(frozen=True, eq=False)
class Twofold:
    """high + low, with |low| at most half of the last bit of `high`."""

    high: Any
    low: Any = 0.0

    def __add__(self, other: Any) -> Twofold:
        """The sum with another, or with doubles."""
        other = twofold(other)
        total, rest = _sum(self.high, other.high)
        more, last = _sum(self.low, other.low)
        total, rest = _near_sum(total, rest + more)
        return Twofold(*_near_sum(total, rest + last))

    def __neg__(self) -> Twofold:
        """Both numbers negated."""
        return Twofold(-self.high, -self.low)

    def __sub__(self, other: Any) -> Twofold:
        """The difference."""
        return self + -twofold(other)

    def __mul__(self, other: Any) -> Twofold:
        """The product."""
        other = twofold(other)
        product, rest = _product(self.high, other.high)
        return Twofold(*_near_sum(product, rest + (self.high * other.low + self.low * other.high)))

    def __truediv__(self, other: Any) -> Twofold:
        """The quotient: three steps of long division."""
        other = twofold(other)
        first = self.high / other.high
        rest = self - other * first
        second = rest.high / other.high
        rest = rest - other * second
        return Twofold(*_near_sum(first, second)) + rest.high / other.high

    def __radd__(self, other: Any) -> Twofold:
        """The sum with doubles."""
        return self + other

    def __rsub__(self, other: Any) -> Twofold:
        """Doubles less this."""
        return -self + other

    def __rmul__(self, other: Any) -> Twofold:
        """The product with doubles."""
        return self * other

    def __rtruediv__(self, other: Any) -> Twofold:
        """Doubles over this."""
        return twofold(other) / self

    def where(self, condition: Any, other: Any) -> Twofold:
        """This where the condition holds, else the other."""
        other = twofold(other)
        return Twofold(np.where(condition, self.high, other.high), np.where(condition, self.low, other.low))

    def sqrt(self) -> Twofold:
        """The square root; 0 of what is not positive."""
        positive = self.high > 0
        safe = self.where(positive, 1.0)
        root = np.sqrt(safe.high)
        rest = safe - twofold(root) * root
        return (twofold(root) + rest.high / (2 * root)).where(positive, 0.0)


def twofold(x: Any) -> Twofold:
    """Doubles as numbers of 106 bits."""
    return x if isinstance(x, Twofold) else Twofold(x, np.zeros_like(x, float))


PI = Twofold(math.pi, 1.2246467991473532e-16)
_LOG2 = Twofold(math.log(2), 2.3190468138462996e-17)


def arctangent(y: Twofold, x: Twofold) -> Twofold:
    """The angle of (x, y), from -π to π: that of doubles, and the small one that is left."""
    about = np.arctan2(y.high, x.high)
    sine, cosine = _sine_and_cosine(about)
    across, along = y * cosine - x * sine, x * cosine + y * sine
    small = across / along.where(along.high != 0, 1.0)  # below 1e-15, so that its third power is nothing
    return twofold(about) + small


def exponential(x: Twofold) -> Twofold:
    """e^x, for x between -700 and 700."""
    twos = np.round(x.high / math.log(2))
    rest = (x - _LOG2 * twos) * 2.0**-6
    term = total = twofold(np.ones_like(x.high))
    for n in range(1, _TERMS):
        term = term * rest / float(n)
        total = total + term
    for _ in range(6):
        total = total * total
    return total * 2.0**twos


def _sine_and_cosine(angle: Any) -> tuple[Twofold, Twofold]:
    """Sine and cosine of doubles from -π to π, by three doublings."""
    part = twofold(angle / 8)
    square = part * part
    sine, cosine, term = part, twofold(np.ones_like(angle)), part
    power = cosine
    for n in range(1, _TERMS // 2 + 2):
        power = -(power * square) / float((2 * n - 1) * (2 * n))
        term = -(term * square) / float((2 * n) * (2 * n + 1))
        cosine, sine = cosine + power, sine + term
    for _ in range(3):
        sine, cosine = sine * cosine * 2.0, cosine * cosine - sine * sine
    return sine, cosine


def _sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _near_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Where |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Any) -> tuple[Any, Any]:
    scaled = _SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high
