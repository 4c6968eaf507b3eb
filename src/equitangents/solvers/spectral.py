"""Solving by an eigendecomposition, of Θ or in feature space: any time, ridge and learning rate from one.

For kernels that are products of features, Θ = F Fᵀ with F (N, m), the cost is linear in N.
With FᵀF = V s Vᵀ the predictor φ(x)ᵀ w has w = V φ_t(s + δ) Vᵀ FᵀY: one pass over N × m numbers and algebra of m × m
matrices; α = F V (φ_t(s + δ)/s) Vᵀ FᵀY gives the same w = Fᵀα. If m > N the roles are exchanged.
Components of the targets outside the span of F are not learnt, and change no prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from equitangents.errors import InvalidArgumentError, NotFiniteError
from equitangents.inference.spectrum import decompose, dense_solve_bytes, relative
from equitangents.solvers.matrices import Index, SymmetricMatrix, spans
from equitangents.solvers.method import LinearSystem, Method, Respond, Solution, SolveReport, SolveTask


@dataclass(frozen=True)
class Eigh(Method):
    """All eigenvalues and eigenvectors of Θ, in float64."""

    name: ClassVar[str] = "eigh"
    any_time: ClassVar[bool] = True

    def memory(self, task: SolveTask) -> float:
        """Bytes of six float64 matrices."""
        return dense_solve_bytes(task.size)

    def prepare(self, system: LinearSystem, task: SolveTask) -> Respond:
        """Compute eigenvalues and eigenvectors of the matrix, once for all times."""
        matrix, dynamics = system.matrix, system.dynamics
        entries = matrix.finite(matrix.block(slice(None), slice(None)).astype(np.float64))
        spectrum = decompose(
            entries, ridge=system.ridge, ridge_unit=system.unit, precision=matrix.dtype, scale=system.scale
        )

        def respond(targets: np.ndarray, time: float) -> Solution:
            dynamics.check(spectrum.largest, time)
            spectrum.check_known(dynamics.rate, time)
            modes = spectrum.vectors.T @ targets
            alpha = spectrum.vectors @ (dynamics.response(spectrum.eigenvalues, time)[:, None] * modes)
            left = spectrum.vectors @ (dynamics.decay(spectrum.eigenvalues, time)[:, None] * modes)
            errors = relative(targets - left - system.product(alpha), targets)
            report = SolveReport(residual=float(np.max(errors)), smallest=spectrum.smallest, largest=spectrum.largest)
            return Solution(alpha, report)

        return respond


_ROWS = 2048  # of F, brought to float64 at once
_TILE = 1024


class FeatureMatrix(SymmetricMatrix):
    """F Fᵀ of the features F (N, m) of inputs, rows times `scale` (N,) if not None; F is computed on first use."""

    def __init__(self, kernel: Any, x: Any, field: str, scale: np.ndarray | None = None) -> None:
        self.kernel, self.x, self.field, self.scale = kernel, x, field, scale
        self.size, self.tile = len(x), min(_TILE, len(x))
        self.dtype = np.dtype(np.float32) if np.dtype(x.dtype) == np.float32 else np.dtype(np.float64)
        self.label = f"the {field.upper()} of {self.size} inputs, from random features"

    @cached_property
    def factor(self) -> np.ndarray:
        """F, (N, m), scaled."""
        found = np.asarray(self.kernel.transform(self.x, self.field), self.dtype)
        if not np.isfinite(found).all():
            raise NotFiniteError("features", self.label, "finite numbers")
        return found if self.scale is None else (found * self.scale[:, None]).astype(self.dtype)

    def block(self, rows: Index, columns: Index) -> np.ndarray:
        """Inner products of the features of some inputs."""
        return np.asarray(self.factor[rows] @ self.factor[columns].T)

    def diagonal(self) -> np.ndarray:
        """Squared norms of the features, in float64."""
        return np.einsum("nm,nm->n", self.factor, self.factor, dtype=np.float64)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """F (Fᵀ V), in float64."""
        return self.finite(self.forward(self.transposed(vectors)))

    def transposed(self, vectors: np.ndarray) -> np.ndarray:
        """Fᵀ V for V (N, k), in float64."""
        total = np.zeros((self.factor.shape[1], vectors.shape[1]))
        for rows in spans(self.size, _ROWS):
            total += self.factor[rows].astype(np.float64, copy=False).T @ vectors[rows]
        return total

    def forward(self, weights: np.ndarray) -> np.ndarray:
        """F w for w (m, k), in float64."""
        parts = [self.factor[rows].astype(np.float64, copy=False) @ weights for rows in spans(self.size, _ROWS)]
        return np.concatenate(parts)

    def cross(self, x: Any) -> np.ndarray:
        """The kernel between the inputs and others x, rows times the scale: F φ(x)ᵀ (N, M), in float64."""
        return self.forward(np.asarray(self.kernel.transform(x, self.field), np.float64).T)

    def squares(self) -> np.ndarray:
        """FᵀF (m, m), or F Fᵀ (N, N) if that is smaller, in float64."""
        if self.size <= self.factor.shape[1]:
            entries = self.factor.astype(np.float64, copy=False)
            return entries @ entries.T
        total = np.zeros((self.factor.shape[1],) * 2)
        for rows in spans(self.size, _ROWS):
            entries = self.factor[rows].astype(np.float64, copy=False)
            total += entries.T @ entries
        return total


@dataclass(frozen=True)
class Primal(Method):
    """The eigendecomposition of FᵀF, for a `FeatureMatrix` with `features` features: any time and right-hand side."""

    features: int

    name: ClassVar[str] = "primal"
    any_time: ClassVar[bool] = True

    def memory(self, task: SolveTask) -> float:
        """Bytes of F, of one pass over it, and of four matrices with min(N, m) rows."""
        n, m = task.size, self.features
        return task.itemsize * n * m + 8 * (4 * min(n, m) ** 2 + min(n, _ROWS) * m + 3 * n * task.outputs)

    def prepare(self, system: LinearSystem, task: SolveTask) -> Respond:
        """Compute FᵀF (or F Fᵀ) and its eigenvalues."""
        matrix = system.matrix
        if not isinstance(matrix, FeatureMatrix):
            raise InvalidArgumentError(
                "solver", self, "'auto' for kernels that are not of random features", system.matrix.label
            )
        squares = matrix.squares()
        values, vectors = scipy.linalg.eigh(squares)
        values = np.maximum(values, 0.0)
        dual, largest, shifted = len(values) == matrix.size, float(values[-1]), values + system.delta
        # what is below the rounding of features has no direction of its own
        cutoff = largest * max(len(values) * np.finfo(np.float64).eps, matrix.size * np.finfo(matrix.dtype).eps ** 2)
        known = values > cutoff

        def respond(targets: np.ndarray, time: float) -> Solution:
            system.dynamics.check(largest + system.delta, time)
            response, decay = np.zeros_like(values), np.ones_like(values)
            response[known] = system.dynamics.response(shifted[known], time)
            decay[known] = system.dynamics.decay(shifted[known], time)
            pulls = targets if dual else matrix.transposed(targets)
            modes = vectors.T @ pulls
            weights = vectors @ (response[:, None] * modes)
            wanted = vectors @ ((1 - decay)[:, None] * modes)
            errors = relative(squares @ weights + system.delta * weights - wanted, pulls)
            per = np.divide(response, values, out=np.zeros_like(values), where=known)
            alpha = weights if dual else matrix.forward(vectors @ (per[:, None] * modes))
            report = SolveReport(
                residual=float(np.max(errors)),
                smallest=float(shifted[0]) if dual else system.delta,
                largest=largest + system.delta,
                precision=f"float64 on {matrix.dtype.name} features",
                rank=int(math.fsum(known)),
            )
            return Solution(alpha, report)

        return respond
