"""How far the points of a learning curve are uncertain: from their standard errors, repetitions, or scatter.

Repetitions e_ij of size i: the relative deviations r_ij = e_ij/ē_i − 1 less their mean over sizes tell the errors of
points, that mean what a repetition has in common at all sizes (an easy test set, a lucky order of images): it moves the
height of a curve, not its slopes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
import scipy.stats
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError
from equitangents_studies.systems.broken_lines import BrokenLines

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

    `degrees` of freedom tell the variances: 0 where nothing does, infinity where they are given.
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
        return self.degrees > 0

    def noise(self, lines: BrokenLines) -> Noise:
        """The noise of a fit: what is known of the points' errors, unless they scatter about it by more."""
        spare = len(self.l) - 2 * lines.segments
        squares = float(lines.squares[lines.best])
        if not self.variance_known:
            return Noise(squares / spare, spare)
        variance, degrees = 1.0, self.degrees
        if spare > 0:
            lack = squares / spare
            critical = scipy.stats.f.ppf(_LACK, spare, min(self.degrees, 1e9))
            if lack > critical:
                variance, degrees = lack, float(spare)
            elif math.isfinite(self.degrees):
                degrees = self.degrees + spare
                variance = (squares + self.degrees) / degrees
        if self.deviations is None:
            return Noise(variance, degrees)
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


def measured_points(
    sizes: Float[np.ndarray, " points"], errors: np.ndarray, standard_errors: np.ndarray | None
) -> Points:
    """The points of a fit. Raises InvalidArgumentError where an error, or the mean of repetitions, is not positive."""
    means = errors if errors.ndim == 1 else errors.mean(axis=1)
    if not (means > 0).all() or (errors < 0).any():
        raise InvalidArgumentError(
            f"errors holds {min(float(means.min()), float(errors.min())):g}; a power law has positive errors only"
        )
    l, y = np.log(sizes), np.log(means)
    if standard_errors is not None:
        return Points(l, y, (means / standard_errors) ** 2, means, math.inf)
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
