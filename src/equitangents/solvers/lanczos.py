"""Training for a time by Lanczos: φ_t(A)Y and e^{−ηAt/N}Y without a decomposition of A = Θ + δ.

In m steps from y: A V = V T + β v_{m+1} e_mᵀ, T tridiagonal (m × m), VᵀV = 1, and α = |y| V φ_t(T) e₁. What the
residual y − Aα then misses of the decay e^{−sA}y is at most 2 |y| β |e_mᵀ φ_t(T) e₁| under gradient flow: φ solves
α′ = y − Aα, Lanczos solves it up to β v_{m+1} e_mᵀ φ(T) e₁ |y|, and e^{−sA} shrinks. At t = ∞ that is conjugate
gradients and their residual. Source: Botchev, Grimm & Hochbruck 2013 (SIAM J. Sci. Comput. 35, A1376).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from equitangents.errors import InvalidArgumentError
from equitangents.solvers.method import System

_EXTREMES = 40  # steps after which estimates of extreme eigenvalues are taken as they are
_FEW = 12  # steps for the largest alone
_SETTLED = 1e-6  # relative change of the largest eigenvalue at which it is taken to be known
_CHECKED = 12  # the error is looked at after every such part of the steps


@dataclass(frozen=True)
class Evolved:
    """α (N, k), the largest relative bound on its error (see above), steps, and Ritz values of all columns."""

    coefficients: np.ndarray
    error: float
    steps: int
    smallest: float
    largest: float


def evolve(system: System, targets: np.ndarray, time: float, tolerance: float, steps: int) -> Evolved:
    """α = φ_t(Θ + δ) Y for all columns at once, by at most so many steps, each one product with all of them.

    Raises InvalidArgumentError where the steps do not reach the tolerance.
    """
    n, k = targets.shape
    norms = np.linalg.norm(targets, axis=0)
    basis = [targets / np.where(norms > 0, norms, 1)]
    diagonal, beside = np.empty((steps, k)), np.empty((steps, k))
    steps = min(steps, n)
    alpha, errors = np.zeros_like(targets), np.zeros(k)
    for m in range(1, steps + 1):
        vectors = basis[-1]
        product = system.product(vectors)
        diagonal[m - 1] = (vectors * product).sum(axis=0)
        _orthogonalise(product, basis)
        beside[m - 1] = np.linalg.norm(product, axis=0)
        # a Krylov space that is exhausted: what is left is rounding
        scale = np.abs(diagonal[:m]).max(axis=0) + beside[:m].max(axis=0)
        beside[m - 1] = np.where(beside[m - 1] <= 1e-14 * scale, 0.0, beside[m - 1])
        last = m == steps or not beside[m - 1].any()
        if last or m % max(1, m // _CHECKED) == 0:
            weights, errors, ends = _tridiagonal(system, diagonal[:m], beside[:m], time, norms > 0)
            if last or not np.max(errors) > tolerance:
                break
        if last:
            break
        basis.append(product / np.where(beside[m - 1] > 0, beside[m - 1], 1) * (beside[m - 1] > 0))
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
    return Evolved(alpha, error, m, smallest, largest)


def extremes(system: System, steps: int = _EXTREMES, start: np.ndarray | None = None) -> tuple[float, float]:
    """Estimates of (λ_min, λ_max) of Θ + δ from inside the spectrum: λ_max to some digits, λ_min roughly.

    start: (N, 1), close to the eigenvector of λ_max; None: random.
    """
    vector = np.random.default_rng(0).normal(size=(system.size, 1)) if start is None else start
    basis = [vector / np.linalg.norm(vector)]
    diagonal, beside = np.empty((steps, 1)), np.empty((steps, 1))
    smallest = largest = math.nan
    for m in range(1, min(steps, system.size) + 1):
        product = system.product(basis[-1])
        diagonal[m - 1] = (basis[-1] * product).sum()
        _orthogonalise(product, basis)
        beside[m - 1] = np.linalg.norm(product)
        values = scipy.linalg.eigvalsh_tridiagonal(diagonal[:m, 0], beside[: m - 1, 0])
        before, smallest, largest = largest, float(values[0]), float(values[-1])
        if beside[m - 1, 0] <= 1e-14 * max(abs(smallest), abs(largest)):
            break
        if m >= 8 and abs(largest - before) <= _SETTLED * abs(largest) and m >= steps // 2:
            break
        basis.append(product / beside[m - 1])
    return smallest, largest


def largest_eigenvalue(system: System) -> float:
    """λ_max of Θ + δ, from a few products."""
    return extremes(system, _FEW)[1]


def basis_bytes(size: int, columns: int, steps: int) -> int:
    """Bytes of all Lanczos vectors."""
    return 8 * size * columns * (steps + 4)


def _orthogonalise(product: np.ndarray, basis: list[np.ndarray]) -> None:
    """Remove the components along all earlier vectors of the same column, twice, in place."""
    for _ in range(2):
        for vectors in basis:
            product -= vectors * np.einsum("nk,nk->k", vectors, product)


def _check_rate(system: System, largest: float, time: float) -> None:
    """Raise where training diverges, and name the bound of λ_max itself, of which few steps know little."""
    try:
        system.check(largest, time)
    except InvalidArgumentError:
        system.check(max(largest, extremes(system)[1]), time)
        raise


def _tridiagonal(
    system: System, diagonal: np.ndarray, beside: np.ndarray, time: float, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """φ_t(T) e₁ of the columns that are not 0 (m, k), relative error bounds (k,), and the extreme Ritz values."""
    m, k = diagonal.shape
    weights, errors, low, high = np.zeros((m, k)), np.zeros(k), math.inf, -math.inf
    for column in np.flatnonzero(columns):
        ended = np.flatnonzero(beside[:, column] == 0)
        used = int(ended[0]) + 1 if len(ended) else m
        values, vectors = scipy.linalg.eigh_tridiagonal(diagonal[:used, column], beside[: used - 1, column])
        low, high = min(low, float(values[0])), max(high, float(values[-1]))
        _check_rate(system, high, time)
        response = system.response(np.maximum(values, 0.0), time, used * np.finfo(np.float64).eps * abs(values).max())
        weights[:used, column] = vectors @ (response * vectors[0])
        errors[column] = 2 * beside[used - 1, column] * abs(weights[used - 1, column])
    return weights, errors, (low, high)
