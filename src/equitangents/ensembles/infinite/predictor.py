"""A kernel that is trained: GP(μ_t, Σ_t) at any inputs, whatever solved it.

problem         one matrix, decomposed: the samples as they are, all their copies, or means over orbits
irrep_problem   one matrix for each irrep of the augmentation's group, decomposed
SolvedProblem   one matrix that a solver answers for, time by time

Inputs are signals, or points of fields: a field is a kernel function on points (`ensembles.fields.points`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

import jax
import numpy as np

from equitangents._types import DataRows, KernelName
from equitangents.actions import Action
from equitangents.ensembles.infinite.rows import applied, applied_features, compact, kernel_diagonal
from equitangents.errors import InvalidArgumentError
from equitangents.inference.draws import sample_gaussian
from equitangents.inference.dynamics import Dynamics
from equitangents.kernels import KernelFunction, Kernels
from equitangents.kernels.random_features import FeatureMap
from equitangents.memory import check_memory
from equitangents.solvers.matrices import SymmetricMatrix
from equitangents.solvers.method import Report, Solution
from equitangents.solvers.solving import Solver
from equitangents.solvers.spectral import FeatureMatrix

_BLOCK_ENTRIES = 2**25  # of a block of test rows against the training data, 256 MB in float64
_TOGETHER = 128  # test inputs whose variances are solved for at once


class KernelPredictor(abc.ABC):
    """Mean and covariance after training, of `inputs` x_i with whose kernels k(x, x_i) the mean is a sum.

    field: of the kernel that trains. Of orbits a kernel that knows no group says that their points are inputs like any
    others.
    """

    kernel: KernelFunction
    field: KernelName
    inputs: DataRows

    @abc.abstractmethod
    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`."""

    @property
    @abc.abstractmethod
    def max_learning_rate(self) -> float:
        """2N/λ_max: the largest learning rate at which gradient descent in steps is stable."""

    @abc.abstractmethod
    def report(self, time: float) -> Report:
        """How it was solved."""

    @abc.abstractmethod
    def coefficients(self, time: float) -> tuple[DataRows, np.ndarray] | None:
        """Inputs and α (n, outputs) with μ_t(x) = Θ(x, inputs) α; None where the mean takes more than that."""

    def weights(self, time: float) -> tuple[DataRows, np.ndarray] | None:
        """`coefficients`; of a kernel of features weights (m, outputs) of these, and one input stands for all."""
        found = self.coefficients(time)
        return None if found is None else compact(self.kernel, self.field, *found)

    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        found = [self.coefficients(t) for t in times]
        weighted = [each for each in found if each is not None]
        return applied(self.kernel, x, weighted[0][0], self.field, [each for _, each in weighted], _BLOCK_ENTRIES)

    @abc.abstractmethod
    def variances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M)."""

    @abc.abstractmethod
    def covariances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, M)."""

    @abc.abstractmethod
    def query_bytes(self, m: int, times: int) -> int:
        """Bytes that the joint covariance of m inputs takes at so many times."""

    def orbit_means(self, action: Action, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t on the orbit of each input: (T, M, |G|, outputs)."""
        means = self.means(action.orbit(x).reshape(-1, *x.shape[1:]), times)
        return means.reshape(len(times), action.group.order, len(x), -1).swapaxes(1, 2)

    def sample_orbits(
        self, action: Action, x: DataRows, draws: int, time: float, *, key: jax.Array, limit: int | None
    ) -> np.ndarray:
        """Draws of one network jointly over the orbits of all inputs: (draws, M, |G|, outputs)."""
        points = len(x) * action.group.order
        check_memory(
            f"the joint covariance of {points} inputs",
            self.query_bytes(points, 1) + 8 * points**2,
            limit,
            "ask for fewer inputs at once, or for return_std",
        )
        orbit, times = action.orbit(x).swapaxes(0, 1), np.array([time])
        flat = orbit.reshape(-1, *orbit.shape[2:])
        found = sample_gaussian(self.means(flat, times)[0], self.covariances(flat, times)[0], draws, key=key)
        return found.reshape(draws, len(x), action.group.order, -1)


class Decomposed(KernelPredictor):
    """A trained kernel of which eigenvalues are known: other ridges and learning rates cost no other solution."""

    @abc.abstractmethod
    def retuned(self, ridge: float, dynamics: Callable[[int], Dynamics]) -> Self:
        """This problem with another ridge or learning rate, without another decomposition."""

    @abc.abstractmethod
    def _project(self, x: DataRows, *, prior: bool) -> Any:
        """The training kernel of x with the training data, and K if `prior`, along eigenvectors."""

    @abc.abstractmethod
    def _blocks(self, x: DataRows) -> Iterator[DataRows]:
        """x in parts whose kernels with the training data fit into memory."""

    def variances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M)."""
        blocks = []
        for rows in self._blocks(x):
            at, prior = self._project(rows, prior=True), kernel_diagonal(self.kernel, rows, "nngp")
            blocks.append(np.stack([at.variance(prior, t) for t in times]))
        return np.concatenate(blocks, axis=1)

    def covariances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, M)."""
        at = self._project(x, prior=True)
        prior = np.asarray(self.kernel.kernel(x).nngp, np.float64)
        return np.stack([at.covariance(prior, t) for t in times])


@dataclass(frozen=True)
class SolvedProblem(KernelPredictor):
    """A matrix that is not decomposed: one of the other solvers answers for every time and input.

    With α_t = φ_t(Θ + δ) Y the mean is Θ(x, X) α_t. With B = φ_t(Θ + δ) Θ(X, x), one right-hand side a test input,
    Σ_t(x, x′) = K(x, x′) + Bᵀ K B′ − Bᵀ K(X, x′) − K(x, X) B′.

    targets: Y (N, outputs), rows times `scale` where each stands for equal samples. prior: K(X, X), None where the
    kernel that trains is K itself. kernels: of the inputs, if they are held.
    """

    kernel: KernelFunction
    field: KernelName
    inputs: DataRows
    targets: np.ndarray
    solver: Solver
    prior: SymmetricMatrix | None
    scale: np.ndarray | None
    kernels: Kernels | None = None

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`; it is solved to find that out."""
        self.solver.system.dynamics.check(self.report(time).largest, time)

    @property
    def max_learning_rate(self) -> float:
        """2N/λ_max, from the solver's estimate of λ_max."""
        first = next(iter(self._solutions.values()))
        return self.solver.system.dynamics.max_learning_rate(first.report.largest)

    def solution(self, time: float) -> Solution:
        """α_t, kept for every time that was asked for."""
        if time not in self._solutions:
            self._solutions[time] = self.solver.solve(self.targets, time)
        return self._solutions[time]

    def report(self, time: float) -> Report:
        """How it was solved at one time."""
        return self.solution(time).report

    @cached_property
    def _solutions(self) -> dict[float, Solution]:
        return {}

    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        if not isinstance(self.solver.system.matrix, FeatureMatrix):
            return super().means(x, times)
        of_features = [self.weights(t)[1] for t in times]
        return applied_features(cast(FeatureMap, self.kernel), x, self.field, of_features)

    def weights(self, time: float) -> tuple[DataRows, np.ndarray]:
        """`coefficients`, or one input and weights of features."""
        matrix = self.solver.system.matrix
        if isinstance(matrix, FeatureMatrix):
            return self.inputs[:1], np.asarray(matrix.pulled(self.solution(time).coefficients))
        return compact(self.kernel, self.field, *self.coefficients(time))

    def coefficients(self, time: float) -> tuple[DataRows, np.ndarray]:
        """Inputs and α (n, outputs): μ_t(x) = Θ(x, inputs) α."""
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
