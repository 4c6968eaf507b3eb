"""Climbing the marginal likelihood from an ensemble's own ridge and scales to the nearest maximum.

L-BFGS-B in log θ, with the derivatives of `gradients`; every step is a fit of its own. Source: Rasmussen & Williams
2006, section 5.4.1.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

from equitangents._types import Numbers, Targets
from equitangents.ensembles.infinite.evidence import SCALES, shared_scale
from equitangents.ensembles.infinite.tuning import points
from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError
from equitangents.inference.ridge import Ridge
from equitangents.validation import check_choice, check_whole

logger = logging.getLogger("equitangents")

NAMES = ("ridge", *SCALES)
_RANGE = 1e4  # a value stays within this factor of where it began
_LEVEL = 1e-3  # d log p / d log θ at which the likelihood counts as level: 1 % of θ changes log p by 1e-5


@dataclass(frozen=True)
class Refined:
    """Where climbing the log marginal likelihood ended; if `converged`, near a maximum, of which there may be more.

    ensemble: fitted, with the values found. start, values: by name, before and after. start_likelihood,
    log_marginal_likelihood: before and after. slopes: d log p / d log θ after. at_bound: names whose value moved by
    the largest factor allowed, 10,000. converged: whether every other slope is below 0.001. evaluations: how many
    ensembles were fitted. note: why it stopped early, if it did.
    """

    ensemble: BaseEstimator
    start: Mapping[str, float]
    values: Mapping[str, float]
    start_likelihood: float
    log_marginal_likelihood: float
    slopes: Mapping[str, float]
    at_bound: tuple[str, ...]
    evaluations: int
    note: str = ""

    @property
    def converged(self) -> bool:
        """Whether the likelihood is level in every value that is not at its bound."""
        inner = [abs(slope) for name, slope in self.slopes.items() if name not in self.at_bound]
        return all(slope < _LEVEL for slope in inner)

    def summary(self) -> str:
        """What changed, by how much, and whether the likelihood is level there."""
        moved = ", ".join(f"{name} {self.start[name]:.4g} → {value:.4g}" for name, value in self.values.items())
        rise = f"{self.start_likelihood:.6g} → {self.log_marginal_likelihood:.6g}"
        parts = [f"{moved}: log marginal likelihood {rise}, in {self.evaluations} fits."]
        inner = [name for name in self.slopes if name not in self.at_bound]
        if self.at_bound:
            far = " and ".join(self.at_bound)
            reached = f"{far} moved as far as allowed, by a factor of {_RANGE:,.0f}"
            parts.append(f"{reached}; beyond that the likelihood may be larger.")
        if inner and not self.converged:
            steepest = max(inner, key=lambda name: abs(self.slopes[name]))
            parts.append(
                f"It is not level there: 1 % of {steepest} changes it by {abs(self.slopes[steepest]) / 100:.2g}."
            )
        elif inner and self.at_bound:
            parts.append(f"It is level in {' and '.join(inner)}.")
        elif inner:
            parts.append("It is level there: a maximum near the start, of which there may be others.")
        return " ".join([*parts, self.note]).strip()

    def __str__(self) -> str:
        return self.summary()


@dataclass(frozen=True)
class _Place:
    ensemble: BaseEstimator
    log_u: np.ndarray
    likelihood: float
    slopes: np.ndarray  # by log θ


def refine(model: BaseEstimator, x: Numbers, y: Targets, names: Sequence[str] | None, evaluations: int) -> Refined:
    """Climb from `model`'s values; `InfiniteEnsemble.refine` says how."""
    check_whole("evaluations", evaluations, 1)
    start = _start(model, names)
    visited: list[_Place] = []
    note = ""

    def downhill(log_u: np.ndarray) -> tuple[float, np.ndarray]:
        if len(visited) == evaluations:
            raise _StoppedError(f"It stopped after the {evaluations} fits that it may take.")
        values = dict(zip(start, np.exp(log_u).tolist(), strict=True))
        try:
            ensemble = points(model, {name: [value] for name, value in values.items()})[0].ensemble.fit(x, y)
            likelihood = float(ensemble.log_marginal_likelihood_)
            gradient = ensemble.log_marginal_likelihood_gradient(*start)
        except NotPositiveDefiniteError as error:
            if not visited:
                raise
            raise _StoppedError(f"It stopped where the kernel matrix has no inverse: {error}") from None
        slopes = np.array([gradient[name] * values[name] for name in start])
        if not (math.isfinite(likelihood) and np.isfinite(slopes).all()):
            raise _StoppedError("It stopped where the likelihood is not a finite number.")
        visited.append(_Place(ensemble, log_u.copy(), likelihood, slopes))
        return -likelihood, -slopes

    first = np.log(list(start.values()))
    edge = math.log(_RANGE)
    try:
        minimize(
            downhill, first, jac=True, method="L-BFGS-B", bounds=[(u - edge, u + edge) for u in first],
            options={"gtol": _LEVEL / 10, "ftol": 1e-15},
        )  # fmt: skip
    except _StoppedError as stopped:
        note = str(stopped)
    if not visited:
        raise InvalidArgumentError("the log marginal likelihood is not a finite number at this ensemble's own values")
    best = max(visited, key=lambda place: place.likelihood)
    found = Refined(
        best.ensemble,
        start,
        dict(zip(start, np.exp(best.log_u).tolist(), strict=True)),
        visited[0].likelihood,
        best.likelihood,
        dict(zip(start, best.slopes.tolist(), strict=True)),
        tuple(name for name, moved in zip(start, np.abs(best.log_u - first), strict=True) if moved > edge - 1e-9),
        len(visited),
        note,
    )
    logger.info("refine: %s", found.summary())
    return found


class _StoppedError(Exception):
    """The climb ends at what was visited."""


def _start(model: BaseEstimator, names: Sequence[str] | None) -> dict[str, float]:
    """The values to begin with; of all names, if none are asked for, those that can be moved."""
    for name in names or ():
        check_choice("name", name, NAMES)
    found: dict[str, float] = {}
    for name in NAMES if names is None else dict.fromkeys(names):
        try:
            value = Ridge.number(model.ridge, "refine moves one") if name == "ridge" else shared_scale(model.net, name)
            if name != "ridge" and model.augmentation is not None:
                raise InvalidArgumentError(
                    name, value, "'ridge' alone with augmentation, of which others have no gradient"
                )
            if not value > 0:
                raise InvalidArgumentError(name, value, "a positive start, since refine changes values by factors")
        except InvalidArgumentError:
            if names is not None:
                raise
            continue
        found[name] = value
    if not found:
        raise InvalidArgumentError(
            "nothing can be refined: ridge is 0, and layers share no positive W_std or b_std, or inputs are augmented"
        )
    return found
