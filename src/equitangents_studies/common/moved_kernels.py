"""Kernels of images that a group moved: kernel regression with a ridge, and how far two arrays are apart."""

from __future__ import annotations

import math

import numpy as np

from equitangents.solvers import solve


def predicted(K: np.ndarray, across: np.ndarray, targets: np.ndarray, ridge: float) -> np.ndarray:
    """Kernel regression in float64: Θ(x, X)(Θ + δ)⁻¹Y, δ = ridge · (mean diagonal)."""
    weights = solve(np.asarray(K, np.float64), targets, ridge=ridge, solver="cholesky").coefficients
    return across.astype(np.float64) @ weights


def relative(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest value of b; NaN where anything is not finite."""
    difference = np.max(np.abs(np.asarray(a, np.float64) - b)) / np.max(np.abs(b))
    return float(difference) if np.isfinite(a).all() else math.nan
