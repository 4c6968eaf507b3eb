"""A kernel that is trained: GP(μ_t, Σ_t) at any inputs, whatever solved it.

problem         one matrix, decomposed: the samples as they are, all their copies, or means over orbits
irrep_problem   one matrix for each irrep of the augmentation's group, decomposed
solved_problem  one matrix that a solver answers for, time by time

Inputs are signals, or points of fields: a field is a kernel function on points (`ensembles.fields.points`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar, Self

import jax
import numpy as np

from equitangents._types import DataRows, KernelName
from equitangents.actions import Action
from equitangents.inference import TrainedProcess
from equitangents.inference.draws import sample_gaussian
from equitangents.inference.dynamics import Dynamics
from equitangents.inference.gaussian import Projection
from equitangents.inference.irrep_process import IrrepProcess, IrrepProjection
from equitangents.kernels import KernelFunction, Kernels
from equitangents.memory import check_memory
from equitangents.solvers.solution import Report

_DIAGONAL_BLOCK = 32


class TrainedKernel(abc.ABC):
    """Mean and covariance after training, of `inputs` x_i with whose kernels k(x, x_i) the mean is a sum.

    decomposed: whether eigenvalues are known, so that other ridges and learning rates cost no other solution. field: of
    the kernel that trains. kernels: K and Θ of the inputs with themselves, where they are held for another solution.
    Of orbits a kernel that knows no group says that their points are inputs like any others.
    """

    decomposed: ClassVar[bool]

    kernel: KernelFunction
    field: KernelName
    inputs: DataRows
    kernels: Kernels | None

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
    def retuned(self, ridge: float, dynamics: Callable[[int], Dynamics]) -> Self:
        """This training with another ridge and other dynamics, those of so many samples."""

    @abc.abstractmethod
    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""

    @abc.abstractmethod
    def variances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M)."""

    @abc.abstractmethod
    def covariances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, M)."""

    @abc.abstractmethod
    def weights(self, time: float) -> tuple[DataRows, np.ndarray] | None:
        """Inputs and α (n, outputs) with μ_t(x) = Θ(x, inputs) α; None where the mean takes more than that.

        Of a kernel of features α are weights (m, outputs) of these, μ_t(x) = φ(x)·α, and one input stands for all.
        """

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


class Decomposed(TrainedKernel):
    """A trained kernel whose `process` knows eigenvalues, so that nothing is solved anew."""

    decomposed = True
    kernels = None
    process: TrainedProcess | IrrepProcess

    @abc.abstractmethod
    def _project(self, x: DataRows, *, prior: bool) -> Projection | IrrepProjection:
        """The training kernel of x with the training data, and K if `prior`, along eigenvectors."""

    @abc.abstractmethod
    def _blocks(self, x: DataRows) -> Iterator[DataRows]:
        """x in parts whose kernels with the training data fit into memory."""

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`."""
        self.process.check(time)

    @property
    def max_learning_rate(self) -> float:
        """2N/λ_max: the largest learning rate at which gradient descent in steps is stable."""
        return self.process.max_learning_rate

    def retuned(self, ridge: float, dynamics: Callable[[int], Dynamics]) -> Self:
        """This problem with another ridge or learning rate, without another decomposition."""
        process = self.process.retuned(ridge, dynamics(self.process.samples))
        return replace(self, process=process)  # type: ignore[type-var]  # those that derive from it are dataclasses

    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        blocks = (self._project(rows, prior=False) for rows in self._blocks(x))
        return np.concatenate([np.stack([at.mean(t) for t in times]) for at in blocks], axis=1)

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


def kernel_diagonal(kernel: KernelFunction, x: DataRows, field: KernelName) -> np.ndarray:
    """The kernel of every input with itself, (N,), in float64.

    A kernel without `kernel_diagonal` is computed in blocks, whose off-diagonal entries are thrown away.
    """
    if hasattr(kernel, "kernel_diagonal"):
        return np.asarray(getattr(kernel.kernel_diagonal(x), field), np.float64)
    blocks = (x[start : start + _DIAGONAL_BLOCK] for start in range(0, len(x), _DIAGONAL_BLOCK))
    return np.concatenate([np.diagonal(np.asarray(getattr(kernel.kernel(b), field), np.float64)) for b in blocks])
