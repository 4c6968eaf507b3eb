"""Solving by a Cholesky factor, refined to float64 accuracy by conjugate gradients.

With M = LLᵀ ≈ Θ + δ as the preconditioner, one step gives the solution to the factor's accuracy, and each further one
gains as many digits. λ_min(Θ + δ) ≥ λ_min(M) · λ_min(M⁻¹(Θ + δ)), the first from inverse Lanczos steps.

In place, the factor overwrites one triangle of the only array; the other triangle keeps Θ, for refinement and for
Lanczos at finite times: a 50,000 × 50,000 float32 matrix takes 10 GB, and its factor needs no further memory.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from equitangents.solvers.definiteness import check_positive, extremes, largest_eigenvalue, lost_in_factor, refused
from equitangents.solvers.matrices import ArrayMatrix, Index, SymmetricMatrix, spans
from equitangents.solvers.method import (
    TOLERANCE,
    LinearSystem,
    Method,
    Respond,
    Solution,
    SolveReport,
    SolveTask,
    are_solved,
    rounding_of,
)
from equitangents.solvers.pcg import conjugate_gradients
from equitangents.validation import check_choice

_STEPS = 200
_PATIENCE = {"float64": 12, "float32": 60}  # steps without a smaller residual


class Factor(abc.ABC):
    """A factor L with LLᵀ ≈ Θ + δ + shift."""

    precision: str
    shift: float
    size: int

    @abc.abstractmethod
    def solve(self, targets: np.ndarray) -> np.ndarray:
        """(LLᵀ)⁻¹ Y, to the factor's accuracy."""

    def product(self, residuals: np.ndarray) -> np.ndarray:
        """(LLᵀ)⁻¹ R, rescaled to avoid overflow."""
        size = np.abs(residuals).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        return self.solve(residuals / size) * size

    def smallest(self, steps: int) -> float:
        """λ_min of LLᵀ, by Lanczos on its inverse."""
        return 1 / extremes(self, steps)[1]


def refined(
    system: LinearSystem, factor: Factor, smallest: float, largest: float, targets: np.ndarray, time: float = math.inf
) -> Solution:
    """(Θ + δ)⁻¹ Y by the factor and refinement, from λ_min of LLᵀ and λ_max of Θ + δ."""
    found = conjugate_gradients(
        system.product,
        targets,
        factor.product,
        tolerance=TOLERANCE,
        steps=_STEPS,
        rounding=rounding_of(largest),
        patience=_PATIENCE[factor.precision],
    )
    if not found.negative > 0:
        raise refused(system, found.negative, factor.precision)
    if factor.shift or factor.precision == "float32":
        smallest *= min(1.0, found.smallest)
    check_positive(system, smallest, largest, factor.precision)
    residual = float(np.max(found.residuals))
    if not are_solved(found.residuals, targets, found.solutions, TOLERANCE, largest):
        at = f"a relative residual of {residual:.1e}, above {TOLERANCE:g}, after {found.steps} steps"
        raise lost_in_factor(system, factor.precision, at, smallest)
    report = SolveReport(
        precision=factor.precision,
        residual=residual,
        smallest=smallest,
        largest=largest,
        iterations=found.steps,
    )
    return Solution(found.solutions, report)


_ROWS = 256  # rows of float32 that are made float64 at once
_INVERSE_STEPS = 12
_SMALL = 1e-8  # diagonal entries; a product that reads their roots, the factor's diagonal, would lose half its digits
_SHIFTS = 8  # of the diagonal, each ten times the last, tried for a float32 factor and to learn λ_min


@dataclass(frozen=True)
class Cholesky(Method):
    """LAPACK's Cholesky factorisation in place, in float64 or in float32 with refinement to float64 accuracy.

    precision: "float64", "float32", or None: float64 if that fits into memory, else that of the entries.
    """

    precision: str | None = None

    name: ClassVar[str] = "cholesky"

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, (None, "float32", "float64"))

    def memory(self, task: SolveTask) -> float:
        """Bytes of the factor's array (0 if it may overwrite the matrix) and of vectors."""
        size = np.dtype(self.precision_for(task)).itemsize
        array = 0 if task.consumed and task.in_memory and size == task.itemsize else size * task.size**2
        vectors = 8 * task.size * (8 * task.outputs + _INVERSE_STEPS + 8)
        return array + vectors + 2 * 8 * _ROWS * task.size + (0 if task.in_memory else 3 * 8 * task.tile**2)

    def prepare(self, system: LinearSystem, task: SolveTask) -> Respond:
        """The factor of Θ + δ, or of a shifted one in float32."""
        precision, source, unit = np.dtype(self.precision_for(task)), system.matrix, system.unit
        array, own = _array(source, precision, task.consumed)
        triangle = Triangle(array, source.label, source.dtype)
        if own or precision == np.float64 or source.dtype == np.float32:  # it has all digits of the entries
            system = replace(system, matrix=triangle, fixed_unit=unit)
        largest = largest_eigenvalue(system)
        spacing = float(np.finfo(precision).eps) * max(largest, 0.0)
        for power in range(-1, _SHIFTS):
            shift = 0.0 if power < 0 else 10.0**power * spacing
            triangle.restore(system.ridge * unit + shift)
            if _factorised(triangle.array):
                break
        else:
            raise refused(system, -shift, precision.name)
        factor = InPlaceFactor(triangle, shift)
        smallest = factor.smallest(_INVERSE_STEPS)
        if shift and precision == np.float64:
            raise refused(system, smallest - shift)
        return partial(refined, system, factor, smallest, largest)

    def precision_for(self, task: SolveTask) -> str:
        """The precision of the factor."""
        if self.precision is not None:
            return self.precision
        return "float64" if task.itemsize == 8 or 8.5 * task.size**2 <= task.limit else "float32"


class Triangle(SymmetricMatrix):
    """Θ in the upper triangle of an array whose lower triangle and diagonal may hold a factor."""

    in_memory = True

    def __init__(self, array: np.ndarray, label: str, dtype: np.dtype) -> None:
        self.array, self.label = array, label
        self.entries = np.diagonal(array).astype(np.float64)
        self._small = bool(np.abs(self.entries).max() < _SMALL)
        self.size = len(array)
        self.tile = _ROWS
        self.dtype = dtype

    def block(self, rows: Index, columns: Index) -> np.ndarray:
        """Entries above the diagonal, on it, or of full rows."""
        down, across = np.arange(self.size)[rows], np.arange(self.size)[columns]
        low, high = np.minimum.outer(down, across), np.maximum.outer(down, across)
        return np.where(low == high, self.entries[low], self.array[low, high]).astype(self.array.dtype)

    def diagonal(self) -> np.ndarray:
        """The entries Θ_ii, (N,), stored separately since the factor overwrites them."""
        return self.entries

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """Θ V in float64."""
        if self.array.dtype == np.float64 and not self._small:
            above = scipy.linalg.blas.dsymm(1.0, self.array.T, np.asfortranarray(vectors), lower=1)
            return self.finite(above + (self.entries - np.diagonal(self.array))[:, None] * vectors)
        total = self.entries[:, None] * vectors
        for rows in spans(self.size, _ROWS):
            corner = np.triu(self.array[rows, rows], 1).astype(np.float64)
            total[rows] += (corner + corner.T) @ vectors[rows]
            rest = self.array[rows, rows.stop :].astype(np.float64)
            total[rows] += rest @ vectors[rows.stop :]
            total[rows.stop :] += rest.T @ vectors[rows]
        return self.finite(total)

    def restore(self, added: float) -> None:
        """Write Θ + added back into the lower triangle and the diagonal."""
        for rows in spans(self.size, _ROWS):
            self.array[rows, : rows.start] = self.array[: rows.start, rows].T
            corner = np.triu(self.array[rows, rows], 1)
            self.array[rows, rows] = corner + corner.T
        np.einsum("ii->i", self.array)[:] = self.entries + added


class InPlaceFactor(Factor):
    """A factor L in the lower triangle of the array of `triangle`."""

    def __init__(self, triangle: Triangle, shift: float) -> None:
        self.array, self.shift, self.size = triangle.array, shift, triangle.size
        self.precision = self.array.dtype.name
        self._solve = scipy.linalg.get_lapack_funcs("potrs", (self.array,))

    def solve(self, targets: np.ndarray) -> np.ndarray:
        """(LLᵀ)⁻¹ Y, (N, k), by two triangular solves in the factor's precision."""
        solution, info = self._solve(self.array.T, np.asfortranarray(targets, self.array.dtype), lower=0)
        assert info == 0
        return np.asarray(solution, np.float64)


def _array(matrix: SymmetricMatrix, precision: np.dtype, consumed: bool) -> tuple[np.ndarray, bool]:
    """(all entries in one C-ordered array of `precision`, whether it is the matrix's own, to be overwritten)."""
    if isinstance(matrix, ArrayMatrix) and consumed and isinstance(matrix.array, np.ndarray):
        own = matrix.array
        if own.dtype == precision and own.flags.c_contiguous and own.flags.writeable:
            return own, True
    return matrix.assembled(precision), False


def _factorised(array: np.ndarray) -> bool:
    """Overwrite the lower triangle by its Cholesky factor; return False if it is not positive definite."""
    factorise: Any = scipy.linalg.get_lapack_funcs("potrf", (array,))
    factor, info = factorise(array.T, lower=0, overwrite_a=1, clean=0)
    assert factor.base is None or np.shares_memory(factor, array)
    return int(info) == 0
