"""Model selection from a spectrum: leave-one-out errors, and the marginal likelihood of targets.

Leaving training samples out, from the eigendecomposition of the full matrix: Θ = U Λ Uᵀ.

Row r of Θ represents samples of total weight ω_r, times √ω_r, as do its targets. For rows I and a shift δ, with
    P = [(Θ + δ)⁻¹]_II,   q = [(Θ + δ)⁻¹ √ω y]_I
the training without I predicts y − e at I, e = P⁻¹ q/√ω, with the posterior covariance S = (P⁻¹ − δ)/√ω√ω.
If weights ω′ of those rows stay, the prediction moves from there by
    S √ω′ (√ω′ S √ω′ + δ)⁻¹ √ω′ e.

All of this also holds for complex δ. The response of gradient flow is a superposition of ridges,
    (1 − e^{−sλ})/λ = (1/2πi) ∫ (e^z/z) / (λ + z/s) dz
along a contour around the negative axis, so that predictions at every time are sums over a few complex δ = z/s.
Source: Weideman & Trefethen 2007 (the hyperbola and its error of 10⁻ⁿ with n nodes).

The log density of targets under N(0, Θ + δ), from the eigenvalues of Θ + δ and the targets in its eigenbasis.

    log p(Y) = −½ Σ_k |(UᵀY)_k|²/(λ_k + δ) − (outputs/2) [Σ_k log(λ_k + δ) + n log 2π],   outputs independent,
    d log p/dδ = ½ Σ_k |(UᵀY)_k|²/(λ_k + δ)² − (outputs/2) Σ_k 1/(λ_k + δ).
Source: Rasmussen & Williams 2006, equations 5.8 and 5.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Inexact, Int

from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference.dynamics import TrainedProcess
from equitangents.inference.spectrum import Spectrum, is_positive

_ENTRIES = 2**22  # of the resolvents that are alive at once
_NODES = 16  # more would only raise rounding, which e^{max Re z} = 280 multiplies
_KEPT = 1e-9  # of a row's weight: less is rounding of weights that were added and taken away


def errors_without(
    eigenvalues: Float[np.ndarray, " n"],
    vectors: Inexact[np.ndarray, "n n"],
    targets: Inexact[np.ndarray, "n outputs"],
    rows: Int[np.ndarray, "m b"],
    shifts: Inexact[np.ndarray, " m"],
    weights: Float[np.ndarray, "m b"],
    kept: Float[np.ndarray, "m b"],
) -> Inexact[np.ndarray, "m b outputs"]:
    """y − prediction at the rows I, for each of m trainings without them and with its own shift δ.

    targets: √ω y in the basis of `vectors`. weights, kept: ω of the rows, and the part of it that stays in training.
    """
    b = rows.shape[1]
    step = max(1, _ENTRIES // (len(eigenvalues) * b))
    parts = []
    for start in range(0, len(rows), step):
        at = slice(start, start + step)
        V = vectors[rows[at]]  # (m, b, n)
        W = V / (eigenvalues + shifts[at, None])[:, None]
        P, q = W @ V.conj().transpose(0, 2, 1), W @ targets
        root = np.sqrt(weights[at])
        if b == 1:
            inverse, scaled = 1 / P, q / P
        else:
            inverse = np.linalg.inv(P)
            scaled = inverse @ q
        errors = scaled / root[..., None]
        for i in np.flatnonzero((kept[at] > _KEPT * weights[at]).any(axis=1)):
            errors[i] -= _gain(inverse[i], shifts[start + i], root[i], kept[start + i], errors[i])
        parts.append(errors)
    return np.concatenate(parts)


def _gain(inverse: np.ndarray, shift: complex, root: np.ndarray, kept: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """The change of the prediction by the weights of the rows that are kept."""
    stay = kept > _KEPT * root**2
    S = (inverse - shift * np.eye(len(inverse))) / np.outer(root, root)
    k = np.sqrt(kept[stay])
    inner = k[:, None] * S[np.ix_(stay, stay)] * k + shift * np.eye(len(k))
    return (S[:, stay] * k) @ np.linalg.solve(inner, k[:, None] * errors[stay])


def errors_of_samples(
    process: TrainedProcess, traces: np.ndarray, copies: int, time: float, count: int = 1
) -> Callable[..., np.ndarray]:
    """A function for y − prediction at the rows (M, b) of samples `at` (M,) trained on the others: (M, b, columns).

    traces (N,): each sample's part of the mean diagonal's sum; copies: multiplicity of each sample. count: points of
    each copy, over which the ridge's unit is a mean. The function's arguments are (at, rows, weights, kept).
    """
    spectrum, targets, left = process.spectrum, process.targets, process.samples - copies
    values = spectrum.eigenvalues - spectrum.delta
    ridges = spectrum.ridge * (traces.sum() - traces) / (left * count)
    scale = math.inf if math.isinf(time) else process.dynamics.learning_rate * time / left

    def errors(at: np.ndarray, rows: np.ndarray, weights: np.ndarray, kept: np.ndarray) -> np.ndarray:
        ridged = lambda shift: errors_without(
            values, spectrum.vectors, targets, rows, ridges[at] + shift, weights, kept
        )
        if math.isinf(scale):
            return ridged(0.0)
        total = np.zeros((*rows.shape, targets.shape[1]), targets.dtype)
        for z, w in zip(*_flow_ridges(), strict=True):
            part = w * ridged(z / scale)
            if np.iscomplexobj(total):
                total += part + w.conjugate() * ridged(z.conjugate() / scale)
            else:
                total += 2 * part.real
        return total

    return errors


def _flow_ridges() -> tuple[np.ndarray, np.ndarray]:
    """Nodes z and weights w of the upper half plane: (1 − e^{−sλ})/λ = 2 Re Σ w/(λ + z/s), to 1e-13 for all sλ ≥ 0.

    >>> z, w = _flow_ridges()
    >>> abs(2 * float((w / (0.7 + z / 3.0)).sum().real) - (1 - math.exp(-2.1)) / 0.7) < 1e-12
    True
    """
    n = _NODES
    u = (np.arange(n) + 0.5) * 1.081792140 / n
    size, angle = 4.492075287 * n, 1.172104229
    z = size * (1 + np.sin(1j * u - angle))
    slope = 1j * size * np.cos(1j * u - angle)
    return z, np.exp(z) / z * slope * (1.081792140 / n) / (2j * math.pi)


@dataclass(frozen=True)
class Evidence:
    """The terms of the log density, summed over blocks of a matrix; `numbers` is the number of target values."""

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
    """One block's terms: `targets` in its eigenbasis, their squares times `weight`, each eigenvalue `repeats` times.

    Raises NotPositiveDefiniteError, with the ridge that helps, unless targets have a density.
    """
    if not is_positive(spectrum.smallest, spectrum.largest, spectrum.blur):
        raise spectrum.ends.refused(so=", so its targets have no Gaussian density", other="")
    values = spectrum.eigenvalues
    squares = (np.abs(targets) ** 2).sum(axis=1) * weight
    total = float(np.log(values).sum()) * repeats
    slope = float((squares / values**2 - repeats / values).sum()) / 2 * spectrum.ridge_unit
    return Evidence(float((squares / values).sum()), total, round(len(values) * repeats), slope)


def noise(spectrum: Spectrum, directions: int, squares: float = 0.0, *, above: float = 0.0) -> Evidence:
    """The terms of `directions` in which Θ vanishes, as for equal samples, with eigenvalues δ + above.

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
