"""Learning curves as power laws: error = a n^−α, with another exponent beyond a cusp, joined continuously.

On logarithms this is a continuous piecewise-linear fit by weighted least squares, over every place of the knots that
the data allow: y(l) = b₀ + b₁ (l − l̄) + Σ_j b_{j+1} (l − c_j)₊. For given knots c the fit is linear: with R(c) the
weighted sum of squared residuals, m(c) a linear function of the coefficients and v(c) its variance for unit noise, the
profile likelihood interval of m is the union over all c of m(c) ± √(v(c) (T − R(c) + min R)), T = (variance) · t².

The variance comes from repetitions or scatter. For errors e_ij of size i and repetition j, the relative deviations r_ij
= e_ij/ē_i − 1 minus their mean over sizes give the errors of points. That mean is common to all sizes of a repetition
(an easy test set, a lucky order of images): it moves the height of a curve, not its slopes.

Data improve data efficiency (DIDE, arXiv 2207.04612) where the exponent grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.special
import scipy.stats
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import Numbers, check_array, check_confidence, check_number, check_whole
from equitangents.report import Table, text_of, with_interval
from equitangents.statistics import Estimate, no_interval, shared_level
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED, Outcome

_PLACES, _CLOSER = 401, 81  # places tried for a knot, and again about the best of them
_LACK = 0.95  # of fits without any lack of fit pass the test for one

Linear = Float[np.ndarray, "places terms"]
"""A linear function of the coefficients, for each place of the knot."""


class Noise(NamedTuple):
    """Noise `variance` in units of the weights', its `degrees` of freedom, and the variance `shared` by all points."""

    variance: float
    degrees: float
    shared: float = 0.0

    def steps(self, level: float, together: int = 1) -> float:
        """Half width of an interval in standard errors: Student's t, or Scheffé's for several numbers `together`.

        >>> round(Noise(1.0, math.inf).steps(0.95), 2), round(Noise(1.0, 8).steps(0.95, 2), 2)
        (1.96, 2.99)
        """
        return math.sqrt(together * float(scipy.stats.f.ppf(level, together, min(self.degrees, 1e9))))


@dataclass(frozen=True, eq=False)
class LogPoints:
    """Logarithms of sizes and mean errors, with weights 1/variance; `deviations` (S, repetitions) are relative.

    `degrees` of freedom of the variances: 0 if errors are not repeated (then there are no `deviations`).
    """

    l: Float[np.ndarray, " points"]
    y: Float[np.ndarray, " points"]
    weights: Float[np.ndarray, " points"]
    degrees: float = 0.0
    deviations: Float[np.ndarray, "points repetitions"] | None = None

    def terms(self, l: np.ndarray, knots: np.ndarray) -> Float[np.ndarray, "places points terms"]:
        """The columns 1, l − l̄ and (l − c_j)₊."""
        hinges = np.maximum(l[None, :, None] - knots[:, None, :], 0)
        plain = np.stack([np.ones_like(l), l - float(self.l.mean())], axis=1)
        return np.concatenate([np.broadcast_to(plain, (len(knots), *plain.shape)), hinges], axis=2)

    def at_knots(self, knots: Float[np.ndarray, "places breaks"]) -> Lines:
        """Fits for each placement of the knots, a row of `knots`."""
        scaled = self.terms(self.l, knots) * np.sqrt(self.weights)[:, None]
        Q, R = np.linalg.qr(scaled)
        inverse = np.linalg.inv(R)
        target = np.sqrt(self.weights) * self.y
        coefficients = np.einsum("pij,plj,l->pi", inverse, Q, target, optimize=True)
        residual = target - np.einsum("pli,pi->pl", scaled, coefficients)
        covariances = inverse @ inverse.transpose(0, 2, 1)
        return Lines(self, knots, coefficients, covariances, (residual**2).sum(axis=1))

    def fit(self, segments: int) -> Lines:
        """Fit one line, or two that meet at a knot (a point at the knot counts for both).

        The outer segments hold at least 3 points, or 2 if there are fewer than 3 · segments + 2.
        """
        if segments == 1:
            return self.at_knots(np.empty((1, 0)))
        inside = 2 if len(self.l) >= 3 * segments + 2 else 1
        first, last = self.l[inside], self.l[-1 - inside]
        axis = np.unique(np.append(np.linspace(first, last, _PLACES), self.l[inside : len(self.l) - inside]))
        coarse = self.at_knots(axis[:, None])
        if len(axis) < 2:
            return coarse
        best, step = coarse.knots[coarse.best, 0], (last - first) / (_PLACES - 1)
        near = np.clip(np.linspace(best - step, best + step, _CLOSER), first, last)
        return self.at_knots(np.unique(np.append(axis, near))[:, None])


@dataclass(frozen=True, eq=False)
class Lines:
    """Fits to `points`, one for each row of `knots`; `covariances` are the coefficients' for unit noise, (XᵀWX)⁻¹."""

    points: LogPoints
    knots: Float[np.ndarray, "places breaks"]
    coefficients: Linear
    covariances: Float[np.ndarray, "places terms terms"]
    squares: Float[np.ndarray, " places"]

    @property
    def best(self) -> int:
        """Index of the most likely placement of the knots."""
        return int(np.argmin(self.squares))

    @property
    def segments(self) -> int:
        """Number of segments, one more than knots."""
        return self.knots.shape[1] + 1

    def slope(self, segment: int) -> Linear:
        """The slope of a segment, counted from 0."""
        terms = np.arange(self.segments + 1)
        return np.broadcast_to(((terms >= 1) & (terms <= segment + 1)).astype(float), self.coefficients.shape)

    def level(self, size: float) -> Linear:
        """The logarithm of the error at a size."""
        return self.points.terms(np.array([math.log(size)]), self.knots)[:, 0]

    def value(self, of: Linear) -> float:
        """Value of a linear function at the best place."""
        return float(of[self.best] @ self.coefficients[self.best])

    def interval(self, of: Linear, noise: Noise, t: float, *, shared: bool = False) -> tuple[float, float]:
        """Profile likelihood interval of a linear function, at t standard errors, plus the `shared` variance."""
        centre = (of * self.coefficients).sum(axis=1)
        own = np.einsum("pi,pij,pj->p", of, self.covariances, of)
        slack = noise.variance * t**2 - (self.squares - self.squares[self.best])
        reach = np.sqrt(np.maximum(own, 0) * np.maximum(slack, 0))
        reach = np.hypot(reach, t * np.sqrt(noise.shared if shared else 0.0))
        allowed = slack >= 0
        return float((centre - reach)[allowed].min()), float((centre + reach)[allowed].max())

    def knot_interval(self, knot: int, noise: Noise, t: float) -> tuple[float, float]:
        """Profile likelihood interval of a knot's place, within the places tried."""
        allowed = self.squares - self.squares[self.best] <= noise.variance * t**2
        places = self.knots[allowed, knot]
        return float(places.min()), float(places.max())

    @property
    def noise(self) -> Noise:
        """Noise of the points: from repetitions, or from the scatter about the fit if that is larger."""
        points, spare = self.points, len(self.points.l) - 2 * self.segments
        squares = float(self.squares[self.best])
        if points.deviations is None:
            return Noise(squares / spare, spare)
        variance, degrees = 1.0, points.degrees
        if spare > 0 and squares / spare > scipy.stats.f.ppf(_LACK, spare, points.degrees):
            variance, degrees = squares / spare, float(spare)
        elif spare > 0:
            degrees = points.degrees + spare
            variance = (squares + points.degrees) / degrees
        count = points.deviations.shape[1]
        ratio = self._variance_of_slopes(points.deviations)
        if ratio > variance * scipy.stats.f.ppf(_LACK, count - 1, degrees):
            variance, degrees = ratio, count - 1.0
        return Noise(variance, degrees, float(points.deviations.mean(axis=0).var(ddof=1)) / count)

    def _variance_of_slopes(self, deviations: np.ndarray) -> float:
        """Variance of single repetitions' slopes over that expected from independent errors of the points."""
        X = self.points.terms(self.points.l, self.knots[self.best : self.best + 1])[0]
        covariance, ratios = self.covariances[self.best], []
        lever = covariance @ (X * self.points.weights[:, None]).T
        for segment in range(self.segments):
            of = self.slope(segment)[self.best]
            own = float(of @ covariance @ of)
            ratios.append(float((of @ (lever @ deviations)).var(ddof=1)) / deviations.shape[1] / own)
        return float(np.mean(ratios))


def measured_points(sizes: Float[np.ndarray, " points"], errors: np.ndarray) -> LogPoints:
    """The points of a fit. Raises InvalidArgumentError where an error, or the mean of repetitions, is not positive."""
    repeated = errors.reshape(len(errors), -1)
    means, count = errors if errors.ndim == 1 else errors.mean(axis=1), repeated.shape[1]
    if not (means > 0).all() or (errors < 0).any():
        least = min(float(means.min()), float(errors.min()))
        raise InvalidArgumentError("errors", least, remedy="a power law has positive errors only", verb="holds")
    l, y = np.log(sizes), np.log(means)
    if count > 1:
        deviations = repeated / means[:, None] - 1
        own = deviations - deviations.mean(axis=0)
        variances = (own**2).sum(axis=1) / (count - 1) * len(l) / (len(l) - 1)
        if variances.max() > 1e-24:  # equal repetitions have no variance to estimate
            degrees = max((len(l) - 1) * (count - 1) - 2.0, 1.0)
            return LogPoints(l, y, count / _smooth(l, variances, count), degrees, deviations)
    return LogPoints(l, y, np.ones(len(l)))


def _smooth(l: np.ndarray, variances: np.ndarray, count: int) -> np.ndarray:
    """Variances as a power law of the size, shrunk towards a constant according to `count` repetitions (Stein)."""
    if len(l) < 3:
        return np.full(len(l), variances.mean())
    bounded = np.maximum(variances, 1e-3 * variances.mean())
    (slope, _), covariance = np.polyfit(l, np.log(bounded), 1, cov="unscaled")
    of_logarithm = float(scipy.special.polygamma(1, (count - 1) / 2))  # variance of the logarithm of χ²
    error = covariance[0, 0] * of_logarithm  # of the slope, were there none
    slope *= max(0.0, 1 - error / slope**2) if slope else 0.0
    shape = np.exp(slope * (l - l.mean()))
    return shape * np.mean(bounded / shape)


@dataclass(frozen=True)
class Growth:
    """Whether the exponent grows with data: the last exponent minus the first, with its interval.

    `verdict` is "holds" if the whole interval is above 0, "fails" if none of it is, else "undecided".
    """

    difference: Estimate

    @property
    def verdict(self) -> Outcome:
        """Whether data improve data efficiency on these sizes."""
        if not self.difference.has_interval:
            return UNDECIDED
        return HOLDS if self.difference.low > 0 else FAILS if self.difference.high <= 0 else UNDECIDED


@dataclass(frozen=True, eq=False, repr=False)
class PowerLaw:
    """A fitted learning curve; `exponents` are α of each segment, `cusps` the sizes between segments.

    The intervals of all exponents and cusps hold together in `confidence` of fits (Bonferroni), given that the first
    and the last segment hold three sizes or more, those at cusps included (two, of fewer than 3 · segments + 2 sizes).
    `grows` and `at` have intervals of that `confidence` for themselves.
    """

    exponents: tuple[Estimate, ...]
    cusps: tuple[Estimate, ...]
    grows: Growth
    confidence: float
    lines: Lines

    @property
    def exponent(self) -> Estimate:
        """The exponent of the last segment."""
        return self.exponents[-1]

    @property
    def cusp(self) -> Estimate:
        """The only cusp. Raises InvalidArgumentError if there is none."""
        if not self.cusps:
            raise InvalidArgumentError("cusps", 0, 1, "fit two segments", verb="are")
        return self.cusps[0]

    def at(self, size: float) -> Estimate:
        """The error at any size, with its interval; beyond the data the last power law is extrapolated."""
        check_number("size", size, "a positive number", lambda n: n > 0)
        of, noise = self.lines.level(size), self.lines.noise
        t = noise.steps(self.confidence, len(self.exponents))  # the height, and where the cusps are
        low, high = self.lines.interval(of, noise, t, shared=True)
        return Estimate(math.exp(self.lines.value(of)), math.exp(low), math.exp(high), self.confidence)

    def curve(self, sizes: Numbers) -> np.ndarray:
        """The fitted errors at many sizes, without intervals."""
        n = np.asarray(check_array("sizes", sizes, rank=1), np.float64)
        return np.exp([self.lines.value(self.lines.level(size)) for size in n])

    def __repr__(self) -> str:
        first, *_, last = np.exp(self.lines.points.l)
        ends = [f"{n:.4g}" for n in (first, *(c.value for c in self.cusps), last)]
        exponents = [with_interval(e.value, e.interval) for e in self.exponents]
        return text_of(Table("", ("from", "to", "exponent"), [*zip(ends[:-1], ends[1:], exponents, strict=True)]))


def fit_power_law(
    sizes: Numbers,
    errors: Numbers,
    segments: int = 2,
    *,
    confidence: float = 0.95,
) -> PowerLaw:
    """Fit error = a n^−α with `segments` exponents, joined at fitted cusps.

    Args:
        sizes: training sizes (S,), increasing.
        errors: (S,), or (S, repetitions); then a repetition may share its sets between sizes, as nested ones do.
        segments: how many power laws are joined, 1 or 2.
        confidence: of the intervals.

    Weighted least squares on logarithms of mean errors. Intervals are those of the profile likelihood over all places
    of the cusps, with Student's t. Where the points scatter about the fit by more than their own errors explain
    (F test at 5 %), the scatter sets the intervals.

    Raises InvalidArgumentError for sizes that do not increase, errors that are not positive, and too few sizes.

    Source: the piecewise power laws of arXiv 2207.04612; Hinkley 1971 for the profile.

    >>> n = np.array([100.0, 200, 400, 800, 1600, 3200, 6400])
    >>> law = fit_power_law(n, np.where(n < 800, 3 * n**-0.2, 3 * 800**0.3 * n**-0.5))
    >>> [round(e.value, 6) for e in law.exponents], round(law.cusp.value, 3)
    ([0.2, 0.5], 800.0)
    >>> law.grows.verdict
    'holds'
    """
    n = np.asarray(check_array("sizes", sizes, rank=1), np.float64)
    if not (len(n) >= 2 and (n > 0).all() and (np.diff(n) > 0).all()):
        raise InvalidArgumentError("sizes", n.tolist(), "two or more positive sizes, increasing")
    check_confidence(confidence)
    values = np.asarray(check_array("errors", errors, rank=(1, 2)), np.float64)
    if len(values) != len(n):
        raise ShapeError("errors", values.shape, (len(n), ...))
    points, k = measured_points(n, values), check_whole("segments", segments, 1, 2)
    least = 2 * k + (points.deviations is None)
    if len(n) < least:
        raise InvalidArgumentError("sizes", len(n), least, "or more for so many segments", verb="holds")
    lines = points.fit(k)
    noise = lines.noise
    t = noise.steps(shared_level(2 * k, confidence))  # k exponents, k − 1 cusps, and the height
    exponents, growth = [], no_interval(math.nan, confidence)
    for of in map(lines.slope, range(k)):
        low, high = lines.interval(of, noise, t)
        exponents.append(Estimate(-lines.value(of), -high, -low, confidence))
    if k > 1:
        of = lines.slope(0) - lines.slope(k - 1)
        growth = Estimate(lines.value(of), *lines.interval(of, noise, noise.steps(confidence, k)), confidence)
    cusps = []
    for knot in range(k - 1):
        low, high = lines.knot_interval(knot, noise, t)
        place = math.exp(lines.knots[lines.best, knot])
        cusps.append(Estimate(place, math.exp(low), math.exp(high), confidence))
    return PowerLaw(tuple(exponents), tuple(cusps), Growth(growth), confidence, lines)
