"""The log density of targets under N(0, Θ + δ), from the eigenvalues of Θ + δ and the targets in its eigenbasis.

    log p(Y) = −½ Σ_k |(UᵀY)_k|²/(λ_k + δ) − (outputs/2) [Σ_k log(λ_k + δ) + n log 2π],   outputs independent,
    d log p/dδ = ½ Σ_k |(UᵀY)_k|²/(λ_k + δ)² − (outputs/2) Σ_k 1/(λ_k + δ).
Source: Rasmussen & Williams 2006, equations 5.8 and 5.9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Inexact

from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference.spectrum import Spectrum, is_positive


@dataclass(frozen=True)
class Evidence:
    """The numbers of which the density is made, summed over blocks of a matrix; `numbers` counts targets."""

    squares: float = 0.0  # Yᵀ(Θ + δ)⁻¹Y
    log_determinant: float = 0.0  # of all outputs
    numbers: int = 0
    slope: float = 0.0  # d log p / d ridge

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(
            self.squares + other.squares,
            self.log_determinant + other.log_determinant,
            self.numbers + other.numbers,
            self.slope + other.slope,
        )

    @property
    def log_density(self) -> float:
        """log p(Y), the sum of the three terms above."""
        return -(self.squares + self.log_determinant + self.numbers * math.log(2 * math.pi)) / 2


def evidence(
    spectrum: Spectrum,
    targets: Inexact[np.ndarray, "n columns"],
    *,
    weight: float = 1.0,
    repeats: float = 1.0,
) -> Evidence:
    """One block's share: `targets` in its eigenbasis, their squares times `weight`, each eigenvalue `repeats` times.

    Raises NotPositiveDefiniteError, with the ridge that helps, unless targets have a density.
    """
    if not is_positive(spectrum.smallest, spectrum.largest, spectrum.blur):
        raise NotPositiveDefiniteError(
            f"the {spectrum.name} is not positive definite to working precision (smallest eigenvalue "
            f"{spectrum.smallest:.2e}, largest {spectrum.largest:.2e}), so its targets have no Gaussian density; "
            f"{spectrum.remedy()}"
        )
    values = spectrum.eigenvalues
    squares = (np.abs(targets) ** 2).sum(axis=1) * weight
    total = float(np.log(values).sum()) * repeats
    slope = float((squares / values**2 - repeats / values).sum()) / 2 * spectrum.ridge_unit
    return Evidence(float((squares / values).sum()), total, round(len(values) * repeats), slope)


def noise(spectrum: Spectrum, directions: int, squares: float = 0.0, *, above: float = 0.0) -> Evidence:
    """The share of `directions` in which Θ vanishes, as where samples are equal: the ridge alone, δ + above.

    squares: |Y|² there.
    """
    if not directions:
        return Evidence()
    delta = spectrum.delta + above
    if not delta > spectrum.blur:
        raise NotPositiveDefiniteError(
            f"the {spectrum.name} has equal samples and ridge={spectrum.ridge:g}, which is not enough noise to tell "
            f"them apart, so its targets have no density; {spectrum.remedy(delta)}, or take each sample once"
        )
    slope = (squares / delta**2 - directions / delta) / 2 * spectrum.ridge_unit
    return Evidence(squares / delta, directions * math.log(delta), directions, slope)
