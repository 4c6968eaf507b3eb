"""Learning curves as power laws: error = a n^−α, with another exponent beyond a cusp, joined continuously.

On logarithms this is a continuous piecewise-linear fit by weighted least squares, over every place of the knots that
the data allow: y(l) = b₀ + b₁ (l − l̄) + Σ_j b_{j+1} (l − c_j)₊. For given knots c the fit is linear: with R(c) the
weighted sum of squared residuals, m(c) a linear function of the coefficients and v(c) its variance for unit noise, the
profile likelihood interval of m is the union over all c of m(c) ± √(v(c) (T − R(c) + min R)), T = (variance) · t².

The variance comes from repetitions or scatter. Of repetitions e_ij of size i, the relative deviations
r_ij = e_ij/ē_i − 1 less their mean over sizes give the errors of points. That mean is what a repetition has in common
at all sizes (an easy test set, a lucky order of images): it moves the height of a curve, not its slopes.

Data improve data efficiency (DIDE, arXiv 2207.04612) where the exponent grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.special
import scipy.stats
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import Numbers, check_array, check_confidence, check_number, check_whole
from equitangents.statistics import Estimate, no_interval, shared_level
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED, Outcome
from equitangents_studies.systems.conventions import lines_of

_FINENESS, _CLOSER = 401, 81  # places tried for a knot, and again about the best of them


@dataclass(frozen=True, eq=False)
class BrokenLines:
    """Fits to `y` at `l` with `weights`, one for each row of `knots`; `best` is the row with the least `squares`.

    `information` are the matrices XᵀWX of unit noise, inverted: the coefficients' covariances.
    """

    l: Float[np.ndarray, " points"]
    y: Float[np.ndarray, " points"]
    weights: Float[np.ndarray, " points"]
    knots: Float[np.ndarray, "places breaks"]
    coefficients: Float[np.ndarray, "places terms"]
    covariances: Float[np.ndarray, "places terms terms"]
    squares: Float[np.ndarray, " places"]

    @property
    def best(self) -> int:
        """The most likely place of the knots."""
        return int(np.argmin(self.squares))

    @property
    def segments(self) -> int:
        """One more than there are knots."""
        return self.knots.shape[1] + 1

    def slope(self, segment: int) -> Float[np.ndarray, "places terms"]:
        """The linear function of the coefficients that is the slope of a segment, counted from 0."""
        terms = np.arange(self.segments + 1)
        return np.broadcast_to(((terms >= 1) & (terms <= segment + 1)).astype(float), self.coefficients.shape)

    def level(self, at: float) -> Float[np.ndarray, "places terms"]:
        """The linear function of the coefficients that is the line's height at l = `at`."""
        return _terms(np.array([at]), self.knots, float(self.l.mean()))[:, 0]

    def value(self, of: Float[np.ndarray, "places terms"]) -> float:
        """What a linear function is at the best place."""
        return float(of[self.best] @ self.coefficients[self.best])

    def interval(
        self, of: Float[np.ndarray, "places terms"], variance: float, t: float, extra: float = 0.0
    ) -> tuple[float, float]:
        """Profile likelihood interval of a linear function, at t standard errors; `extra` is added to its variance."""
        centre = (of * self.coefficients).sum(axis=1)
        own = np.einsum("pi,pij,pj->p", of, self.covariances, of)
        slack = variance * t**2 - (self.squares - self.squares[self.best])
        reach = np.sqrt(np.maximum(own, 0) * np.maximum(slack, 0))
        allowed = slack >= 0
        reach = np.hypot(reach, t * np.sqrt(extra))
        return float((centre - reach)[allowed].min()), float((centre + reach)[allowed].max())

    def knot_interval(self, knot: int, variance: float, t: float) -> tuple[float, float]:
        """Profile likelihood interval of a knot's place, within the places tried."""
        allowed = self.squares - self.squares[self.best] <= variance * t**2
        places = self.knots[allowed, knot]
        return float(places.min()), float(places.max())

    def columns(
        self, of: Float[np.ndarray, "places terms"], values: Float[np.ndarray, "points samples"]
    ) -> Float[np.ndarray, " samples"]:
        """A linear function of the fits to other values, each column for itself, with the best knots."""
        X = _terms(self.l, self.knots[self.best : self.best + 1], float(self.l.mean()))[0]
        lever = self.covariances[self.best] @ (X * self.weights[:, None]).T
        return of[self.best] @ (lever @ values)


def edge(points: int, segments: int) -> int:
    """How many points the first and the last segment hold at least: 3, or 2 where there are few points.

    >>> edge(12, 2), edge(7, 2)
    (3, 2)
    """
    return 3 if points >= 3 * segments + 2 else 2


def fit_broken_lines(
    l: Float[np.ndarray, " points"],
    y: Float[np.ndarray, " points"],
    weights: Float[np.ndarray, " points"],
    segments: int,
) -> BrokenLines:
    """The first and the last segment hold `edge(points, segments)` points; the one at the knot counts for both.

    `l` increases.
    """
    if segments == 1:
        return _fits(l, y, weights, np.empty((1, 0)))
    inside = edge(len(l), segments) - 1
    first, last = l[inside], l[-1 - inside]
    axis = np.unique(np.append(np.linspace(first, last, _FINENESS), l[inside : len(l) - inside]))
    coarse = _fits(l, y, weights, axis[:, None])
    if len(axis) < 2:
        return coarse
    best, step = coarse.knots[coarse.best, 0], (last - first) / (_FINENESS - 1)
    near = np.clip(np.linspace(best - step, best + step, _CLOSER), first, last)
    return _fits(l, y, weights, np.unique(np.append(axis, near))[:, None])


def _fits(l: np.ndarray, y: np.ndarray, weights: np.ndarray, knots: np.ndarray) -> BrokenLines:
    X = _terms(l, knots, float(l.mean()))
    scaled = X * np.sqrt(weights)[:, None]
    Q, R = np.linalg.qr(scaled)
    inverse = np.linalg.inv(R)
    target = np.sqrt(weights) * y
    coefficients = np.einsum("pij,plj,l->pi", inverse, Q, target, optimize=True)
    residual = target - np.einsum("pli,pi->pl", scaled, coefficients)
    covariances = inverse @ inverse.transpose(0, 2, 1)
    return BrokenLines(l, y, weights, knots, coefficients, covariances, (residual**2).sum(axis=1))


def _terms(l: np.ndarray, knots: np.ndarray, middle: float) -> Float[np.ndarray, "places points terms"]:
    """The columns 1, l − l̄ and (l − c_j)₊."""
    hinges = np.maximum(l[None, :, None] - knots[:, None, :], 0)
    plain = np.stack([np.ones_like(l), l - middle], axis=1)
    return np.concatenate([np.broadcast_to(plain, (len(knots), *plain.shape)), hinges], axis=2)


_LACK = 0.95  # of fits without any lack of fit pass the test for one
_LOG_VARIANCE = lambda degrees: float(scipy.special.polygamma(1, degrees / 2))  # of the logarithm of χ²


@dataclass(frozen=True)
class Noise:
    """`variance` multiplies that of unit noise, `degrees` of freedom tell it; `shared` is the variance of all points'
    common height.
    """

    variance: float
    degrees: float
    shared: float = 0.0

    def steps(self, level: float, together: int = 1) -> float:
        """How many standard errors an interval of `level` reaches: Student's t, for several numbers together Scheffé's.

        >>> round(Noise(1.0, math.inf).steps(0.95), 2), round(Noise(1.0, 8).steps(0.95, 2), 2)
        (1.96, 2.99)
        """
        degrees = min(self.degrees, 1e9)
        return math.sqrt(together * float(scipy.stats.f.ppf(level, together, degrees)))


@dataclass(frozen=True, eq=False)
class Points:
    """Logarithms of sizes and mean errors, with weights 1/variance; `deviations` (S, repetitions) are relative.

    `degrees` of freedom of the variances: 0, without `deviations`, where the errors are not repeated.
    """

    l: Float[np.ndarray, " points"]
    y: Float[np.ndarray, " points"]
    weights: Float[np.ndarray, " points"]
    means: Float[np.ndarray, " points"]
    degrees: float
    deviations: Float[np.ndarray, "points repetitions"] | None = None

    @property
    def variance_known(self) -> bool:
        """Whether the points' errors are known apart from their scatter about a fit."""
        return self.deviations is not None

    def noise(self, lines: BrokenLines) -> Noise:
        """The noise of a fit: what is known of the points' errors, unless they scatter about it by more."""
        spare = len(self.l) - 2 * lines.segments
        squares = float(lines.squares[lines.best])
        if self.deviations is None:
            return Noise(squares / spare, spare)
        variance, degrees = 1.0, self.degrees
        if spare > 0:
            lack = squares / spare
            critical = scipy.stats.f.ppf(_LACK, spare, self.degrees)
            if lack > critical:
                variance, degrees = lack, float(spare)
            else:
                degrees = self.degrees + spare
                variance = (squares + self.degrees) / degrees
        count = self.deviations.shape[1]
        ratio = self._spread_of_slopes(lines)
        if ratio > variance * scipy.stats.f.ppf(_LACK, count - 1, degrees):
            variance, degrees = ratio, count - 1.0
        return Noise(variance, degrees, float(self.deviations.mean(axis=0).var(ddof=1)) / count)

    def _spread_of_slopes(self, lines: BrokenLines) -> float:
        """How much the slopes of single repetitions vary, over what independent errors of the points would do."""
        assert self.deviations is not None
        count, ratios = self.deviations.shape[1], []
        for segment in range(lines.segments):
            of = lines.slope(segment)
            own = float(of[lines.best] @ lines.covariances[lines.best] @ of[lines.best])
            ratios.append(float(lines.columns(of, self.deviations).var(ddof=1)) / count / own)
        return float(np.mean(ratios))


def measured_points(sizes: Float[np.ndarray, " points"], errors: np.ndarray) -> Points:
    """The points of a fit. Raises InvalidArgumentError where an error, or the mean of repetitions, is not positive."""
    means = errors if errors.ndim == 1 else errors.mean(axis=1)
    if not (means > 0).all() or (errors < 0).any():
        raise InvalidArgumentError(
            "errors",
            min(float(means.min()), float(errors.min())),
            remedy="a power law has positive errors only",
            verb="holds",
        )
    l, y = np.log(sizes), np.log(means)
    if errors.ndim == 1 or errors.shape[1] < 2:
        return Points(l, y, np.ones(len(l)), means, 0.0)
    count = errors.shape[1]
    deviations = errors / means[:, None] - 1
    own = deviations - deviations.mean(axis=0)
    degrees = (len(l) - 1) * (count - 1)
    variances = (own**2).sum(axis=1) / (count - 1) * len(l) / (len(l) - 1)
    if not variances.max() > 1e-24:
        return Points(l, y, np.ones(len(l)), means, 0.0)  # repetitions that are all alike tell nothing
    return Points(l, y, count / _smooth(l, variances, count), means, max(degrees - 2.0, 1.0), deviations)


def _smooth(l: np.ndarray, variances: np.ndarray, count: int) -> np.ndarray:
    """Variances as a power of the size, as far as `count` repetitions tell that they change with it (Stein)."""
    if len(l) < 3:
        return np.full(len(l), variances.mean())
    floor = np.maximum(variances, 1e-3 * variances.mean())
    (slope, _), covariance = np.polyfit(l, np.log(floor), 1, cov="unscaled")
    error = covariance[0, 0] * _LOG_VARIANCE(count - 1)  # of the slope, were there none
    slope *= max(0.0, 1 - error / slope**2) if slope else 0.0
    shape = np.exp(slope * (l - l.mean()))
    return shape * np.mean(floor / shape)


MOST_SEGMENTS = 2


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
    """A fitted learning curve; `exponents` are α of each segment, `cusps` the sizes where one gives way to the next.

    The intervals of all exponents and cusps hold together in `confidence` of fits (Bonferroni), given that the first
    and the last segment hold three sizes or more, those at cusps included (two, of fewer than 3 · segments + 2 sizes).
    `grows` and `at` have intervals of that `confidence` for themselves.
    """

    sizes: np.ndarray
    errors: np.ndarray
    exponents: tuple[Estimate, ...]
    cusps: tuple[Estimate, ...]
    grows: Growth
    confidence: float
    _lines: BrokenLines = field(default=None)  # type: ignore[assignment]
    _noise: Noise = field(default=None)  # type: ignore[assignment]

    @property
    def segments(self) -> int:
        """How many power laws are joined."""
        return len(self.exponents)

    @property
    def exponent(self) -> Estimate:
        """The exponent of the last segment, by which errors go on to fall."""
        return self.exponents[-1]

    @property
    def cusp(self) -> Estimate:
        """The only cusp. Raises InvalidArgumentError where there is none, or more than one."""
        if len(self.cusps) != 1:
            raise InvalidArgumentError("cusps", len(self.cusps), 1, "see cusps", verb="are")
        return self.cusps[0]

    def at(self, size: float) -> Estimate:
        """The error at any size, with its interval; beyond the data the last power law is taken to go on."""
        check_number("size", size, "a positive number", lambda n: n > 0)
        of = self._lines.level(math.log(size))
        t = self._noise.steps(self.confidence, self.segments)  # the height, and where the cusps are
        low, high = self._lines.interval(of, self._noise.variance, t, self._noise.shared)
        return Estimate(math.exp(self._lines.value(of)), math.exp(low), math.exp(high), self.confidence)

    def curve(self, sizes: Numbers) -> np.ndarray:
        """The fitted errors at many sizes, without intervals."""
        n = np.asarray(check_array("sizes", sizes, rank=1), np.float64)
        return np.exp([self._lines.value(self._lines.level(math.log(size))) for size in n])

    @property
    def table(self) -> dict[str, list[float]]:
        """One row a segment: where it begins and ends, its exponent and its interval."""
        ends = [float(self.sizes[0]), *(c.value for c in self.cusps), float(self.sizes[-1])]
        return {
            "from_size": ends[:-1],
            "to_size": ends[1:],
            "exponent": [e.value for e in self.exponents],
            "low": [e.low for e in self.exponents],
            "high": [e.high for e in self.exponents],
        }

    def __repr__(self) -> str:
        return lines_of(self.table)


def fit_power_law(
    sizes: Numbers,
    errors: Numbers,
    segments: int = 2,
    *,
    confidence: float = 0.95,
) -> PowerLaw:
    """Fit error = a n^−α with `segments` exponents, joined at cusps whose places are fitted, too.

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
    points = measured_points(n, values)
    _check_enough(len(n), check_whole("segments", segments, 1, MOST_SEGMENTS), points.variance_known)
    lines = fit_broken_lines(points.l, points.y, points.weights, segments)
    return _result(n, points.means, lines, points.noise(lines), confidence)


def _check_enough(points: int, segments: int, known: bool) -> None:
    least = 2 * segments if known else 2 * segments + 1
    if points < least:
        told = "" if known else "; with repetitions one fewer would do"
        raise InvalidArgumentError(
            f"sizes holds {points}, too few for {segments} segment{'s' * (segments > 1)}, which need {least}{told}"
        )


def _result(sizes: np.ndarray, errors: np.ndarray, lines: BrokenLines, noise: Noise, level: float) -> PowerLaw:
    k = lines.segments
    joint = shared_level(2 * k, level)  # k exponents, k − 1 cusps, and the height
    t = noise.steps(joint)

    def exponent(segment: int) -> Estimate:
        of = lines.slope(segment)
        low, high = lines.interval(of, noise.variance, t)
        return Estimate(-lines.value(of), -high, -low, level)

    def cusp(knot: int) -> Estimate:
        low, high = lines.knot_interval(knot, noise.variance, t)
        return Estimate(math.exp(lines.knots[lines.best, knot]), math.exp(low), math.exp(high), level)

    growth = no_interval(math.nan, level)
    if k > 1:
        of = lines.slope(0) - lines.slope(k - 1)
        growth = Estimate(lines.value(of), *lines.interval(of, noise.variance, noise.steps(level, k)), level)
    return PowerLaw(
        sizes=sizes,
        errors=errors,
        exponents=tuple(exponent(i) for i in range(k)),
        cusps=tuple(cusp(i) for i in range(k - 1)),
        grows=Growth(growth),
        confidence=level,
        _lines=lines,
        _noise=noise,
    )
