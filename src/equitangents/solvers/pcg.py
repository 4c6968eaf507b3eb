"""Conjugate gradients on several right-hand sides at once, with a low-rank preconditioner.

Each step takes one product of Θ with all of them; Θ is in memory, in stored tiles, or recomputed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg

from equitangents.errors import InvalidArgumentError
from equitangents.solvers.definiteness import STEPS, check_positive, extremes, refused
from equitangents.solvers.low_rank import cheap_pivots, factor_on, inverse_root, pivoted_cholesky
from equitangents.solvers.method import (
    TOLERANCE,
    LinearSystem,
    Method,
    Respond,
    Solution,
    SolveReport,
    SolveTask,
    are_solved,
    check_iterations,
    rounding_of,
)
from equitangents.validation import check_whole

logger = logging.getLogger("equitangents")

DIVERGED = 1000.0  # a relative residual, which is about 1 at first, at which nothing more is to be hoped for
_REFRESHED = 50  # steps between recomputed residuals

Product = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Converged:
    """Solutions (N, k), relative residuals recomputed at the end (k,), steps; the smallest Ritz value of P⁻¹A.

    negative: the smallest pᵀAp/pᵀp that occurred, an upper bound of λ_min.
    """

    solutions: np.ndarray
    residuals: np.ndarray
    steps: int
    smallest: float
    negative: float


def conjugate_gradients(
    product: Product,
    targets: np.ndarray,
    precondition: Product,
    *,
    tolerance: float,
    steps: int,
    rounding: float = 0.0,
    patience: int = 60,
) -> Converged:
    """Solve A X = Y to |Y − AX| ≤ tolerance · |Y| in each column, in at most `steps` steps.

    precondition: R ↦ P⁻¹ R with P symmetric and positive definite.
    A column also stops at |Y − AX| ≤ rounding · |X|, the limit of rounding. All stop after `patience` steps
    without a smaller residual, and at once if it has grown `DIVERGED` times, or if pᵀAp ≤ 0 shows that A is not
    positive definite (then `negative` ≤ 0).
    """
    norms = np.linalg.norm(targets, axis=0)
    divisor = np.where(norms > 0, norms, 1.0)
    x, r = np.zeros_like(targets), targets.copy()
    z = precondition(r)
    p, rz = z.copy(), (r * z).sum(axis=0)
    best, best_x, best_step = np.inf, x.copy(), 0
    alphas: list[np.ndarray] = []
    betas: list[np.ndarray] = []
    negative, step = math.inf, 0
    while step < steps:
        going = _going(r, x, norms, tolerance, rounding)
        if not going.any():
            r = targets - product(x)  # what was updated has drifted from the residual
            going = _going(r, x, norms, tolerance, rounding)
            if not going.any():
                break
            z = precondition(r)
            p, rz = z.copy(), (r * z).sum(axis=0)
            if betas:
                betas[-1] = np.zeros_like(rz)
        step += 1
        image = product(p)
        curvature = (p * image).sum(axis=0)
        lengths = (p * p).sum(axis=0)
        met = np.divide(curvature, lengths, out=np.full_like(curvature, np.inf), where=lengths > 0)
        negative = min(negative, float(np.min(met)))
        if not negative > 0:
            break
        alpha = np.divide(rz, curvature, out=np.zeros_like(rz), where=(curvature > 0) & going)
        x += alpha * p
        r = targets - product(x) if step % _REFRESHED == 0 else r - alpha * image
        size = float(np.max(np.linalg.norm(r, axis=0) / divisor))
        if size < best:
            best_step, best = step, size
            best_x[:] = x
        elif step - best_step >= patience or not size <= DIVERGED:
            break
        z = precondition(r)
        after = (r * z).sum(axis=0)
        beta = np.divide(after, rz, out=np.zeros_like(rz), where=(rz > 0) & going)
        alphas.append(alpha)
        betas.append(beta)
        p, rz = z + beta * p, after
        if step % 25 == 0:
            logger.info("conjugate gradients: %d steps, relative residual %.1e", step, size)
    residuals = np.linalg.norm(targets - product(best_x), axis=0) / divisor
    return Converged(best_x, residuals, step, _smallest(alphas, betas, int(np.argmax(norms))), negative)


def _going(r: np.ndarray, x: np.ndarray, norms: np.ndarray, tolerance: float, rounding: float) -> np.ndarray:
    """Mask of the columns that are not solved yet."""
    return np.linalg.norm(r, axis=0) > np.maximum(tolerance * norms, rounding * np.linalg.norm(x, axis=0))


def _smallest(alphas: list[np.ndarray], betas: list[np.ndarray], column: int) -> float:
    """The smallest eigenvalue of the tridiagonal matrix from one column's coefficients."""
    a = np.array([alpha[column] for alpha in alphas])
    b = np.array([beta[column] for beta in betas])
    used = int(np.argmin(a > 0)) if not (a > 0).all() else len(a)
    if used == 0:
        return math.nan
    a, b = a[:used], b[: used - 1]
    diagonal = 1 / a
    diagonal[1:] += b / a[:-1]
    return float(scipy.linalg.eigvalsh_tridiagonal(diagonal, np.sqrt(b) / a[:-1])[0])


_LARGEST = 6  # Lanczos steps for λ_max, from the preconditioner's eigenvector
_PATIENCE = 300  # steps without a smaller residual, which rises and falls where the condition is bad


@dataclass(frozen=True)
class PCG(Method):
    """Preconditioned conjugate gradients, on all right-hand sides at once.

    The preconditioner is a randomly pivoted Cholesky factor, which reads `rank` columns (None: a tenth of N, from 50 to
    1,000); without one use `Lanczos`. tolerance: of the relative residual |Y − (Θ+δ)α|/|Y| of every
    right-hand side. max_iterations: maximum number of products.
    """

    rank: int | None = None
    tolerance: float = TOLERANCE
    max_iterations: int = 2000

    name: ClassVar[str] = "pcg"

    def __post_init__(self) -> None:
        check_iterations(self.tolerance, self.max_iterations)
        if self.rank is not None:
            check_whole("rank", self.rank, 1)

    def memory(self, task: SolveTask) -> float:
        """Bytes of the preconditioner, and of vectors for every output."""
        n, rank = task.size, self.rank_of(task.size)
        return 8 * n * (2 * rank + 10 * task.outputs) + task.tile_bytes

    def rank_of(self, size: int) -> int:
        """The preconditioner's rank for `size` rows."""
        return min(size, self.rank or min(1000, max(50, size // 10)))

    def prepare(self, system: LinearSystem, task: SolveTask) -> Respond:
        """Compute the preconditioner P⁻¹ R = R + V ((λ_1 + δ)/(λ + δ) − 1) Vᵀ R, V the factor's singular vectors."""
        matrix, rank, delta = system.matrix, self.rank_of(system.size), system.delta
        cheap = cheap_pivots(matrix, rank)
        factor = pivoted_cholesky(matrix, rank)[0] if cheap is None else factor_on(matrix, cheap)
        root, values = inverse_root(factor.T @ factor, factor.shape[1] * float(np.finfo(np.float64).eps))
        vectors, weights = factor @ root, ((values[0] + delta) / (values + delta) - 1)[:, None]
        apply = lambda residuals: residuals + vectors @ (weights * (vectors.T @ residuals))
        return partial(self._solve, system, apply, len(values), extremes(system, _LARGEST, vectors[:, -1:])[1])

    def _solve(
        self, system: LinearSystem, precondition: Product, rank: int, largest: float, targets: np.ndarray, time: float
    ) -> Solution:
        """(Θ + δ)⁻¹ Y by conjugate gradients."""
        found = conjugate_gradients(
            system.product,
            targets,
            precondition,
            tolerance=self.tolerance,
            steps=self.max_iterations,
            rounding=rounding_of(largest),
            patience=_PATIENCE,
        )
        if not found.negative > 0:
            raise refused(system, found.negative)
        smallest = max(found.smallest, system.delta) if np.isfinite(found.smallest) else np.nan
        worst = float(np.max(found.residuals))
        if np.isfinite(smallest):
            check_positive(system, smallest, largest)
        if not are_solved(found.residuals, targets, found.solutions, self.tolerance, largest):
            check_positive(system, *extremes(system, STEPS))
            raise InvalidArgumentError(
                f"conjugate gradients end at a relative residual of {worst:.1e} after {found.steps} steps, above the "
                f"tolerance {self.tolerance:g} (smallest eigenvalue about {smallest:.1e}, largest "
                f"{largest:.1e}); raise rank (now {rank}), ridge or tolerance, or take "
                "solver='cholesky' or 'out-of-core'"
            )
        report = SolveReport(
            residual=worst,
            smallest=smallest,
            largest=largest,
            precision=f"float64 on {system.matrix.dtype.name} entries",
            iterations=found.steps,
            rank=rank,
        )
        return Solution(found.solutions, report)
