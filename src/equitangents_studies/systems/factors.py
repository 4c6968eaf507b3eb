"""How many times the samples of one learning curve another one needs, and whether that is decided."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equitangents.report import plain_number
from equitangents.statistics import Estimate, paired_mean
from equitangents_studies.systems.curves import ErrorName, LearningCurve
from equitangents_studies.systems.matched_errors import log_factor_at_end, measured_factor

AS_THEY_ARE = "I"
Key = tuple[str, str]
"""(architecture, group that moved the data)"""


@dataclass(frozen=True)
class Factor:
    """`first` needs `estimate` times the samples of `second` for the smallest error that both reach.

    The worse of both reaches it with the largest training set. `bound`: where one ends above where the other begins,
    what the factor exceeds; negative where its inverse does; else None. `cut`: the better reaches that error with its
    smallest training set already, so that the factor, or its inverse, is at least what `estimate` says.
    `difference`: of the errors, first minus second, at the largest training set. `verdict`: whether the second needs
    "fewer" samples or "more", as the interval of the difference says, which is narrower; else "undecided".
    """

    first: Key
    second: Key
    estimate: Estimate
    bound: float | None
    difference: Estimate
    cut: bool = False

    @property
    def verdict(self) -> Literal["fewer", "more", "undecided"]:
        """What the second curve's algorithm needs."""
        return "fewer" if self.difference.low > 0 else "more" if self.difference.high < 0 else "undecided"

    @property
    def times(self) -> Estimate | None:
        """How many times the samples of the better the worse needs; None where nothing is decided, the factor is cut
        off, or no interval of it says that it is above 1.
        """
        e = self.estimate
        if self.verdict == "undecided" or self.bound is not None or self.cut:
            return None
        shown = e if self.verdict == "fewer" else Estimate(1 / e.value, 1 / e.high, 1 / e.low, e.level)
        return shown if shown.low > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """All entries as plain values."""
        e, d = self.estimate, self.difference
        return {
            "first": list(self.first),
            "second": list(self.second),
            "factor": plain_number(e.value),
            "interval": [plain_number(e.low), plain_number(e.high)],
            "level": e.level,
            "exceeds": self.bound,
            "cut_off": self.cut,
            "difference": plain_number(d.value),
            "difference_interval": [plain_number(d.low), plain_number(d.high)],
            "verdict": self.verdict,
        }


def compared(first: Key, second: Key, curves: Mapping[Key, LearningCurve], error: ErrorName, level: float) -> Factor:
    """The factor of two curves that share their training sets."""
    a, b = curves[first].of(error), curves[second].of(error)
    n = curves[first].sizes.astype(np.float64)
    span = float(n[-1] / n[0])
    found = measured_factor(n, a, b, level, log_factor_at_end)
    cut = abs(math.log(found.value)) >= math.log(span) - 1e-9 if found.value > 0 else False
    return Factor(first, second, found, _bound(span, a, b, level), paired_mean(a[-1] - b[-1], level), cut)


def cut_off(factor: Factor) -> str:
    """A factor that is cut off, in words: "at least 20, its interval begins at 3"."""
    e = factor.estimate
    side, end, verb = ("at least", e.low, "begins") if e.value > 1 else ("at most", e.high, "ends")
    interval = f"its interval {verb} at {end:.2g}" if e.has_interval else "without an interval"
    return f"{side} {e.value:.2g}, {interval}"


def _bound(span: float, a: np.ndarray, b: np.ndarray, level: float) -> float | None:
    """What f exceeds where one curve ends above the beginning of the other, as the interval of that difference says."""
    if paired_mean(a[-1] - b[0], level).low > 0:
        return span
    return -span if paired_mean(b[-1] - a[0], level).low > 0 else None
