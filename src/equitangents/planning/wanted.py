"""What a plan is to reach, the number of members that does, and how well that number is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy.stats

from equitangents.ensembles.orbits.statistics import quantile_interval
from equitangents.planning.violations import Violations

LEVEL = 0.95  # of the interval of the number of members
_CURVE = (1, 2, 5)

Interval = tuple[int | None, int | None]
_OVERSHOOT = 1.05  # a guess from the law of scaling aims a little beyond the target
_MIDDLE_EVERY = 3  # steps, so that no shape of curve takes many


@dataclass(frozen=True)
class Wanted:
    """At most `target` in a share `confidence` of ensembles, with at most `most` members."""

    target: float
    confidence: float
    most: int

    def possible(self, violations: Violations) -> bool:
        """Whether infinitely many members suffice."""
        return violations.limit(self.confidence) <= violations.threshold(self.target)

    def members(self, violations: Violations) -> int | None:
        """The smallest number that suffices; None if none does, or none up to `most`."""
        if not self.possible(violations):
            return None
        threshold = violations.threshold(self.target)
        return smallest(lambda m: violations.quantile(m, self.confidence), threshold, self.most)

    def of_draws(self, violations: Violations, found: int | None) -> Interval:
        """How far the number is uncertain by the finite number of draws alone."""
        if found is None:
            return None, None
        end = lambda which: lambda m: quantile_interval(violations.of(m), self.confidence, LEVEL)[which]
        threshold = violations.threshold(self.target)
        return smallest(end(0), threshold, self.most), smallest(end(1), threshold, self.most)

    def of_pilot(
        self, violations: Violations, found: int | None, replicates: Iterable[Violations], networks: int
    ) -> Interval:
        """How far it is uncertain by the draws and by the chance of the pilot, from plans of its replicates.

        log M is taken to be as normal as the replicates' standard deviation of it says. A Student interval of 95 %,
        which held the number in 85 of 96 plans and is called one of 90 %.
        """
        if found is None:
            return None, None
        low, high = self.of_draws(violations, found)
        others = [self.members(each) for each in replicates]
        known = np.log([m for m in others if m is not None] or [found])
        deviation = float(known.std(ddof=1)) if len(known) > 1 else 0.0
        width = float(scipy.stats.t.ppf((1 + LEVEL) / 2, networks - 1)) * deviation
        below = math.hypot(width, math.log(found / low) if low else math.log(found))
        least = max(1, math.floor(found * math.exp(-below)))
        if high is None or len(known) < len(others):
            return least, None
        most = math.ceil(found * math.exp(math.hypot(width, math.log(high / found))))
        return least, most if most <= self.most else None

    def sizes(self, violations: Violations, found: int | None) -> list[int]:
        """Numbers of members for a curve: 1, 2, 5, 10, … to beyond the answer, which is among them."""
        last = 4 * found if found is not None else (self.most if self.possible(violations) else 100)
        steps: list[int] = []
        for power in range(20):
            for digit in _CURVE:
                steps.append(digit * 10**power)
                if steps[-1] >= last:
                    return sorted({*steps, *([found] if found else [])})
        return steps


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
