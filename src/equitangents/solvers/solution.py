"""What a solver returns: the numbers, and how they were come by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Report:
    """How one system was solved.

    solver: what was used, such as "cholesky"; reason: why. precision: of the factor, or of the matrix's entries.
    residual: the largest over right-hand sides of |Y − (Θ+δ)α − decay(Y)|/|Y|, computed or bounded in float64.
    condition: an estimate of λ_max/λ_min of Θ + δ; NaN where nothing is known of it. smallest, largest: the
    estimates of the eigenvalues themselves. iterations: of the iterative part, 0 for none. seconds: by the clock;
    forecast_memory: bytes that were expected before. rank: of a preconditioner or approximation.
    error: for approximations, the estimated root mean square difference from the exact predictor on the training
    inputs, over that of the targets (the larger of what the second half of the rank changed, and of what the part of
    the kernel that the approximation leaves out would still learn); 0 for solvers that are exact up to `residual`.
    notes: whatever else was done.
    """

    solver: str = ""
    reason: str = ""
    size: int = 0
    precision: str = "float64"
    residual: float = math.nan
    condition: float = math.nan
    smallest: float = math.nan
    largest: float = math.nan
    iterations: int = 0
    seconds: float = math.nan
    forecast_memory: int = 0
    ridge: float = 0.0
    time: float = math.inf
    rank: int | None = None
    error: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Solution:
    """α of shape (N, outputs), so that Θ(x, X) α predicts; or weights on the rows `support`, Θ(x, X[support]) α.

    report: how it was come by.
    """

    coefficients: np.ndarray
    report: Report
    support: np.ndarray | None = None
