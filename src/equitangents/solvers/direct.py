"""Solving by a Cholesky factor, wherever it lies, refined to float64 accuracy by conjugate gradients.

With M = LLᵀ ≈ Θ + δ as the preconditioner one step is the solution to the factor's accuracy, and each further one
gains as many digits. λ_min(Θ + δ) ≥ λ_min(M) · λ_min(M⁻¹(Θ + δ)), the first from inverse Lanczos steps.
"""

from __future__ import annotations

import abc
from functools import cached_property

import numpy as np

from equitangents.solvers.conjugate_gradients import Preconditioner, conjugate_gradients
from equitangents.solvers.definiteness import check_positive, lost_in_factor, refused
from equitangents.solvers.finite_time import AtTheEnd
from equitangents.solvers.method import Answer
from equitangents.solvers.system import System, are_solved, rounding_of

_STEPS = 200
_PATIENCE = {"float64": 12, "float32": 60}  # steps without a smaller residual


class Factor(Preconditioner):
    """L with LLᵀ ≈ Θ + δ + shift."""

    precision: str
    shift: float
    size: int

    @abc.abstractmethod
    def solve(self, targets: np.ndarray) -> np.ndarray:
        """(LLᵀ)⁻¹ Y, to the factor's accuracy."""

    def apply(self, residuals: np.ndarray) -> np.ndarray:
        """(LLᵀ)⁻¹ R, scaled so that no type overflows."""
        size = np.abs(residuals).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        return self.solve(residuals / size) * size

    def smallest(self, steps: int) -> float:
        """λ_min of LLᵀ, by Lanczos on its inverse."""
        vector = np.random.default_rng(0).normal(size=(self.size, 1))
        basis, diagonal, beside = [vector / np.linalg.norm(vector)], [], []
        for _ in range(min(steps, self.size)):
            image = self.apply(basis[-1])
            diagonal.append(float((basis[-1] * image).sum()))
            for _ in range(2):
                for one in basis:
                    image -= one * float((one * image).sum())
            beside.append(float(np.linalg.norm(image)))
            if beside[-1] <= 1e-12 * max(map(abs, diagonal)):
                break
            basis.append(image / beside[-1])
        m = len(diagonal)
        tridiagonal = np.diag(diagonal) + np.diag(beside[: m - 1], 1) + np.diag(beside[: m - 1], -1)
        return 1 / float(np.linalg.eigvalsh(tridiagonal)[-1])


class Factorised(AtTheEnd):
    """By a factor, which is made when a time of inf is first asked for."""

    @abc.abstractmethod
    def factorise(self) -> tuple[Factor, tuple[float, float]]:
        """The factor, and λ_min of LLᵀ and λ_max of Θ + δ."""

    @cached_property
    def _factor(self) -> tuple[Factor, tuple[float, float]]:
        return self.factorise()

    def solved(self, targets: np.ndarray) -> Answer:
        """(Θ + δ)⁻¹ Y by the factor and refinement."""
        factor, bounds = self._factor
        return solve_directly(self.system, factor, targets, tolerance=self.tolerance, bounds=bounds)


def solve_directly(
    system: System, factor: Factor, targets: np.ndarray, *, tolerance: float, bounds: tuple[float, float]
) -> Answer:
    """(Θ + δ)⁻¹ Y by the factor and refinement; `bounds`: λ_min of LLᵀ and λ_max of Θ + δ."""
    smallest, largest = bounds
    found = conjugate_gradients(
        system.product,
        targets,
        factor,
        tolerance=tolerance,
        steps=_STEPS,
        floor=rounding_of(largest),
        patience=_PATIENCE[factor.precision],
    )
    if not found.negative > 0:
        raise refused(system, found.negative, factor.precision)
    if factor.shift or factor.precision == "float32":
        smallest *= min(1.0, found.smallest)
    check_positive(system, smallest, largest, factor.precision)
    if not are_solved(found.residuals, targets, found.solutions, tolerance, largest):
        ended = (
            f"refinement leaves at a relative residual of {np.max(found.residuals):.1e}, above {tolerance:g}, after "
            f"{found.steps} steps"
        )
        raise lost_in_factor(system, factor.precision, ended, smallest)
    notes: tuple[str, ...] = (f"{found.steps} steps of refinement in float64",)
    if factor.shift:
        notes = (
            *notes,
            f"the factor is that of the matrix + {system.divisor * factor.shift:.1e}, and refinement takes that back",
        )
    return Answer(
        found.solutions,
        residual=float(np.max(found.residuals)),
        smallest=smallest,
        largest=largest,
        precision=factor.precision,
        iterations=found.steps,
        notes=notes,
    )
