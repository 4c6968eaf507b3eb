"""How many times as many samples one learning curve needs as another for the same errors, and in which words.

log f = mean over errors E that both curves reach of log n₀(E) − log n₁(E), with sizes interpolated on logarithms; or
that difference at one error, the smallest that both reach: what the better curve saves of the largest training set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.report import format_number, with_interval
from equitangents.statistics import Estimate, no_interval, t_interval
from equitangents_studies.claim import plain_number
from equitangents_studies.systems.curves import ErrorName, LearningCurve

_EQUAL = 1e-6  # below which the logarithm of a factor is rounding
_LEVELS = 33  # errors at which curves are compared


def log_factor(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float:
    """log f: the first curve needs f times the samples of the second. NaN where no error is on both curves.

    A curve that rises in places is taken to fall there not at all.

    >>> n = np.array([10.0, 20, 40, 80])
    >>> round(float(np.exp(log_factor(n, 1 / n, 1 / (3 * n)))), 6)
    3.0
    """
    a, b = _falling(first), _falling(second)
    if a is None or b is None:
        return float("nan")
    low, high = max(a[-1], b[-1]), min(a[0], b[0])
    if not low < high:
        return float("nan")
    levels = low + (high - low) * (np.arange(_LEVELS) + 0.5) / _LEVELS
    at = [np.interp(-levels, -_strict(curve), np.log(sizes)) for curve in (a, b)]
    return float(np.mean(at[0] - at[1]))


def bound(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float | None:
    """What f exceeds where no error lies on both curves; negative: 1/f exceeds it; None where some error does."""
    span = float(sizes[-1] / sizes[0])
    if first.min() >= second.max():
        return span
    return -span if second.min() >= first.max() else None


def log_factor_at_end(
    sizes: Float[np.ndarray, " sizes"], first: Float[np.ndarray, " sizes"], second: Float[np.ndarray, " sizes"]
) -> float:
    """log f at the smallest error that both curves reach, the worse one with its largest training set.

    Where the better curve is below that error from the start, its smallest training set is taken. NaN where an error
    is not positive.

    >>> n = np.array([10.0, 20, 40, 80])
    >>> round(float(np.exp(log_factor_at_end(n, 1 / n, 1 / (3 * n)))), 6)
    3.0
    """
    a, b = _falling(first), _falling(second)
    if a is None or b is None:
        return float("nan")
    sign, better, level = (1, b, a[-1]) if a[-1] >= b[-1] else (-1, a, b[-1])
    needed = np.interp(-level, -_strict(better), np.log(sizes))
    log = float(np.log(sizes[-1]) - needed)
    return sign * log if log > _EQUAL else 0.0


def jackknifed(log: float, without: Float[np.ndarray, " parts"], level: float) -> Estimate:
    """exp of `log` with Student's interval of the pseudo-values; `without` each sample, or part of them, in turn."""
    if len(without) < 2 or not (math.isfinite(log) and np.isfinite(without).all()):
        return no_interval(math.exp(log), level)
    spread = t_interval((len(without) - 1) * (without.mean() - without), level)
    return Estimate(math.exp(log), math.exp(log + spread.low), math.exp(log + spread.high), level)


def measured_factor(
    sizes: Float[np.ndarray, " sizes"],
    first: Float[np.ndarray, "sizes repetitions"],
    second: Float[np.ndarray, "sizes repetitions"],
    level: float,
    log: Callable[..., float] = log_factor,
) -> Estimate:
    """f of the mean errors of curves that share their training sets, with its jackknife interval over repetitions."""
    rows = np.arange(first.shape[1])
    of = lambda kept: log(sizes, first[:, kept].mean(axis=1), second[:, kept].mean(axis=1))
    return jackknifed(of(rows), np.array([of(rows != r) for r in rows]), level)


def number_of(e: Estimate) -> str:
    """A factor, on the side of 1 on which it is."""
    return format_number(e.value, e.interval, (1.0, math.inf))


def ends_of(e: Estimate) -> str:
    """Both ends, on the side of 1 on which they are."""
    low, high = (format_number(end, e.interval, (1.0, math.inf)) for end in e.interval)
    return f"{low} to {high}"


def _falling(errors: np.ndarray) -> np.ndarray | None:
    """Logarithms of errors, where they rise those before; None where an error is not positive."""
    return np.minimum.accumulate(np.log(errors)) if (errors > 0).all() else None


def _strict(falling: np.ndarray) -> np.ndarray:
    """Falling everywhere, by steps too small to matter, so that it has an inverse."""
    return falling - 1e-12 * np.arange(len(falling))


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

    def to_dict(self) -> dict[str, Any]:
        """All entries as plain values."""
        e, d = self.estimate, self.difference
        return {
            "first": list(self.first),
            "second": list(self.second),
            "factor": plain_number(e.value),
            "interval": [plain_number(e.low), plain_number(e.high)],
            "level": e.confidence,
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
    return Factor(first, second, found, _bound(span, a, b, level), t_interval(a[-1] - b[-1], level), cut)


def _bound(span: float, a: np.ndarray, b: np.ndarray, level: float) -> float | None:
    """What f exceeds where one curve ends above the beginning of the other, as the interval of that difference says."""
    if t_interval(a[-1] - b[0], level).low > 0:
        return span
    return -span if t_interval(b[-1] - a[0], level).low > 0 else None


def cell(f: Factor) -> str:
    """A factor in a table, with its interval, or the bound that it exceeds."""
    if f.bound is not None:
        return f"> {f.bound:.3g}" if f.bound > 0 else f"< {-1 / f.bound:.3g}"
    e = f.estimate
    if f.cut:
        return f"{'≥' if e.value > 1 else '≤'} {e.value:.2g}"
    return f"{number_of(e)} ({ends_of(e)})" if e.has_interval else with_interval(e.value, e.interval)
