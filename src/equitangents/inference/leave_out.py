"""Leaving training samples out, from the eigendecomposition of the whole: Θ = U Λ Uᵀ.

Row r of Θ stands for samples of total weight ω_r, times √ω_r, as do its targets. For rows I and a shift δ, with
    P = [(Θ + δ)⁻¹]_II,   q = [(Θ + δ)⁻¹ √ω y]_I
the training without I predicts y − e at I, e = P⁻¹ q/√ω, with the posterior covariance S = (P⁻¹ − δ)/√ω√ω.
If weights ω′ of those rows stay, the prediction moves from there by
    S √ω′ (√ω′ S √ω′ + δ)⁻¹ √ω′ e.

All of it holds for complex δ, too. The response of gradient flow is a superposition of ridges,
    (1 − e^{−sλ})/λ = (1/2πi) ∫ (e^z/z) / (λ + z/s) dz
along a contour around the negative axis, so that predictions at every time are sums over a few complex δ = z/s.
Source: Weideman & Trefethen 2007 (the hyperbola and its error of 10⁻ⁿ with n nodes).
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Inexact, Int

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
    """y − prediction at the rows I of each of m trainings without them, with its own shift δ.

    targets: √ω y in the basis of `vectors`. weights, kept: ω of the rows, and what of it stays in the training.
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
    """How far the prediction moves by what is kept of the rows."""
    stay = kept > _KEPT * root**2
    S = (inverse - shift * np.eye(len(inverse))) / np.outer(root, root)
    k = np.sqrt(kept[stay])
    inner = k[:, None] * S[np.ix_(stay, stay)] * k + shift * np.eye(len(k))
    return (S[:, stay] * k) @ np.linalg.solve(inner, k[:, None] * errors[stay])


def flow_ridges() -> tuple[np.ndarray, np.ndarray]:
    """Nodes z and weights w of the upper half plane: (1 − e^{−sλ})/λ = 2 Re Σ w/(λ + z/s), to 1e-13 for all sλ ≥ 0.

    >>> z, w = flow_ridges()
    >>> abs(2 * float((w / (0.7 + z / 3.0)).sum().real) - (1 - math.exp(-2.1)) / 0.7) < 1e-12
    True
    """
    n = _NODES
    u = (np.arange(n) + 0.5) * 1.081792140 / n
    size, angle = 4.492075287 * n, 1.172104229
    z = size * (1 + np.sin(1j * u - angle))
    slope = 1j * size * np.cos(1j * u - angle)
    return z, np.exp(z) / z * slope * (1.081792140 / n) / (2j * math.pi)
