"""Training for a time by Lanczos: φ_t(A)Y and e^{−ηAt/N}Y without a decomposition of A = Θ + δ. A method of its own,
and used by every other exact method at finite times.

In m steps from y: A V = V T + β v_{m+1} e_mᵀ, T tridiagonal (m × m), VᵀV = 1, and α = |y| V φ_t(T) e₁. Under gradient
flow the residual y − Aα differs from the decay e^{−sA}y by at most 2 |y| β |e_mᵀ φ_t(T) e₁|: φ solves
α′ = y − Aα, Lanczos solves it up to β v_{m+1} e_mᵀ φ(T) e₁ |y|, and e^{−sA} is a contraction. At t = ∞ these are
conjugate gradients and their residual. Source: Botchev, Grimm & Hochbruck 2013 (SIAM J. Sci. Comput. 35, A1376).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg

from equitangents.errors import InvalidArgumentError, MemoryLimitError
from equitangents.inference.spectrum import hides, is_positive, longest_time
from equitangents.solvers.definiteness import check_positive, ends, extremes, orthogonalise
from equitangents.solvers.matrices import spans
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
)

_CHECKED = 12  # the error is looked at after every such part of the steps
_EXPECTED = 60  # steps that forecasts assume


def evolve(system: LinearSystem, targets: np.ndarray, time: float, tolerance: float, steps: int) -> Solution:
    """α = φ_t(Θ + δ) Y for all columns at once, in at most `steps` steps, each one product with all of them.

    The report has the largest relative bound on the error of α (see above), steps, and Ritz values of all columns.
    Raises InvalidArgumentError if the steps do not reach the tolerance.
    """
    n, k = targets.shape
    norms = np.linalg.norm(targets, axis=0)
    basis = [targets / np.where(norms > 0, norms, 1)]
    diagonal, off_diagonal = np.empty((steps, k)), np.empty((steps, k))
    steps = min(steps, n)
    alpha, errors = np.zeros_like(targets), np.zeros(k)
    for m in range(1, steps + 1):
        vectors = basis[-1]
        product = system.product(vectors)
        diagonal[m - 1] = (vectors * product).sum(axis=0)
        orthogonalise(product, basis)
        off_diagonal[m - 1] = np.linalg.norm(product, axis=0)
        # a Krylov space that is exhausted: what is left is rounding
        scale = np.abs(diagonal[:m]).max(axis=0) + off_diagonal[:m].max(axis=0)
        off_diagonal[m - 1] = np.where(off_diagonal[m - 1] <= 1e-14 * scale, 0.0, off_diagonal[m - 1])
        last = m == steps or not off_diagonal[m - 1].any()
        if last or m % max(1, m // _CHECKED) == 0:
            weights, errors, ends = _tridiagonal(system, diagonal[:m], off_diagonal[:m], time, norms > 0)
            if last or not np.max(errors) > tolerance:
                break
        if last:
            break
        basis.append(product / np.where(off_diagonal[m - 1] > 0, off_diagonal[m - 1], 1) * (off_diagonal[m - 1] > 0))
    for j, vectors in enumerate(basis[:m]):
        alpha += vectors * (weights[j] * norms)
    smallest, largest = ends if norms.any() else extremes(system)
    error = float(np.max(errors))
    if not error <= max(tolerance, 100 * np.finfo(np.float64).eps):
        raise InvalidArgumentError(
            "tolerance",
            tolerance,
            f"at least {error:.1e}, the error after {m} steps of Lanczos",
            "allow more steps (Lanczos(max_iterations=...)), a larger tolerance or ridge, or take solver='eigh'",
        )
    return Solution(alpha, SolveReport(residual=error, iterations=m, smallest=smallest, largest=largest))


def _check_rate(system: LinearSystem, largest: float, time: float) -> None:
    """Raise if training diverges, with a bound of λ_max, of which few steps give a poor estimate."""
    try:
        system.dynamics.check(largest, time)
    except InvalidArgumentError:
        system.dynamics.check(max(largest, extremes(system)[1]), time)
        raise


def _tridiagonal(
    system: LinearSystem, diagonal: np.ndarray, off_diagonal: np.ndarray, time: float, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """φ_t(T) e₁ for the non-zero columns (m, k), relative error bounds (k,), and the extreme Ritz values."""
    m, k = diagonal.shape
    weights, errors, low, high = np.zeros((m, k)), np.zeros(k), math.inf, -math.inf
    for column in np.flatnonzero(columns):
        ended = np.flatnonzero(off_diagonal[:, column] == 0)
        used = int(ended[0]) + 1 if len(ended) else m
        values, vectors = scipy.linalg.eigh_tridiagonal(diagonal[:used, column], off_diagonal[: used - 1, column])
        low, high = min(low, float(values[0])), max(high, float(values[-1]))
        _check_rate(system, high, time)
        response = system.response(np.maximum(values, 0.0), time, used * np.finfo(np.float64).eps * abs(values).max())
        weights[:used, column] = vectors @ (response * vectors[0])
        errors[column] = 2 * off_diagonal[used - 1, column] * abs(weights[used - 1, column])
    return weights, errors, (low, high)


@dataclass(frozen=True)
class Lanczos(Method):
    """Krylov spaces of the targets: any training time, at the cost of `iterations` products with Θ.

    tolerance: bound on |error of Y − Θα| over |Y|. max_iterations: maximum number of Lanczos vectors.
    """

    tolerance: float = TOLERANCE
    max_iterations: int = 1000

    name: ClassVar[str] = "lanczos"
    any_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_iterations(self.tolerance, self.max_iterations)

    def memory(self, task: SolveTask) -> float:
        """Bytes of the Lanczos vectors for as many columns as fit at once."""
        steps = min(self.max_iterations, task.size)
        one = basis_bytes(task.size, 1, steps)
        together = min(task.outputs, max(1, (task.limit - task.tile_bytes) // one))
        return basis_bytes(task.size, together, min(steps, 3 * _EXPECTED)) + task.tile_bytes

    def prepare(self, system: LinearSystem, task: SolveTask) -> Respond:
        """Return the solver; nothing is computed before the targets are known."""
        return partial(self._solve, system, task)

    def _solve(self, system: LinearSystem, task: SolveTask, targets: np.ndarray, time: float) -> Solution:
        """α at one time, for as many columns at once as fit into memory."""
        n, k = targets.shape
        steps, limit = min(self.max_iterations, n), max(0, task.limit - task.tile_bytes)
        together = min(k, max(1, limit // basis_bytes(n, 1, steps)))
        if basis_bytes(n, together, min(steps, _EXPECTED)) > limit:
            raise MemoryLimitError(
                "Lanczos vectors",
                basis_bytes(n, 1, steps),
                limit,
                "take solver='pcg' and time=inf, or raise memory_limit (bytes)",
                verb="need",
            )
        parts = [evolve(system, targets[:, columns], time, self.tolerance, steps) for columns in spans(k, together)]
        reports = [part.report for part in parts]
        smallest, largest = min(each.smallest for each in reports), max(each.largest for each in reports)
        _check_known(system, smallest, largest, time)
        system.dynamics.check(largest, time)
        alpha = np.concatenate([part.coefficients for part in parts], axis=1)
        residual = float(np.max([each.residual for each in reports]))
        if math.isinf(time):  # the bound knows nothing of rounding
            left = system.left(targets, alpha)
            if not are_solved(left, targets, alpha, self.tolerance, largest):
                raise InvalidArgumentError(
                    "tolerance",
                    self.tolerance,
                    f"at least {np.max(left):.1e}, the residual at which Lanczos ends",
                    "take solver='cholesky' or 'eigh', or a larger ridge",
                )
            residual = float(np.maximum(residual, float(np.max(left))))
        report = SolveReport(
            residual=residual,
            smallest=max(smallest, system.delta) if smallest > 0 else smallest,
            largest=largest,
            iterations=max(each.iterations for each in reports),
        )
        return Solution(alpha, report)


def _check_known(system: LinearSystem, smallest: float, largest: float, time: float) -> None:
    """Raise NotPositiveDefiniteError if training for this time moves along eigenvectors lost in float64 rounding."""
    if math.isinf(time):
        check_positive(system, smallest, largest)
        return
    bounds = ends(system, smallest, largest)
    bounds.check_semidefinite()
    rate, rounding = system.dynamics.rate, system.size * float(np.finfo(float).eps) * largest
    if hides(rate, time, rounding) and not is_positive(smallest, largest, rounding):
        raise bounds.too_long(longest_time(rate, rounding))


def basis_bytes(size: int, columns: int, steps: int) -> int:
    """Bytes of all Lanczos vectors."""
    return 8 * size * columns * (steps + 4)
