"""A kernel that is trained: GP(μ_t, Σ_t) at any inputs, whatever solved it.

Problem         one matrix, decomposed: the samples as they are, all their copies, or means over orbits
IrrepProblem    one matrix for each irrep of the augmentation's group, decomposed
SolvedProblem   one matrix that a solver answers for, time by time

Inputs are signals, or points of fields: a field is a kernel function on points (`ensembles.fields`).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, cast

import numpy as np

from equitangents._types import DataRows, KernelName
from equitangents.ensembles.fields import FieldPoints
from equitangents.errors import InvalidArgumentError
from equitangents.inference import TrainedProcess
from equitangents.inference.dynamics import Dynamics
from equitangents.inference.gaussian import Weighted, covariance, variance
from equitangents.inference.spectrum import Spectrum, dense_solve_bytes
from equitangents.kernels import KernelFunction, Kernels
from equitangents.kernels.random_features import RandomFeatures
from equitangents.solvers.matrices import KernelMatrix, SymmetricMatrix
from equitangents.solvers.method import Report, Solution
from equitangents.solvers.solving import Solver
from equitangents.solvers.spectral import FeatureMatrix
from equitangents.validation import check_array

_BLOCK_ENTRIES = 2**25  # of a block of test rows against the training data, 256 MB in float64
_TOGETHER = 128  # test inputs whose variances are solved for at once


def row_blocks(x: DataRows, numbers: int) -> Iterator[DataRows]:
    """Rows in parts of at most `numbers`; points in whole signals, of which fewer numbers make no less work."""
    if isinstance(x, FieldPoints):
        return (x[part] for part in x.blocks(max(numbers, x.count)))
    return (x[start : start + numbers] for start in range(0, len(x), numbers))


def kernel_diagonal(kernel: KernelFunction, x: DataRows, field: KernelName) -> np.ndarray:
    """The kernel of every input with itself, (N,), in float64."""
    return KernelMatrix(kernel, x, field).diagonal()


@dataclass(frozen=True)
class MeansAtATime:
    """μ_t at one time t: the kernel, the training inputs X, and the coefficients α (N, outputs), μ_t(x) = Θ(x, X) α.

    Of a kernel of features the coefficients are the features' weights (m, outputs), and one input stands for all.
    """

    kernel: KernelFunction
    field: KernelName
    inputs: DataRows
    coefficients: np.ndarray

    def __call__(self, x: DataRows) -> np.ndarray:
        """The means at x (M, …): (M, outputs), of fields (M·P, outputs), position by position."""
        if isinstance(self.inputs, FieldPoints):
            x = FieldPoints.of(np.asarray(x), self.inputs.count)
        return self.at(x, [self.coefficients])[0]

    def at(self, x: DataRows, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """The means at rows x (M, …) that each of these coefficients would give: (T, M, outputs)."""
        if isinstance(self.kernel, RandomFeatures):
            features = np.asarray(self.kernel.transform(x, self.field), np.float64)
            return np.stack([features @ each for each in coefficients])
        parts = []
        for rows in row_blocks(x, max(1, _BLOCK_ENTRIES // len(self.inputs))):
            cross = getattr(self.kernel.kernel(rows, self.inputs), self.field)
            cross = np.asarray(check_array("cross", cross, rank=2), np.float64)
            parts.append(np.stack([cross @ each for each in coefficients]))
        return np.concatenate(parts, axis=1)

    def compact(self) -> MeansAtATime:
        """These means from α; of a kernel of features from the weights that α makes of these."""
        if not isinstance(self.kernel, RandomFeatures):
            return self
        weights = np.asarray(self.kernel.transform(self.inputs, self.field), np.float64).T @ self.coefficients
        return replace(self, inputs=self.inputs[:1], coefficients=weights)


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
    def mean(self, time: float) -> MeansAtATime | None:
        """μ_t as coefficients; None where it takes the kernels with whole orbits."""

    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        found = [cast(MeansAtATime, self.mean(t)) for t in times]
        return found[0].at(x, [each.coefficients for each in found])

    @abc.abstractmethod
    def variances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M)."""

    @abc.abstractmethod
    def covariances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, M)."""

    @abc.abstractmethod
    def query_bytes(self, m: int, times: int) -> int:
        """Bytes that the joint covariance of m inputs takes at so many times."""


class Decomposed(KernelPredictor):
    """A trained kernel of which eigenvalues are known: other ridges and learning rates cost no other solution.

    bound: the largest eigenvalue known beside those of the spectra. residual, seconds: as the report has them.
    """

    bound: float = 0.0
    residual: float = math.nan
    seconds: float = math.nan

    @property
    @abc.abstractmethod
    def processes(self) -> list[TrainedProcess]:
        """Those of all blocks that the matrix falls apart into, of one ridge and of one dynamics of all samples."""

    @property
    def spectra(self) -> list[Spectrum]:
        """Spectra of all blocks."""
        return [process.spectrum for process in self.processes]

    @property
    def max_learning_rate(self) -> float:
        """2N/λ_max: the largest learning rate at which gradient descent in steps is stable."""
        return self.processes[0].dynamics.max_learning_rate(
            max(self.bound, *(spectrum.largest for spectrum in self.spectra))
        )

    def report(self, time: float) -> Report:
        """How it was solved: one decomposition for each block."""
        spectra = self.spectra
        smallest, largest = min(s.smallest for s in spectra), max(s.largest for s in spectra)
        sizes = [len(spectrum.eigenvalues) for spectrum in spectra]
        return Report(
            solver="eigh",
            reason="one decomposition serves every time" if len(sizes) == 1 else f"one for each of {len(sizes)} irreps",
            size=sum(sizes),
            residual=self.residual,
            condition=largest / smallest if smallest > max(s.blur for s in spectra) else math.inf,
            smallest=smallest,
            largest=largest,
            seconds=self.seconds,
            forecast_memory=dense_solve_bytes(max(sizes)),
            ridge=spectra[0].ridge,
            time=time,
        )

    @abc.abstractmethod
    def retuned(self, ridge: float, dynamics: Callable[[int], Dynamics]) -> Self:
        """This problem with another ridge or learning rate, without another decomposition."""

    @abc.abstractmethod
    def projected(self, x: DataRows, *, prior: bool) -> Weighted:
        """The training kernel of x with the training data, and K if `prior`, along eigenvectors of every block."""

    def blocks_of(self, x: DataRows, copies: int = 1) -> Iterator[DataRows]:
        """x in parts whose kernels with the training data fit into memory; `copies`: entries for each input."""
        return row_blocks(x, max(1, _BLOCK_ENTRIES // (copies * len(self.inputs))))

    def variances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M)."""
        parts = []
        for rows in self.blocks_of(x):
            at, prior = self.projected(rows, prior=True), kernel_diagonal(self.kernel, rows, "nngp")
            parts.append(np.stack([variance(at, prior, t) for t in times]))
        return np.concatenate(parts, axis=1)

    def covariances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, M)."""
        at = self.projected(x, prior=True)
        prior = np.asarray(self.kernel.kernel(x).nngp, np.float64)
        return np.stack([covariance(at, prior, t) for t in times])


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

    def mean(self, time: float) -> MeansAtATime:
        """μ_t as coefficients of all inputs, of some, or of features."""
        solution, matrix = self.solution(time), self.solver.system.matrix
        if isinstance(matrix, FeatureMatrix):
            return MeansAtATime(self.kernel, self.field, self.inputs[:1], matrix.pulled(solution.coefficients))
        chosen = slice(None) if solution.support is None else solution.support
        scale = 1.0 if self.scale is None else self.scale[chosen, None]
        return MeansAtATime(self.kernel, self.field, self.inputs[chosen], solution.coefficients * scale).compact()

    def variances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M)."""
        prior = kernel_diagonal(self.kernel, x, "nngp")
        found = np.empty((len(times), len(x)))
        for start in range(0, len(x), _TOGETHER):
            rows = slice(start, start + _TOGETHER)
            for i, (back, other) in enumerate(self._changes(x[rows], times)):
                found[i, rows] = np.maximum(prior[rows] + (back * other).sum(axis=0), 0.0)
        return found

    def covariances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, M)."""
        prior = np.asarray(self.kernel.kernel(x).nngp, np.float64)
        changes = (back.T @ other for back, other in self._changes(x, times))
        return np.stack([prior + (change + change.T) / 2 for change in changes])

    def query_bytes(self, m: int, times: int) -> int:
        """Bytes that the joint covariance of m inputs takes at so many times."""
        return 8 * (8 * m * len(self.inputs) + (times + 3) * m * m)

    def _changes(self, x: DataRows, times: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """B and (K + noise) B − 2K(X, x), (N, M), at every time; of a posterior the noise on its targets is δ."""
        if not self.solver.exact:
            raise InvalidArgumentError(
                "solver is an approximation by some of the training inputs, which gives means alone; take "
                "solver='pcg' for variances, or fewer samples"
            )
        matrix = self.solver.system.matrix
        if isinstance(matrix, FeatureMatrix):
            cross, prior_cross = matrix.cross(x), cast(FeatureMatrix, self.prior or matrix).cross(x)
        else:
            kernels, scale = self.kernel.kernel(x, self.inputs), 1.0 if self.scale is None else self.scale
            both = (np.asarray(getattr(kernels, name), np.float64) * scale for name in (self.field, "nngp"))
            cross, prior_cross = (each.T for each in both)
        for t in times:
            back = self.solver.solve(cross, t).coefficients
            through = self.solver.system.product(back) if self.prior is None else self.prior.product(back)
            yield back, through - 2 * prior_cross
