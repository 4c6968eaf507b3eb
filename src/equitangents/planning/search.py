"""The smallest whole number M at which something that falls with M is at most a target."""

from __future__ import annotations

import math
from collections.abc import Callable

_OVERSHOOT = 1.05  # a guess from the law of scaling aims a little beyond the target
_MIDDLE_EVERY = 3  # steps, so that no shape of curve takes many


def smallest(value: Callable[[int], float], target: float, most: int) -> int | None:
    """The M from 1 to `most` with value(M) ≤ target and value(M − 1) > target; None if value(most) > target.

    Where value(M) is a power of M, as fluctuations are (1/√M), the first guesses are nearly right. If value does not
    fall everywhere, M is one of the places where it crosses the target.

    >>> smallest(lambda m: 1 / m**0.5, target=0.1, most=10**6)
    100
    """
    at: dict[int, float] = {}

    def fails(m: int) -> bool:
        at[m] = value(m)
        return at[m] > target

    failing, passing = 0, 1
    while fails(passing):
        if passing == most:
            return None
        failing = passing
        scaled = passing * _OVERSHOOT * (at[passing] / target) ** 2 if target > 0 else math.inf
        passing = int(min(max(2 * passing, min(scaled, 64 * passing)), most))
    step = 0
    while passing - failing > 1:
        step += 1
        guess = _middle(failing, passing) if step % _MIDDLE_EVERY == 0 else _crossing(failing, passing, at, target)
        guess = min(max(guess, failing + 1), passing - 1)
        failing, passing = (guess, passing) if fails(guess) else (failing, guess)
    return passing


def _middle(failing: int, passing: int) -> int:
    """The geometric middle, so that large ranges close in as few steps as small ones."""
    return round(math.sqrt(max(failing, 1) * passing))


def _crossing(failing: int, passing: int, at: dict[int, float], target: float) -> int:
    """Where the line through both ends crosses the target, all on logarithmic scales."""
    if failing == 0 or target <= 0 or at[passing] <= 0 or not math.isfinite(at[failing]):
        return _middle(failing, passing)
    high, low = math.log(at[failing] / target), math.log(target / at[passing])
    share = high / (high + low)
    return math.ceil(math.exp((1 - share) * math.log(failing) + share * math.log(passing)))
