"""Trained members of finite width beside infinitely wide ones: how much they vary along orbits, and how far they learn.

With P = 1 − 11ᵀ/|G| taking away the mean over an orbit, and f̄ the mean of m trained members,
    variance  Σ_i ‖P(f_i − f̄)‖² / (m − 1)  over  E‖P ε‖²,  ε ~ N(0, Σ)
    mean      ⟨f̄, μ⟩ / ⟨μ, μ⟩, the coefficient of μ in the mean of the trained members
both summed over all inputs and outputs, and free of the bias of finite m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.stats

from equitangents.ensembles.orbits.draws import OrbitLaw
from equitangents.planning.training import PilotTraining


@dataclass(frozen=True)
class Ratio:
    """Measured over predicted, with its jackknife interval over members."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class Pilot:
    """Trained networks that a plan is made from.

    members            how many
    variance, mean     along orbits and of the outputs, relative to infinitely wide networks; None if not compared
    training           what it took, or None for a pilot that was given
    """

    members: int
    variance: Ratio | None = None
    mean: Ratio | None = None
    training: PilotTraining | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        said = f"{self.members} networks"
        if self.training is not None:
            said += f", {self.training}"
        if self.variance is not None:
            said += f"; variance {self.variance} and mean {self.mean} times those of infinitely wide ones"
        return said


def ratios(outputs: np.ndarray, law: OrbitLaw, confidence: float) -> tuple[Ratio | None, Ratio | None]:
    """(variance, mean) of a pilot's outputs (m, n, |G|, K) beside the law of infinitely wide networks.

    None where the law's are 0.
    """
    spread = float((_along_orbits(law.fluctuations) ** 2).sum(axis=(1, 2, 3)).mean())
    size = float((law.mean**2).sum())
    count = len(outputs)
    deviations = _along_orbits(outputs).reshape(count, -1)
    products = (outputs * law.mean).sum(axis=(1, 2, 3))
    return (
        _jackknife(lambda kept: _variance(deviations[kept]) / spread, count, confidence, least=0.0)
        if spread > 0
        else None,
        _jackknife(lambda kept: float(products[kept].mean()) / size, count, confidence) if size > 0 else None,
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
