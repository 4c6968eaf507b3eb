"""What is solved: α = φ_t(Θ + δ) Y, φ_t the response of training for a time t; at t = ∞ it is (Θ + δ)⁻¹ Y.

δ = ridge · unit, unit the mean diagonal of Θ unless another one is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equitangents.inference.dynamics import Dynamics
from equitangents.inference.spectrum import relative_resolution
from equitangents.solvers.matrices import SymmetricMatrix


@dataclass(frozen=True)
class System:
    """The matrix Θ, its ridge, and how time goes; `scale`: see `Spectrum.scale`."""

    matrix: SymmetricMatrix
    ridge: float
    dynamics: Dynamics
    given_unit: float | None = None
    scale: float = 0.0

    @property
    def size(self) -> int:
        """The number of rows and columns of Θ."""
        return self.matrix.size

    @cached_property
    def unit(self) -> float:
        """What the ridge is multiplied by."""
        return float(self.matrix.diagonal().mean()) if self.given_unit is None else self.given_unit

    @cached_property
    def delta(self) -> float:
        """What the ridge adds to every eigenvalue."""
        return 0.0 if self.ridge == 0 else self.ridge * self.unit

    @cached_property
    def resolution(self) -> float:
        """How far rounding of the entries may move eigenvalues, over the largest."""
        return relative_resolution(self.size, self.matrix.dtype)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """(Θ + δ) V, in float64."""
        product = self.matrix.product(vectors)
        return product + self.delta * vectors if self.delta else product
