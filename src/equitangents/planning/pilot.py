"""The spread of trained members of finite width, relative to that of infinitely wide ones.

With P = 1 − 11ᵀ/|G| taking away the mean over an orbit and f̄ the mean of m trained members,
    v = Σ_i ‖P(f_i − f̄)‖² / (m − 1)  /  E‖P ε‖²,   ε ~ N(0, Σ)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from equitangents.ensembles.orbit_covariance import orbit_batch
from equitangents.ensembles.orbit_draws import OrbitLaw
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError


@dataclass(frozen=True)
class SpreadRatio:
    """v, measured variance along orbits over the predicted, with its jackknife interval over members."""

    value: float
    low: float
    high: float
    members: int

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}] from {self.members} members"


def spread_ratio(pilot: Any, action: Any, x: Any, law: OrbitLaw, confidence: float) -> SpreadRatio:
    """How much more the members of a trained ensemble vary along orbits than infinitely wide networks do.

    pilot: a fitted ensemble with `predict_members`; at least 3 members.
    """
    if not callable(getattr(pilot, "predict_members", None)):
        raise InvalidTypeError(f"pilot is {pilot!r}; expected a fitted DeepEnsemble")
    outputs = np.asarray(pilot.predict_members(orbit_batch(action, x)), np.float64)
    count = len(outputs)
    if count < 3:
        raise InvalidArgumentError(f"pilot has {count} members; a spread needs at least 3")
    outputs = outputs.reshape(count, *law.mean.shape[:2], -1)
    if outputs.shape[1:] != law.mean.shape:
        raise ShapeError(f"pilot makes {outputs.shape[-1]} outputs; the planned ensemble {law.mean.shape[-1]}")
    predicted = float((_along_orbits(law.fluctuations) ** 2).sum(axis=(1, 2, 3)).mean())
    if predicted == 0:
        raise InvalidArgumentError("pilot cannot be compared: the predicted spread along the orbits is 0")
    deviations = _along_orbits(outputs).reshape(count, -1)
    value = _variance(deviations) / predicted
    left_out = np.array([_variance(np.delete(deviations, i, axis=0)) for i in range(count)]) / predicted
    error = math.sqrt((count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum()))
    width = float(scipy.stats.t.ppf((1 + confidence) / 2, count - 1)) * error
    return SpreadRatio(value, max(value - width, 0.0), value + width, count)


def _along_orbits(f: np.ndarray) -> np.ndarray:
    return f - f.mean(axis=-2, keepdims=True)


def _variance(deviations: np.ndarray) -> float:
    return float(((deviations - deviations.mean(axis=0)) ** 2).sum() / (len(deviations) - 1))
