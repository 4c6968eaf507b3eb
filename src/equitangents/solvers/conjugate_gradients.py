"""Preconditioned conjugate gradients on several right-hand sides at once: one product with all of them a step."""

from __future__ import annotations

import abc
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

logger = logging.getLogger("equitangents")

DIVERGED = 1000.0  # a relative residual, which is about 1 at first, at which nothing more is to be hoped for
_REFRESHED = 50  # steps between residuals computed anew

Product = Callable[[np.ndarray], np.ndarray]


class Preconditioner(abc.ABC):
    """An approximate inverse that is symmetric and positive definite."""

    @abc.abstractmethod
    def apply(self, residuals: np.ndarray) -> np.ndarray:
        """P⁻¹ R for residuals (N, k)."""


class Unchanged(Preconditioner):
    """No preconditioner: P is the identity."""

    def apply(self, residuals: np.ndarray) -> np.ndarray:
        """The residuals as they are, since P = 1."""
        return residuals


@dataclass(frozen=True)
class Converged:
    """Solutions (N, k), relative residuals computed anew (k,), steps; extreme Ritz values of P⁻¹A.

    negative: the smallest of pᵀAp/pᵀp that was met, a bound of λ_min from above.
    """

    solutions: np.ndarray
    residuals: np.ndarray
    steps: int
    smallest: float
    largest: float
    negative: float


def conjugate_gradients(
    product: Product,
    targets: np.ndarray,
    preconditioner: Preconditioner,
    *,
    tolerance: float,
    steps: int,
    floor: float = 0.0,
    patience: int = 60,
) -> Converged:
    """Solve A X = Y to |Y − AX| ≤ tolerance · |Y| in each column, or as far as it comes in so many steps.

    Columns also end at |Y − AX| ≤ floor · |X|, where rounding leaves no more to gain; all do after `patience` steps
    without a smaller residual, and at once where it has grown `DIVERGED` times, or where pᵀAp ≤ 0 shows that A is not
    positive definite (`negative` ≤ 0 then).
    """
    norms = np.linalg.norm(targets, axis=0)
    divisor = np.where(norms > 0, norms, 1.0)
    x, r = np.zeros_like(targets), targets.copy()
    z = preconditioner.apply(r)
    p, rz = z.copy(), (r * z).sum(axis=0)
    best, best_x, best_step = np.inf, x.copy(), 0
    alphas: list[np.ndarray] = []
    betas: list[np.ndarray] = []
    negative, step = math.inf, 0
    while step < steps:
        going = _going(r, x, norms, tolerance, floor)
        if not going.any():
            r = targets - product(x)  # what was updated has drifted from the residual
            going = _going(r, x, norms, tolerance, floor)
            if not going.any():
                break
            z = preconditioner.apply(r)
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
        z = preconditioner.apply(r)
        after = (r * z).sum(axis=0)
        beta = np.divide(after, rz, out=np.zeros_like(rz), where=(rz > 0) & going)
        alphas.append(alpha)
        betas.append(beta)
        p, rz = z + beta * p, after
        if step % 25 == 0:
            logger.info("conjugate gradients: %d steps, relative residual %.1e", step, size)
    residuals = np.linalg.norm(targets - product(best_x), axis=0) / divisor
    smallest, largest = _ritz(alphas, betas, int(np.argmax(norms)))
    return Converged(best_x, residuals, step, smallest, largest, negative)


def _going(r: np.ndarray, x: np.ndarray, norms: np.ndarray, tolerance: float, floor: float) -> np.ndarray:
    """Which columns are not solved yet."""
    return np.linalg.norm(r, axis=0) > np.maximum(tolerance * norms, floor * np.linalg.norm(x, axis=0))


def _ritz(alphas: list[np.ndarray], betas: list[np.ndarray], column: int) -> tuple[float, float]:
    """Extreme eigenvalues of the tridiagonal matrix that the coefficients of one column make."""
    a = np.array([alpha[column] for alpha in alphas])
    b = np.array([beta[column] for beta in betas])
    used = int(np.argmin(a > 0)) if not (a > 0).all() else len(a)
    if used == 0:
        return math.nan, math.nan
    a, b = a[:used], b[: used - 1]
    diagonal = 1 / a
    diagonal[1:] += b / a[:-1]
    values = scipy.linalg.eigvalsh_tridiagonal(diagonal, np.sqrt(b) / a[:-1])
    return float(values[0]), float(values[-1])
