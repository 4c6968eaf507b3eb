"""Learning curves as power laws: error = a n^−α, with another exponent beyond each cusp, joined continuously.

On logarithms this is a continuous broken line, fitted by weighted least squares over all places of the cusps. Intervals
are those of the profile likelihood. Data improve data efficiency (DIDE, arXiv 2207.04612) where the exponent grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.extending import Numbers, check_array, check_confidence, check_whole, is_whole
from equitangents.statistics import Estimate, no_interval, shared_level
from equitangents_studies.claim import FAILS, HOLDS, UNDECIDED, Outcome
from equitangents_studies.systems.broken_lines import BrokenLines, Noise, fit_broken_lines, measured_points
from equitangents_studies.systems.conventions import check_positive, lines_of

MOST_SEGMENTS = 4
_TRIED = 3  # segments up to which "auto" chooses
_SPARE = 3  # sizes that "auto" leaves beyond as many as there are parameters


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

    @property
    def value(self) -> float:
        """The last exponent minus the first."""
        return self.difference.value

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of that difference."""
        return self.difference.interval


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
    criterion: Mapping[int, float] = field(default_factory=dict)
    """BIC of each number of segments, where it was chosen by that; the smallest was taken."""
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
        check_positive("size", size)
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
    segments: int | Literal["auto"] = 2,
    *,
    standard_errors: Numbers | None = None,
    confidence: float = 0.95,
) -> PowerLaw:
    """Fit error = a n^−α with `segments` exponents, joined at cusps whose places are fitted, too.

    Args:
        sizes: training sizes (S,), increasing.
        errors: (S,), or (S, repetitions); then a repetition may share its sets between sizes, as nested ones do.
        segments: how many power laws are joined, up to 4, or "auto": as many as have the smallest BIC, 1 to 3. Each
            further segment counts as three parameters: its exponent, its cusp, and the search for that place.
        standard_errors: of `errors` (S,), if they are known. Without them, and without repetitions, the scatter about
            the fit tells them.
        confidence: of the intervals.

    Weighted least squares on logarithms of mean errors. Intervals are those of the profile likelihood over all places
    of the cusps, with Student's t. Where the points scatter about the fit by more than their own errors explain
    (F test at 5 %), the scatter sets the intervals.

    Raises InvalidArgumentError for sizes that do not increase, errors that are not positive, and too few sizes.

    Source: the piecewise power laws of arXiv 2207.04612; Hinkley 1971 for the profile; Kim et al. 2009 for the BIC.

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
    known = None
    if standard_errors is not None:
        known = np.asarray(check_array("standard_errors", standard_errors, shape=(len(n),)), np.float64)
        if values.ndim == 2:
            raise InvalidArgumentError("standard_errors and repetitions of errors are both given; give one of them")
        if not (known > 0).all():
            raise InvalidArgumentError("standard_errors", known.min(), "positive numbers", verb="holds")
    points = measured_points(n, values, known)
    chosen, criterion = _number(segments, points.l, points.y, points.weights, points.variance_known)
    _check_enough(len(n), chosen, points.variance_known)
    lines = fit_broken_lines(points.l, points.y, points.weights, chosen)
    return _result(n, points.means, lines, points.noise(lines), confidence, criterion)


def _number(
    segments: int | str, l: np.ndarray, y: np.ndarray, weights: np.ndarray, known: bool
) -> tuple[int, dict[int, float]]:
    """The number of segments, and the criterion of all that were compared."""
    if segments != "auto":
        if not is_whole(segments):
            raise InvalidTypeError("segments", segments, "a whole number or 'auto'")
        return check_whole("segments", segments, 1, MOST_SEGMENTS), {}
    most = max(1, min(_TRIED, (len(l) - _SPARE) // 2))
    squares = {k: float(fit_broken_lines(l, y, weights, k).squares.min()) for k in range(1, most + 1)}
    spare = len(l) - 2 * most
    scale = max(1.0, squares[most] / spare) if known and spare > 0 else 1.0
    tiny = 1e-26 * float(weights @ y**2)  # a perfect fit leaves rounding
    misfit = {k: s / scale if known else len(l) * math.log(max(s, tiny) / (len(l) - 2 * k)) for k, s in squares.items()}
    found = {k: m + math.log(len(l)) * (3 * k - 1) for k, m in misfit.items()}
    return min(found, key=lambda k: found[k]), found


def _check_enough(points: int, segments: int, known: bool) -> None:
    least = 2 * segments if known else 2 * segments + 1
    if points < least:
        told = "" if known else "; with standard_errors or repetitions one fewer would do"
        raise InvalidArgumentError(
            f"sizes holds {points}, too few for {segments} segment{'s' * (segments > 1)}, which need {least}{told}"
        )


def _result(
    sizes: np.ndarray, errors: np.ndarray, lines: BrokenLines, noise: Noise, level: float, criterion: dict[int, float]
) -> PowerLaw:
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
        criterion=criterion,
        _lines=lines,
        _noise=noise,
    )
