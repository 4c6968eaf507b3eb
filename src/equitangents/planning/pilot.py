"""Trained members of finite width beside infinitely wide ones: how much they vary along orbits, and how far they learn.

With P = 1 − 11ᵀ/|G| taking away the mean over an orbit, and f̄ the mean of m trained members,
    variance  Σ_i ‖P(f_i − f̄)‖² / (m − 1)  over  E‖P ε‖²,  ε ~ N(0, Σ)
    mean      ⟨f̄, μ⟩ / ⟨μ, μ⟩, the coefficient of μ in the mean of the trained members
both summed over all inputs and outputs, and free of the bias of finite m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.stats

from equitangents.ensembles.orbits.covariance import orbit_batch
from equitangents.ensembles.orbits.draws import OrbitLaw
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError


@dataclass(frozen=True)
class Ratio:
    """Measured over predicted, with its jackknife interval over members."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class PilotRatios:
    """What a pilot of `members` networks says: `variance` along orbits and `mean` relative to the predicted ones."""

    variance: Ratio
    mean: Ratio
    members: int

    def scaled(self, law: OrbitLaw) -> OrbitLaw:
        """The law with the pilot's mean and variance."""
        fluctuations = law.fluctuations * math.sqrt(self.variance.value)
        return replace(law, mean=law.mean * self.mean.value, fluctuations=fluctuations)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        return f"variance {self.variance} and mean {self.mean} times the predicted ones, from {self.members} members"


def pilot_ratios(pilot: Any, action: Any, x: Any, law: OrbitLaw, confidence: float) -> PilotRatios:
    """A trained ensemble of at least 3 members, with `predict_members`, beside the law of infinitely wide networks."""
    if not callable(getattr(pilot, "predict_members", None)):
        raise InvalidTypeError(f"pilot is {pilot!r}; expected a fitted DeepEnsemble")
    outputs = np.asarray(pilot.predict_members(orbit_batch(action, x)), np.float64)
    count = len(outputs)
    if count < 3:
        raise InvalidArgumentError(f"pilot has {count} members; it needs at least 3 to be compared")
    outputs = outputs.reshape(count, *law.mean.shape[:2], -1)
    if outputs.shape[1:] != law.mean.shape:
        raise ShapeError(f"pilot makes {outputs.shape[-1]} outputs; the planned ensemble {law.mean.shape[-1]}")
    spread = float((_along_orbits(law.fluctuations) ** 2).sum(axis=(1, 2, 3)).mean())
    size = float((law.mean**2).sum())
    if spread == 0 or size == 0:
        raise InvalidArgumentError("pilot cannot be compared: the predicted outputs, or their spread on orbits, are 0")
    deviations = _along_orbits(outputs).reshape(count, -1)
    coefficients = (outputs * law.mean).sum(axis=(1, 2, 3)) / size
    return PilotRatios(
        _jackknife(lambda kept: _variance(deviations[kept]) / spread, count, confidence, least=0.0),
        _jackknife(lambda kept: float(coefficients[kept].mean()), count, confidence),
        count,
    )


def _along_orbits(f: np.ndarray) -> np.ndarray:
    return f - f.mean(axis=-2, keepdims=True)


def _variance(deviations: np.ndarray) -> float:
    return float(((deviations - deviations.mean(axis=0)) ** 2).sum() / (len(deviations) - 1))


def _jackknife(
    statistic: Callable[[np.ndarray], float], count: int, confidence: float, least: float = -math.inf
) -> Ratio:
    everyone = np.arange(count)
    value = statistic(everyone)
    left_out = np.array([statistic(np.delete(everyone, i)) for i in range(count)])
    error = math.sqrt((count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum()))
    width = float(scipy.stats.t.ppf((1 + confidence) / 2, count - 1)) * error
    return Ratio(value, max(value - width, least), value + width)
