"""Continuous broken lines by weighted least squares, with every place of the knots that the data allow.

y(l) = b₀ + b₁ (l − l̄) + Σ_j b_{j+1} (l − c_j)₊. For given knots c the fit is linear: with R(c) the weighted sum of
squared residuals, m(c) a linear function of the coefficients and v(c) its variance for unit noise, the profile
likelihood interval of m is the union over all c of m(c) ± √(v(c) (T − R(c) + min R)), T = (variance) · t².
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

_FINENESS = {1: 1, 2: 401, 3: 61, 4: 25}  # places tried for each knot, by number of segments
_CLOSER = {1: 1, 2: 81, 3: 17, 4: 7}  # and again about the best of them


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
    """The first and the last segment hold `edge(points, segments)` points, others two; points at ends count for both.

    `l` increases.
    """
    n, inside = segments, edge(len(l), segments) - 1
    first_place, last_place = l[inside], l[-1 - inside]
    between = l[inside : len(l) - inside]
    grid = np.append(np.linspace(first_place, last_place, _FINENESS[n]), between)
    axis = np.unique(grid) if n > 1 else np.empty(0)
    coarse = _all_places([axis] * (n - 1), l)
    first = _fits(l, y, weights, coarse)
    if n == 1 or len(axis) < 2:
        return first
    step = (last_place - first_place) / (_FINENESS[n] - 1)
    near = [
        np.unique(np.clip(np.linspace(c - step, c + step, _CLOSER[n]), first_place, last_place))
        for c in first.knots[first.best]
    ]
    places = np.unique(np.concatenate([coarse, _all_places(near, l)]), axis=0)
    return _fits(l, y, weights, places)


def _all_places(axes: list[np.ndarray], l: np.ndarray) -> Float[np.ndarray, "places breaks"]:
    """All combinations of knots in increasing order with two points from each to the next."""
    if not axes:
        return np.empty((1, 0))
    places = np.array(list(itertools.product(*axes)))
    for a, b in itertools.pairwise(range(len(axes))):
        between = np.searchsorted(l, places[:, b], side="right") - np.searchsorted(l, places[:, a], side="left")
        places = places[(places[:, b] > places[:, a]) & (between >= 2)]
    return places


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
