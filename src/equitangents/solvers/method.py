"""Interface of solvers: task, method, and solution α = φ_t(Θ + δ) Y, with φ_t the response of training.

At t = ∞ that is (Θ + δ)⁻¹ Y. δ = ridge · unit; unit is the mean diagonal of Θ unless specified.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.inference.dynamics import Dynamics
from equitangents.inference.spectrum import relative, relative_resolution
from equitangents.solvers.matrices import SymmetricMatrix
from equitangents.validation import check_whole


@dataclass(frozen=True)
class SolveReport:
    """How one system was solved.

    solver: the method used, such as "cholesky"; reason: why. precision: of the factor, or of the matrix's entries.
    residual: the largest over right-hand sides of |Y − (Θ+δ)α − decay(Y)|/|Y|, computed or bounded in float64; for
    features that of their normal equations, for Nyström the residual of the training targets.
    condition: an estimate of λ_max/λ_min of Θ + δ; NaN if unknown. smallest, largest: the
    estimates of the eigenvalues themselves. iterations: of the iterative part, 0 for none. seconds: wall-clock time;
    forecast_memory: bytes expected in advance. rank: of a preconditioner or approximation.
    error: for approximations, the estimated root mean square difference from the exact predictor on the training
    inputs, relative to the targets (the larger of the change by the second half of the rank, and of what the omitted
    part of the kernel would still learn); 0 for solvers that are exact up to `residual`.
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


@dataclass(frozen=True)
class Solution:
    """α of shape (N, outputs), so that Θ(x, X) α predicts; or weights on the rows `support`, Θ(x, X[support]) α.

    report: how it was solved.
    """

    coefficients: np.ndarray
    report: SolveReport
    support: np.ndarray | None = None


TOLERANCE = 1e-10


@dataclass(frozen=True)
class LinearSystem:
    """The matrix Θ, its ridge, and the training dynamics; `scale`: see `Spectrum.scale`."""

    matrix: SymmetricMatrix
    ridge: float
    dynamics: Dynamics
    fixed_unit: float | None = None
    scale: float = 0.0

    @property
    def size(self) -> int:
        """The number of rows and columns of Θ."""
        return self.matrix.size

    @cached_property
    def unit(self) -> float:
        """The factor of the ridge: δ = ridge · unit."""
        return float(self.matrix.diagonal().mean()) if self.fixed_unit is None else self.fixed_unit

    @cached_property
    def delta(self) -> float:
        """δ, added to every eigenvalue by the ridge."""
        return 0.0 if self.ridge == 0 else self.ridge * self.unit

    @cached_property
    def resolution(self) -> float:
        """How far rounding of the entries may move eigenvalues, relative to the largest."""
        return relative_resolution(self.size, self.matrix.dtype)

    @property
    def entries(self) -> float:
        """The typical size of the entries of Θ."""
        unit = self.fixed_unit is None or not self.matrix.in_memory  # hardly anyone gives another unit
        return abs(self.unit) if unit else float(np.abs(self.matrix.diagonal()).mean())

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """(Θ + δ) V, in float64."""
        product = self.matrix.product(vectors)
        return product + self.delta * vectors if self.delta else product

    def response(self, eigenvalues: np.ndarray, time: float, rounding: float) -> np.ndarray:
        """φ_t of eigenvalues ≥ 0; at time inf, 0 for eigenvalues up to `rounding`."""
        if not math.isinf(time):
            return self.dynamics.response(eigenvalues, time)
        return np.divide(1.0, eigenvalues, out=np.zeros_like(eigenvalues), where=eigenvalues > rounding)

    def left(self, targets: np.ndarray, solutions: np.ndarray) -> np.ndarray:
        """|Y − (Θ + δ) α|/|Y| of each column."""
        return relative(targets - self.product(solutions), targets)


def rounding_of(largest: float) -> float:
    """The smallest |Y − (Θ + δ) α|/|α| that float64 rounding permits, for an eigenvalue λ_max of Θ + δ."""
    return 4 * float(np.finfo(np.float64).eps) * largest


def are_solved(
    residuals: np.ndarray, targets: np.ndarray, solutions: np.ndarray, tolerance: float, largest: float
) -> bool:
    """Whether relative residuals meet the tolerance, or the limit of float64."""
    attainable = 100 * rounding_of(largest) * relative(solutions, targets)
    return bool((residuals <= np.maximum(10 * tolerance, attainable)).all())


@dataclass(frozen=True)
class SolveTask:
    """The quantities that determine a solver's cost: N rows, k right-hand sides, storage of Θ, available memory.

    itemsize: bytes of an entry. in_memory: whether Θ is already an array. consumed: whether it may be overwritten.
    limit: bytes that may be used.
    """

    size: int
    outputs: int
    itemsize: int
    in_memory: bool
    consumed: bool
    tile: int
    limit: int

    @property
    def tile_bytes(self) -> int:
        """Bytes of entries that a product holds at once, in addition to a matrix in memory."""
        return 3 * 8 * (min(256, self.size) * self.size if self.in_memory else min(self.tile, self.size) ** 2)


Respond = Callable[[np.ndarray, float], Solution]
"""A method at work on one system: α = φ_t(Θ + δ) Y for Y (N, k) at one time, with what it knows of it in the report.

One that is not of `any_time` is evaluated at time inf only.
"""


class Method(abc.ABC):
    """A solver with its settings."""

    name: ClassVar[str]
    exact: ClassVar[bool] = True  # up to the residual that it reports
    any_time: ClassVar[bool] = False  # whether it answers at finite times itself, and not Lanczos in its place

    @abc.abstractmethod
    def memory(self, task: SolveTask) -> float:
        """Peak memory in bytes."""

    @abc.abstractmethod
    def prepare(self, system: LinearSystem, task: SolveTask) -> Respond:
        """Return the solver of a system within the task's limit; factors and preconditioners are computed once."""


def check_iterations(tolerance: float, iterations: int) -> None:
    """Raise unless the arguments are a valid tolerance and number of iterations."""
    if not isinstance(tolerance, int | float | np.number) or not 0 < tolerance < 1:
        raise InvalidArgumentError("tolerance", tolerance, "a number between 0 and 1, such as 1e-10")
    check_whole("max_iterations", iterations, 1)
