"""What was measured of tangent kernels in training: movements, losses and learning rates of every network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, bootstrap

Kind = tuple[str, str]  # a nonlinearity and a parametrisation


@dataclass(frozen=True, eq=False)
class Results:
    """By (nonlinearity, parametrisation): `movement` ‖Θ_t − Θ_0‖/‖Θ_0‖, `loss` (1/2N) Σ (f − y)² on training images
    (before training, then after `steps`), each (widths, networks, times); `rate`, the learning rates, is (widths,
    networks).
    """

    widths: np.ndarray
    steps: np.ndarray
    movement: dict[Kind, np.ndarray]
    loss: dict[Kind, np.ndarray]
    rate: dict[Kind, np.ndarray]

    def size(self, kind: Kind, width: int, step: int, level: float = 0.95) -> Estimate:
        """Geometric mean of the movement over networks, which single ones far out hardly change."""
        logs = self._logs(kind, step)[self.widths.tolist().index(width)]
        return bootstrap(logs[:, None], lambda means: np.exp(means[:, 0]), confidence=level)

    def exponent(self, kind: Kind, step: int, level: float = 0.95) -> Estimate:
        """The exponent of the mean movement against width, by least squares on logarithms; interval over networks."""
        x = np.log(self.widths)
        lever = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
        return bootstrap(lever @ self._logs(kind, step), confidence=level)

    def _logs(self, kind: Kind, step: int) -> np.ndarray:
        """Logarithms of the movement, (widths, networks); −∞ where nothing moved."""
        with np.errstate(divide="ignore"):
            return np.log(self.movement[kind][:, :, self.steps.tolist().index(step)])
