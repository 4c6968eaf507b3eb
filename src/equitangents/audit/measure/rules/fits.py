"""One generator's matrix P on channels, from rows y of f(x) and z of f(ρ(s)x): the least Σ ‖z − P y‖².

permutations   max tr(Pᵀ Σ z yᵀ), an assignment of channels
orthogonal     P = U Vᵀ of Σ z yᵀ = U S Vᵀ (Procrustes)
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

_TIE = 1e-9  # of equally good assignments the one that moves fewer channels
_SNAP = 0.05  # entries nearer to 0 and ±1 than this may be meant to be them


def permutation(y: Float[np.ndarray, "n C"], z: Float[np.ndarray, "n C"]) -> Int[np.ndarray, " C"]:
    """Where each channel goes: z[:, p[c]] ≈ y[:, c]."""
    gain = y.T @ z
    bonus = _TIE * float(np.abs(gain).max(initial=0.0)) * np.eye(len(gain))
    return linear_sum_assignment(gain + bonus, maximize=True)[1]


def orthogonal(y: Float[np.ndarray, "n C"], z: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "C C"]:
    """The orthogonal matrix that takes y nearest to z."""
    U, _, Vt = np.linalg.svd(z.T @ y)
    return U @ Vt


def snapped(matrices: list[np.ndarray]) -> list[np.ndarray] | None:
    """The permutations with signs that these matrices nearly are; None if some matrix is no such."""
    near = [np.round(M) for M in matrices]
    signed = all(
        np.abs(M - N).max() <= _SNAP and (np.abs(N).sum(0) == 1).all() and (np.abs(N).sum(1) == 1).all()
        for M, N in zip(matrices, near, strict=True)
    )
    return near if signed else None
