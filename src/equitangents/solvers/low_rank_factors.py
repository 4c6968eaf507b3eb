"""Low-rank factors Θ ≈ F Fᵀ, and preconditioners from them.

By randomly pivoted Cholesky, from columns. Sources: Chen, Epperly, Tropp & Webber 2023 (arXiv 2207.06503) and Epperly,
Tropp & Webber 2024 (arXiv 2410.03969, pivots drawn in blocks and accepted by rejection); Frangella, Tropp & Udell 2023
(arXiv 2110.02820), of which equation 5.2 is
P⁻¹ = (λ + δ) U(Λ + δ)⁻¹Uᵀ + (1 − UUᵀ) with Θ ≈ UΛUᵀ of low rank, λ its smallest eigenvalue, so that P ≥ 1 and
λ_min(Θ + δ) ≥ λ_min(P⁻¹(Θ + δ)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference.definiteness import NO_RIDGE
from equitangents.solvers.conjugate_gradients import Preconditioner
from equitangents.solvers.matrices import ArrayMatrix, SymmetricMatrix

_BLOCK = 64  # pivots drawn at once, at most
_NEGATIVE = 1e3  # times the rounding of entries: below minus that a diagonal entry is no matter of rounding


class Pivoted(NamedTuple):
    """F (N, rank), the pivots in their order, and what is left of the trace."""

    factor: np.ndarray
    pivots: np.ndarray
    trace_left: float


class LowRank(Preconditioner):
    """From a factor F (N, rank) of Θ ≈ F Fᵀ, which is overwritten by its left singular vectors."""

    def __init__(self, factor: np.ndarray, delta: float) -> None:
        root, self.values = inverse_root(factor.T @ factor, factor.shape[1] * float(np.finfo(np.float64).eps))
        self.vectors = factor @ root
        self._weights = (self.values[0] + delta) / (self.values + delta) - 1

    def apply(self, residuals: np.ndarray) -> np.ndarray:
        """The residuals preconditioned: P⁻¹ R = R + V ((λ_1 + δ)/(λ + δ) - 1) Vᵀ R, (N, k)."""
        return residuals + self.vectors @ (self._weights[:, None] * (self.vectors.T @ residuals))


def pivoted_cholesky(matrix: SymmetricMatrix, rank: int, *, seed: int) -> Pivoted:
    """Pivots drawn with probability proportional to the residual diagonal; ends early where nothing is left."""
    rng = np.random.default_rng(seed)
    n = matrix.size
    left = matrix.diagonal()
    first = float(left.sum())
    rounding = float(np.finfo(matrix.dtype).eps) * max(float(left.max(initial=0.0)), 0.0)
    _check_diagonal(matrix.finite(left), rounding, matrix.words)
    factor, pivots = np.zeros((n, rank), order="F"), np.empty(rank, int)
    held = 0
    while held < rank:
        left = np.where(left > 4 * rounding, left, 0.0)
        left[pivots[:held]] = 0.0
        total = float(left.sum())
        if not total > 1e-14 * first:
            break
        count = min(_BLOCK, max(1, rank // 10), rank - held)
        drawn = rng.choice(n, count, p=left / total)
        proposed, where = np.unique(drawn, return_inverse=True)
        residual = matrix.finite(matrix.columns(proposed) - factor[:, :held] @ factor[proposed, :held].T)
        chosen, corner = _accepted(residual[proposed], where, left[proposed], rng)
        if not len(chosen):
            break
        new = scipy.linalg.solve_triangular(corner, residual[:, chosen].T, lower=True).T
        factor[:, held : held + len(chosen)] = new
        pivots[held : held + len(chosen)] = proposed[chosen]
        held += len(chosen)
        left = left - np.einsum("nk,nk->n", new, new)
    return Pivoted(factor[:, :held], pivots[:held], max(0.0, float(left.sum())))


def cheap_pivots(matrix: SymmetricMatrix, rank: int, *, seed: int) -> np.ndarray | None:
    """Pivots among the rows whose columns are cheap; None where all are."""
    rows = matrix.landmark_rows(rank, np.random.default_rng(seed))
    if rows is None:
        return None
    entries = matrix.rectangle(rows, rows)
    held = ArrayMatrix((entries + entries.T) / 2, matrix.words)
    return rows[pivoted_cholesky(held, rank, seed=seed).pivots]


def factor_on(matrix: SymmetricMatrix, pivots: np.ndarray) -> np.ndarray:
    """F (N, rank) with F Fᵀ = C W⁺ Cᵀ for the columns C of some pivots, all read at once, and W = C at the pivots."""
    columns = matrix.finite(matrix.columns(pivots))
    corner = (columns[pivots] + columns[pivots].T) / 2
    return columns @ inverse_root(corner, len(pivots) * float(np.finfo(matrix.dtype).eps))[0]


def inverse_root(matrix: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """(R with R Rᵀ = W⁺, the eigenvalues of W that count): those above `rounding` times the largest."""
    values, vectors = scipy.linalg.eigh(matrix)
    keep = values > max(float(values[-1]), 0.0) * rounding
    return vectors[:, keep] / np.sqrt(values[keep]), values[keep]


def _accepted(
    corner: np.ndarray, drawn: np.ndarray, proposal: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(which of the proposed are taken, their Cholesky factor): as if pivots had been drawn one after another."""
    chosen: list[int] = []
    rows = np.zeros((0, len(corner)))  # of the factor, over all proposed
    for i in drawn:
        left = corner[i, i] - float(rows[:, i] @ rows[:, i])
        if i in chosen or not left > 1e-8 * proposal[i] or rng.uniform() * proposal[i] > left:
            continue
        row = (corner[i] - rows[:, i] @ rows) / np.sqrt(left)
        rows = np.concatenate([rows, row[None]])
        chosen.append(int(i))
    indices = np.asarray(chosen, int)
    return indices, np.tril(rows[:, indices].T) if len(indices) else np.zeros((0, 0))


def _check_diagonal(diagonal: np.ndarray, rounding: float, words: str) -> None:
    if not diagonal.any():
        raise NotPositiveDefiniteError(words, 0, "one above 0", "cause: " + NO_RIDGE, verb="has smallest eigenvalue")
    if not np.min(diagonal) >= -_NEGATIVE * rounding:
        raise NotPositiveDefiniteError(
            words,
            float(np.min(diagonal)),
            "at least 0, as in a kernel matrix",
            "check it",
            verb="has on its diagonal",
        )
