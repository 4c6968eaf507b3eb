"""One eigendecomposition of the training kernel serves every time: Θ = U Λ Uᵀ.

With a ridge the eigenvalues become λ_i + δ, δ = ridge · ridge_unit (ridge_unit: the mean diagonal, tr Θ/N).
Rounding in Θ blurs eigenvalues by about `resolution` · λ_max; what lies below is not known to be positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError, ShapeError
from equitangents.validation import check_array

_INDEFINITE = 100.0  # so many times beyond the resolution, a negative eigenvalue is not a matter of rounding


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of Θ + δ (N,), ascending and clipped at 0, and the eigenvectors (N, N) in columns."""

    eigenvalues: np.ndarray
    vectors: np.ndarray
    ridge: float
    ridge_unit: float
    resolution: float
    smallest: float  # of Θ + δ, before clipping

    @property
    def largest(self) -> float:
        """λ_max of Θ + δ."""
        return float(self.eigenvalues[-1])

    def check_invertible(self) -> None:
        """Raise NotPositiveDefiniteError, with the ridge that helps, unless Θ + δ is surely invertible."""
        threshold = self.resolution * self.largest
        if self.largest > 0 and self.smallest > threshold:
            return
        raise NotPositiveDefiniteError(
            f"the kernel matrix of the {len(self.eigenvalues)} training inputs is not positive definite to working "
            f"precision (smallest eigenvalue {self.smallest:.2e}, largest {self.largest:.2e}), so training never ends "
            f"(time=inf) at one function; {self._remedy()} or take a finite time"
        )

    def check_semidefinite(self) -> None:
        """Raise NotPositiveDefiniteError if Θ + δ has eigenvalues too negative to be rounding."""
        if self.smallest < -_INDEFINITE * self.resolution * max(self.largest, 0.0) or self.largest < 0:
            raise NotPositiveDefiniteError(
                f"the kernel matrix of the {len(self.eigenvalues)} training inputs is indefinite (smallest eigenvalue "
                f"{self.smallest:.2e}, largest {self.largest:.2e}): it is no kernel; {self._remedy()}"
            )

    def _remedy(self) -> str:
        if self.ridge_unit <= 0:
            return "its diagonal vanishes, so no ridge helps: check the inputs and the network"
        delta = self.ridge * self.ridge_unit
        # Ten times above the threshold, itself taken for the matrix with the new ridge, so that the advice works.
        missing = 10 * self.resolution * self.largest - self.smallest
        wanted = (delta + missing / (1 - 10 * self.resolution)) / self.ridge_unit
        digit = 10.0 ** math.floor(math.log10(wanted))
        return f"set ridge={math.ceil(wanted / digit) * digit:.0e} or more,"


def decompose(
    matrix: np.ndarray,
    *,
    ridge: float = 0.0,
    ridge_unit: float | None = None,
    precision: np.dtype | type | str = np.float64,
) -> Spectrum:
    """Eigenvalues and eigenvectors of a kernel matrix (N, N), symmetric; δ = ridge · ridge_unit is added.

    `precision` is the type the matrix was computed in: N·ε of float64, or ε of float32 if larger, is the relative
    resolution. Raises NotPositiveDefiniteError if the matrix, ridge included, is clearly indefinite.
    """
    matrix = np.asarray(check_array("kernel matrix", matrix, rank=2), dtype=np.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"kernel matrix has shape {matrix.shape}; expected a square one")
    if not (np.isfinite(ridge) and ridge >= 0):
        raise InvalidArgumentError(f"ridge is {ridge!r}; it must be a finite number ≥ 0")
    n = len(matrix)
    eps = float(np.finfo(np.dtype(precision)).eps)
    resolution = max(n * float(np.finfo(np.float64).eps), eps)
    asymmetry = float(np.abs(matrix - matrix.T).max())
    if asymmetry > 1e3 * resolution * float(np.abs(matrix).max()):
        raise InvalidArgumentError(f"kernel matrix is not symmetric: entries ij and ji differ by up to {asymmetry:.2e}")
    unit = float(np.trace(matrix)) / n if ridge_unit is None else ridge_unit
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2, driver="evd", check_finite=False, overwrite_a=True)
    values = values + ridge * unit
    spectrum = Spectrum(np.maximum(values, 0.0), vectors, ridge, unit, resolution, float(values[0]))
    spectrum.check_semidefinite()
    return spectrum
