"""Squared means without sampling bias, with jackknife intervals.

An ensemble's mean of M members is never exactly invariant: sampling leaves 1/M of the members' variance. The quantity
of interest is the mean over infinitely many members; the U-statistic below is an unbiased estimate of its square.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.special
from jaxtyping import Float

from equitangents.errors import InvalidTypeError, ShapeError
from equitangents.statistics.bootstrap import RESAMPLES, ends, mean_interval, resample
from equitangents.statistics.estimate import Estimate, check_confidence
from equitangents.statistics.student import FEWEST


def squared_mean(deviations: Float[np.ndarray, "members values"], *, confidence: float = 0.95) -> Estimate:
    """Mean over values of (E d)², E over members: unbiased, with a jackknife interval over members.

    (‖Σ d‖² − Σ ‖d‖²) / (M(M − 1)K). Where E d = 0 the jackknife is conservative (it doubles the variance). Fewer than
    5 members give no interval.
    """
    check_confidence(confidence)
    deviations = _members("deviations", deviations)
    total, squares = _sums(deviations)
    count, values = deviations.shape
    value = (total @ total - squares.sum()) / (count * (count - 1) * values)
    return _safe(jackknife(value, _left_out(deviations, total, squares), confidence), deviations, values)


def bias_fraction(deviations: Float[np.ndarray, "members values"], *, confidence: float = 0.95) -> Estimate:
    """Fraction of the members' mean square that remains in the mean of infinitely many members: (E d)² / E d²."""
    return second_moment_share(deviations, deviations, confidence=confidence)


def second_moment_share(
    deviations: Float[np.ndarray, "members values"],
    outputs: Float[np.ndarray, "members values"],
    *,
    confidence: float = 0.95,
) -> Estimate:
    """(E d)² / E f²: a squared bias relative to the mean square of single outputs, with a jackknife interval."""
    check_confidence(confidence)
    deviations, outputs = _members("deviations", deviations), _members("outputs", outputs)
    total, squares = _sums(deviations)
    count, values = deviations.shape
    sizes = np.einsum("mk,mk->m", outputs, outputs)
    value = (total @ total - squares.sum()) / (count * (count - 1) * values) / (sizes.mean() / values)
    single = (sizes.sum() - sizes) / ((count - 1) * values)
    found = jackknife(value, _left_out(deviations, total, squares) / single, confidence)
    return _safe(found, deviations, float(sizes.mean()))


def quotient_of_squared_means(
    numerator: Float[np.ndarray, "members values"],
    denominator: Float[np.ndarray, "members values"],
    *,
    confidence: float = 0.95,
) -> Estimate:
    """(E d)² of one ensemble divided by that of another, independent one.

    The interval is Fieller's, exact for normal estimates of both; unbounded (not decidable) if the denominator's
    interval contains 0.
    """
    a, b = (squared_mean(d, confidence=confidence) for d in (numerator, denominator))
    variance_a, variance_b = (max(e.high - e.value, e.value - e.low) ** 2 for e in (a, b))  # already times t²
    divisor = b.value**2 - variance_b
    if not (a.has_interval and b.has_interval):
        return Estimate(a.value / b.value if b.value else np.nan, np.nan, np.nan, confidence)
    if b.value <= 0 or divisor <= 0:
        return Estimate(a.value / b.value if b.value else np.nan, -np.inf, np.inf, confidence)
    centre = a.value * b.value / divisor
    width = np.sqrt(max(centre**2 - (a.value**2 - variance_a) / divisor, 0.0))
    return Estimate(a.value / b.value, float(centre - width), float(centre + width), confidence)


def jackknife(value: float, left_out: Float[np.ndarray, " members"], level: float) -> Estimate:
    """`value` with the studentised interval of its pseudo-values; left_out: the statistic without each member in turn.

    No interval for fewer than 5 members. If no member changes the value by more than rounding, both ends are the value
    itself.
    """
    count = len(left_out)
    if count < FEWEST:
        return Estimate(float(value), math.nan, math.nan, level)
    influence = (count - 1) * (left_out.mean() - left_out)
    if float(np.abs(influence).max()) <= 1e-12 * abs(value):
        return Estimate(float(value), float(value), float(value), level)
    weights = resample(count, RESAMPLES, 0)
    low, high = ends(float(value), influence, value + weights @ influence, weights, level)
    return Estimate(float(value), low, high, level)


def _safe(found: Estimate, deviations: np.ndarray, unit: float) -> Estimate:
    """The interval widened by that of the length ‖E d‖ and by the standard deviation of v at E d = 0, with unit `unit`.

    Near 0 a squared mean v is skewed, and the jackknife's error vanishes with it. √(v + √(tr Σ²)/M) ± t √(λ/M), with
    the variance λ = tr Σ²/tr Σ along E d, is Student's interval if members differ in one direction; if members
    are skewed along it, its half widths are scaled as those of the interval of their mean.
    """
    if not found.has_interval:
        return found
    count, values = deviations.shape
    gram = (deviations - deviations.mean(axis=0)) @ (deviations - deviations.mean(axis=0)).T / (count - 1)
    trace = float(np.trace(gram))
    if trace <= 0:
        return found
    square = (count - 1) ** 2 / ((count - 2) * (count + 1)) * (float((gram**2).sum()) - trace**2 / (count - 1))
    square = max(square, trace**2 / values)  # tr Σ², without bias where values are normal
    t = float(scipy.special.stdtrit(count - 1, (1 + found.confidence) / 2))
    v = found.value * unit
    length = math.sqrt(max(v + math.sqrt(square) / count, 0.0))
    step, half_width = t * math.sqrt(square / trace / count), t * math.sqrt(2 * square / (count * (count - 1)))
    below, above = _stretch(deviations, t, found.confidence)
    low = min(max(length - below * step, 0.0) ** 2, v - half_width) / unit
    high = max((length + above * step) ** 2, v + half_width) / unit
    return Estimate(found.value, min(found.low, low), max(found.high, high), found.confidence)


def _stretch(deviations: np.ndarray, t: float, level: float) -> tuple[float, float]:
    """Ratios, at least 1, of the lower and upper half width of the interval of ‖E d‖ to Student's."""
    mean = deviations.mean(axis=0)
    size = float(np.linalg.norm(mean))
    if size == 0:
        return 1.0, 1.0
    along = deviations @ (mean / size)
    low, high = mean_interval(along, confidence=level)
    if math.isnan(low):
        return 1.0, 1.0
    step, centre = t * float(along.std(ddof=1)) / math.sqrt(len(along)), float(along.mean())
    return max((centre - low) / step, 1.0), max((high - centre) / step, 1.0)


def _members(name: str, values: npt.ArrayLike) -> Float[np.ndarray, "members values"]:
    """`values` in float64: squares of small integers overflow, and differences of float32 sums lose digits."""
    if np.iscomplexobj(values):
        raise InvalidTypeError(name, np.asarray(values).dtype, "real numbers", verb="has dtype")
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 2 or len(found) < 3:
        raise ShapeError(name, found.shape, "(members, values), members ≥ 3")
    return found


def _sums(deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return deviations.sum(axis=0), np.einsum("mk,mk->m", deviations, deviations)


def _left_out(deviations: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The U-statistic without each member in turn."""
    count, values = deviations.shape
    norms = total @ total - 2 * deviations @ total + squares
    return (norms - (squares.sum() - squares)) / ((count - 1) * (count - 2) * values)
