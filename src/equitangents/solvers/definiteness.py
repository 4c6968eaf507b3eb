"""Extreme eigenvalues by Lanczos; why a kernel matrix is not positive definite, and which ridge makes it so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference.spectrum import Ends, equal_rows, is_positive
from equitangents.solvers.method import LinearSystem

_EXTREMES = 40  # steps after which estimates of extreme eigenvalues are accepted
_FEW = 12  # steps for the largest only
_SETTLED = 1e-6  # relative change of the largest eigenvalue at which it is taken to be known
STEPS = 100  # of Lanczos, for λ_min of a matrix that is refused


def extremes(system: Any, steps: int = _EXTREMES, start: np.ndarray | None = None) -> tuple[float, float]:
    """Estimates of (λ_min, λ_max) from inside the spectrum: λ_max to some digits, λ_min roughly.

    system: an object with `size` and `product(vectors)`: a system (Θ + δ) or a factor ((LLᵀ)⁻¹).
    start: (N, 1), close to the eigenvector of λ_max; None: random.
    """
    vector = np.random.default_rng(0).normal(size=(system.size, 1)) if start is None else start
    basis = [vector / np.linalg.norm(vector)]
    diagonal, off_diagonal = np.empty((steps, 1)), np.empty((steps, 1))
    smallest = largest = math.nan
    for m in range(1, min(steps, system.size) + 1):
        product = system.product(basis[-1])
        diagonal[m - 1] = (basis[-1] * product).sum()
        orthogonalise(product, basis)
        off_diagonal[m - 1] = np.linalg.norm(product)
        values = scipy.linalg.eigvalsh_tridiagonal(diagonal[:m, 0], off_diagonal[: m - 1, 0])
        before, smallest, largest = largest, float(values[0]), float(values[-1])
        if off_diagonal[m - 1, 0] <= 1e-14 * max(abs(smallest), abs(largest)):
            break
        if m >= 8 and abs(largest - before) <= _SETTLED * abs(largest) and m >= steps // 2:
            break
        basis.append(product / off_diagonal[m - 1])
    return smallest, largest


def largest_eigenvalue(system: LinearSystem) -> float:
    """λ_max of Θ + δ, from a few products."""
    return extremes(system, _FEW)[1]


def orthogonalise(product: np.ndarray, basis: list[np.ndarray]) -> None:
    """Remove the components along all earlier vectors of the same column, twice, in place."""
    for _ in range(2):
        for vectors in basis:
            product -= vectors * np.einsum("nk,nk->k", vectors, product)


def check_positive(system: LinearSystem, smallest: float, largest: float, factor: str = "float64") -> None:
    """Raise NotPositiveDefiniteError unless λ_min of Θ + δ exceeds the effect of rounding of the entries.

    factor: the precision of the factor for which the suggested ridge must suffice.
    """
    if not is_positive(smallest, largest, blur(system, largest)):
        raise ends(system, smallest, largest, factor).refused()


def refused(system: LinearSystem, bound: float, factor: str = "float64") -> NotPositiveDefiniteError:
    """The error for a matrix found not positive definite; λ_min is `bound`, or the Lanczos estimate below it."""
    smallest, largest = extremes(system, STEPS)
    return ends(system, min(bound, smallest), largest, factor).refused()


def blur(system: LinearSystem, largest: float) -> float:
    """How far rounding of the entries may have moved eigenvalues."""
    return system.resolution * max(abs(largest), system.scale)


def lost_in_factor(system: LinearSystem, precision: str, at: str, smallest: float) -> NotPositiveDefiniteError:
    """The error for a factor in `precision` of a matrix that may be positive definite in float64.

    at: the residual after refinement. λ_min is `smallest`, or the Lanczos estimate below it.
    """
    found, largest = extremes(system, STEPS)
    smallest = min(smallest, found)
    bounds = ends(system, smallest, largest, precision)
    if not (system.unit > 0 and smallest > blur(system, largest)) or bounds.equal() is not None:
        return bounds.refused()
    other = ", or precision='float64'" if precision == "float32" else ""
    return NotPositiveDefiniteError(
        f"the {bounds.name} is not positive definite to the accuracy of a factor in {precision}: refinement leaves "
        f"{at} (smallest eigenvalue {bounds.smallest:.2e}, largest {bounds.largest:.2e}); cause: rounding in "
        f"{precision} moves the eigenvalues of a factor by about {bounds.factor_blur:.1e}; {bounds.remedy()}{other}"
    )


def ends(system: LinearSystem, smallest: float, largest: float, factor: str = "float64") -> Ends:
    """The spectrum's ends, for errors; rounding in a factor moves λ by about eps · max(λ_max, √N · unit)."""
    eps, matrix = float(np.finfo(factor).eps), system.matrix
    entry = lambda i, j: float(matrix.block(slice(i, i + 1), slice(j, j + 1))[0, 0])
    hidden = blur(system, largest)
    in_factor = max(eps * max(abs(largest), system.scale, math.sqrt(system.size) * system.unit), hidden)
    return Ends(
        f"kernel matrix of the {system.size} training inputs",
        smallest,
        largest,
        hidden,
        system.ridge,
        system.unit,
        max(system.resolution, eps),
        matrix.dtype == np.float32,
        lambda: equal_rows(system.size, float(np.finfo(matrix.dtype).eps), matrix.product, entry),
        in_factor,
    )
