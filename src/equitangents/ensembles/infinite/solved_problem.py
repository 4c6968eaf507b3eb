"""A training problem whose matrix is not decomposed: one of the other solvers answers for every time and input.

With α_t = φ_t(Θ + δ) Y the mean is Θ(x, X) α_t. With B = φ_t(Θ + δ) Θ(X, x), one right-hand side a test input,
    Σ_t(x, x′) = K(x, x′) + Bᵀ K B′ − Bᵀ K(X, x′) − K(x, X) B′.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.ensembles.infinite.rows import blocks
from equitangents.ensembles.infinite.trained_kernel import Field, OneMatrix, kernel_diagonal
from equitangents.errors import InvalidArgumentError
from equitangents.inference.dynamics import Dynamics
from equitangents.kernels import KernelFunction, Kernels
from equitangents.kernels.random_features import FeatureMap
from equitangents.solvers import Solver
from equitangents.solvers.matrices import SymmetricMatrix
from equitangents.solvers.primal import FeatureMatrix
from equitangents.solvers.solution import Report, Solution

_BLOCK_ENTRIES = 2**25  # of a block of test rows against the training data, 256 MB in float64
_TOGETHER = 128  # test inputs whose variances are solved for at once


@dataclass(frozen=True)
class SolvedProcess:
    """What is asked of a process whatever solves it: whether a time can be reached, and which steps are stable."""

    problem: SolvedProblem

    @property
    def dynamics(self) -> Dynamics:
        """How training time enters: gradient flow, or discrete steps of a learning rate."""
        return self.problem.solver.system.dynamics

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`; it is solved to find that out."""
        self.dynamics.check(self.problem.report(time).largest, time)

    @property
    def max_learning_rate(self) -> float:
        """2N/λ_max, from the solver's estimate of λ_max."""
        return self.dynamics.max_learning_rate(self.problem.report(None).largest)


@dataclass(frozen=True)
class SolvedProblem(OneMatrix):
    """Training on `inputs` X with targets Y (N, outputs), rows times `scale` where each stands for equal samples.

    prior: K(X, X), None where the kernel that trains is K itself. field: of the kernel that trains.
    """

    decomposed: ClassVar[bool] = False

    kernel: KernelFunction
    field: Field
    inputs: Any
    targets: np.ndarray
    solver: Solver
    prior: SymmetricMatrix | None
    scale: np.ndarray | None
    kernels: Kernels | None = None  # of the inputs, if they are held

    @property
    def process(self) -> SolvedProcess:
        """Times and learning rates."""
        return SolvedProcess(self)

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

    def means(self, x: Any, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        if self.has_features:
            features = np.asarray(cast(FeatureMap, self.kernel).transform(x, self.field), np.float64)
            return np.stack([features @ np.asarray(self.feature_weights(t)) for t in times])
        weighted = [self.weights(t) for t in times]
        inputs, weights = weighted[0][0], [each for _, each in weighted]
        if isinstance(self.kernel, FieldKernel):
            return self.kernel.applied(x, inputs, self.field, weights)
        means = []
        for rows in blocks(x, max(1, _BLOCK_ENTRIES // len(inputs))):
            cross = np.asarray(getattr(self.kernel.kernel(rows, inputs), self.field), np.float64)
            means.append(np.stack([cross @ each for each in weights]))
        return np.concatenate(means, axis=1)

    def weights(self, time: float) -> tuple[Any, np.ndarray]:
        """Inputs and their weights (n, outputs): μ_t(x) = Θ(x, inputs) · weights."""
        solution = self.solution(time)
        chosen = slice(None) if solution.support is None else solution.support
        scale = 1.0 if self.scale is None else self.scale[chosen, None]
        return self.inputs[chosen], solution.coefficients * scale

    @property
    def has_features(self) -> bool:
        """Whether the kernel is that of features, and is solved in their space."""
        return isinstance(self.solver.system.matrix, FeatureMatrix)

    def feature_weights(self, time: float) -> np.ndarray | None:
        """w (m, outputs) with μ_t(x) = φ(x)·w, of a kernel of features; None for others."""
        matrix = self.solver.system.matrix
        return matrix.pulled(self.solution(time).coefficients) if isinstance(matrix, FeatureMatrix) else None

    def variances(self, x: Any, times: np.ndarray) -> np.ndarray:
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

    def covariances(self, x: Any, times: np.ndarray) -> np.ndarray:
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

    def _cross(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
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

    def retuned(self, settings: Any) -> SolvedProblem:
        """This problem with another ridge or learning rate; its matrix is solved anew, as read before."""
        system = self.solver.system
        dynamics = settings.dynamics(settings.learning_rate, system.dynamics.samples)
        other = replace(system, ridge=settings.ridge, dynamics=dynamics)
        return replace(self, solver=self.solver.of(other))
