"""What is solved: α = φ_t(Θ + δ) Y, φ_t the response of training for a time t; at t = ∞ it is (Θ + δ)⁻¹ Y.

δ = ridge · unit, unit the mean diagonal of Θ unless another one is given.
"""

from __future__ import annotations

import math
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

    def response(self, eigenvalues: np.ndarray, time: float, rounding: float) -> np.ndarray:
        """φ_t of eigenvalues ≥ 0; at time inf, 0 of those up to `rounding`, which makes such numbers of 0."""
        if not math.isinf(time):
            return self.dynamics.response(eigenvalues, time)
        return np.divide(1.0, eigenvalues, out=np.zeros_like(eigenvalues), where=eigenvalues > rounding)

    def left(self, targets: np.ndarray, solutions: np.ndarray) -> np.ndarray:
        """|Y − (Θ + δ) α|/|Y| of each column."""
        return relative(targets - self.product(solutions), targets)


def relative(vectors: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """|V|/|Y| of each column, |V| where Y is 0."""
    sizes = np.linalg.norm(targets, axis=0)
    return np.linalg.norm(vectors, axis=0) / np.where(sizes > 0, sizes, 1.0)


def rounding_of(largest: float) -> float:
    """What rounding in float64 leaves of |Y − (Θ + δ) α|/|α|, for an eigenvalue λ_max of Θ + δ."""
    return 4 * float(np.finfo(np.float64).eps) * largest


def are_solved(
    residuals: np.ndarray, targets: np.ndarray, solutions: np.ndarray, tolerance: float, largest: float
) -> bool:
    """Whether relative residuals are those that were asked for, or what float64 leaves."""
    attainable = 100 * rounding_of(largest) * relative(solutions, targets)
    return bool((residuals <= np.maximum(10 * tolerance, attainable)).all())
