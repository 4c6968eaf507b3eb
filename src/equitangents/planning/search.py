"""The smallest whole number M at which something that falls with M is at most a target."""

from __future__ import annotations

import math
from collections.abc import Callable

_OVERSHOOT = 1.05  # a guess from the law of scaling aims a little beyond the target


def smallest(value: Callable[[int], float], target: float, most: int) -> int | None:
    """The M from 1 to `most` with value(M) ≤ target and value(M − 1) > target; None if value(most) > target.

    Where value(M) ∝ 1/√M, as fluctuations do, the first guess is nearly right. If value does not fall everywhere, M
    is one of the places where it crosses the target.

    >>> smallest(lambda m: 1 / m**0.5, target=0.1, most=10**6)
    100
    """
    failing, passing = 0, None
    guess = 1
    while passing is None:
        reached = value(guess)
        if reached <= target:
            passing = guess
        else:
            failing = guess
            if guess == most:
                return None
            scaled = guess * _OVERSHOOT * (reached / target) ** 2 if target > 0 else math.inf
            guess = int(min(max(2 * guess, min(scaled, 64 * guess)), most))
    while passing - failing > 1:
        guess = _between(failing, passing)
        if value(guess) <= target:
            passing = guess
        else:
            failing = guess
    return passing


def _between(failing: int, passing: int) -> int:
    """The geometric middle, so that large ranges close in as few steps as small ones."""
    middle = round(math.sqrt(max(failing, 1) * passing))
    return min(max(middle, failing + 1), passing - 1)
