"""A training problem whose matrix is not decomposed: one of the other solvers answers for every time and input.

With α_t = φ_t(Θ + δ) Y the mean is Θ(x, X) α_t. With B = φ_t(Θ + δ) Θ(X, x), one right-hand side a test input,
    Σ_t(x, x′) = K(x, x′) + Bᵀ K B′ − Bᵀ K(X, x′) − K(x, X) B′.

The training kernel is read in memory, in a store, or computed anew in each pass. Kernels are dear: NTK and NNGP are
held together where both take little of the memory, the one that trains alone where it takes up to two fifths, and only
what is larger is computed whenever it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, cast

import numpy as np

from equitangents._types import DataRows, FileName, KernelName
from equitangents.ensembles.infinite.rows import applied, applied_features, compact, rows_of
from equitangents.ensembles.infinite.trained_kernel import TrainedKernel, kernel_diagonal
from equitangents.errors import InvalidArgumentError
from equitangents.inference.dynamics import Dynamics
from equitangents.kernels import KernelFunction, Kernels
from equitangents.kernels.random_features import FeatureMap
from equitangents.solvers.matrices import ArrayMatrix, SymmetricMatrix
from equitangents.solvers.primal import FeatureMatrix
from equitangents.solvers.solution import Report, Solution
from equitangents.solvers.solving import Solver

_BLOCK_ENTRIES = 2**25  # of a block of test rows against the training data, 256 MB in float64
_TOGETHER = 128  # test inputs whose variances are solved for at once
_BOTH, _ONE = 0.25, 0.4  # of the limit: a factor in the same precision fits beside them


@dataclass(frozen=True)
class SolvedProblem(TrainedKernel):
    """Training on `inputs` X with targets Y (N, outputs), rows times `scale` where each stands for equal samples.

    prior: K(X, X), None where the kernel that trains is K itself. field: of the kernel that trains.
    """

    decomposed: ClassVar[bool] = False

    kernel: KernelFunction
    field: KernelName
    inputs: DataRows
    targets: np.ndarray
    solver: Solver
    prior: SymmetricMatrix | None
    scale: np.ndarray | None
    kernels: Kernels | None = None  # of the inputs, if they are held

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`; it is solved to find that out."""
        self.solver.system.dynamics.check(self.report(time).largest, time)

    @property
    def max_learning_rate(self) -> float:
        """2N/λ_max, from the solver's estimate of λ_max."""
        return self.solver.system.dynamics.max_learning_rate(self.report(None).largest)

    def solution(self, time: float) -> Solution:
        """α_t, kept for every time that was asked for."""
        if time not in self._solutions:
            self._solutions[time] = self.solver.solve(self.targets, time)
        return self._solutions[time]

    def report(self, time: float | None) -> Report:
        """How it was solved at one time; None: at whichever was first."""
        if time is None:
            return next(iter(self._solutions.values())).report
        return self.solution(time).report

    @cached_property
    def _solutions(self) -> dict[float, Solution]:
        return {}

    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        if isinstance(self.solver.system.matrix, FeatureMatrix):
            of_features = [self.weights(t)[1] for t in times]
            return applied_features(cast(FeatureMap, self.kernel), x, self.field, of_features)
        weighted = [self._coefficients(t) for t in times]
        return applied(self.kernel, x, weighted[0][0], self.field, [each for _, each in weighted], _BLOCK_ENTRIES)

    def weights(self, time: float) -> tuple[DataRows, np.ndarray]:
        """Inputs and their weights (n, outputs), or one input and weights of features: `TrainedKernel.weights`."""
        matrix = self.solver.system.matrix
        if isinstance(matrix, FeatureMatrix):
            return self.inputs[:1], np.asarray(matrix.pulled(self.solution(time).coefficients))
        return compact(self.kernel, self.field, *self._coefficients(time))

    def _coefficients(self, time: float) -> tuple[DataRows, np.ndarray]:
        """Inputs and their weights (n, outputs): μ_t(x) = Θ(x, inputs) · weights."""
        solution = self.solution(time)
        chosen = slice(None) if solution.support is None else solution.support
        scale = 1.0 if self.scale is None else self.scale[chosen, None]
        return self.inputs[chosen], solution.coefficients * scale

    def variances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M)."""
        prior = kernel_diagonal(self.kernel, x, "nngp")
        found = np.empty((len(times), len(x)))
        for start in range(0, len(x), _TOGETHER):
            rows = slice(start, start + _TOGETHER)
            cross, prior_cross = self._cross(x[rows])
            for i, t in enumerate(times):
                back, through = self._responses(cross, t)
                change = (back * (through - 2 * prior_cross)).sum(axis=0)
                found[i, rows] = np.maximum(prior[rows] + change, 0.0)
        return found

    def covariances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, M)."""
        prior = np.asarray(self.kernel.kernel(x).nngp, np.float64)
        cross, prior_cross = self._cross(x)
        found = []
        for t in times:
            back, through = self._responses(cross, t)
            change = back.T @ (through - 2 * prior_cross)
            found.append(prior + (change + change.T) / 2)
        return np.stack(found)

    def query_bytes(self, m: int, times: int) -> int:
        """Bytes that the joint covariance of m inputs takes at so many times."""
        return 8 * (8 * m * len(self.inputs) + (times + 3) * m * m)

    def _cross(self, x: DataRows) -> tuple[np.ndarray, np.ndarray]:
        """Θ(X, x) and K(X, x), (N, M), scaled."""
        if not self.solver.exact:
            raise InvalidArgumentError(
                "solver is an approximation by some of the training inputs, which gives means alone; take "
                "solver='pcg' for variances, or fewer samples"
            )
        matrix = self.solver.system.matrix
        if isinstance(matrix, FeatureMatrix):
            prior = matrix if self.prior is None else self.prior
            assert isinstance(prior, FeatureMatrix)
            pairs = ((matrix, self.field), (prior, "nngp"))
            both = (of.spread(np.asarray(matrix.kernel.transform(x, name), np.float64).T) for of, name in pairs)
            one, other = both
            return one, other
        kernels = self.kernel.kernel(x, self.inputs)
        scale = 1.0 if self.scale is None else self.scale
        both = (np.asarray(getattr(kernels, name), np.float64) * scale for name in (self.field, "nngp"))
        cross, prior_cross = both
        return cross.T, prior_cross.T

    def _responses(self, cross: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """B and (K + noise) B; of a posterior the noise on its targets is δ."""
        back = self.solver.solve(cross, time).coefficients
        if self.prior is None:
            return back, self.solver.system.product(back)
        return back, self.prior.product(back)

    def retuned(self, ridge: float, dynamics: Callable[[int], Dynamics]) -> SolvedProblem:
        """This problem with another ridge or learning rate; its matrix is solved anew, as read before."""
        system = self.solver.system
        other = replace(system, ridge=ridge, dynamics=dynamics(system.dynamics.samples))
        return replace(self, solver=self.solver.of(other))


@dataclass(frozen=True)
class TrainingMatrices:
    """The kernel that trains, K(X, X), the bytes that they take in memory, and the kernels if both are held."""

    trained: SymmetricMatrix
    prior: SymmetricMatrix
    bytes: int = 0
    kernels: Kernels | None = None


def training_matrices(
    kernel: KernelFunction, x: DataRows, field: str, store: FileName | None, limit: int, *, whole: bool
) -> TrainingMatrices:
    """For inputs x; `whole`: whether all entries are needed, not only some columns."""
    rows = rows_of(x)
    if store is not None:
        kept = rows.stored(store, kernel, x)
        return TrainingMatrices(rows.read(kept, field), rows.read(kept, "nngp"))
    trained, prior = rows.matrix(kernel, x, field), rows.matrix(kernel, x, "nngp")
    one = trained.dtype.itemsize * len(x) ** 2
    if whole and 2 * one <= _BOTH * limit:
        kernels = kernel.kernel(x)
        own = ArrayMatrix(np.asarray(getattr(kernels, field)), trained.words)
        return TrainingMatrices(own, ArrayMatrix(np.asarray(kernels.nngp), prior.words), 2 * one, kernels)
    if whole and one <= _ONE * limit:
        return TrainingMatrices(ArrayMatrix(trained.assembled(), trained.words), prior, one)
    return TrainingMatrices(trained, prior)
