"""The eigendecomposition, as one method among others: any time, ridge and learning rate from one decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from equitangents.inference.memory import dense_solve_bytes
from equitangents.inference.spectrum import Spectrum, decompose
from equitangents.solvers.definiteness import check_positive, check_semidefinite
from equitangents.solvers.method import Answer, Cost, Method, Prepared, Task
from equitangents.solvers.system import System

_OPERATIONS = 60  # of LAPACK's divide and conquer, over N³, at the speed of matrix products


@dataclass(frozen=True)
class Eigh(Method):
    """All eigenvalues and eigenvectors of Θ, in float64."""

    name: ClassVar[str] = "eigh"

    def cost(self, task: Task) -> Cost:
        """Six matrices in float64."""
        return Cost(dense_solve_bytes(task.size), _OPERATIONS * task.size**3, 0, task.size**2 / 2)

    def prepare(self, system: System, limit: int, consumed: bool) -> Prepared:
        """The decomposition is made at the first answer."""
        return _Decomposed(system)


class _Decomposed(Prepared):
    def __init__(self, system: System) -> None:
        self._system = system
        self._spectrum: Spectrum | None = None

    def respond(self, targets: np.ndarray, time: float) -> Answer:
        """α at one time."""
        system = self._system
        if self._spectrum is None:
            matrix = system.matrix
            self._spectrum = decompose(
                matrix.block(slice(None), slice(None)),
                resolution=system.resolution,
                scale=max(system.scale, system.delta),
            )
        values = self._spectrum.eigenvalues + system.delta
        smallest = self._spectrum.smallest + system.delta
        (check_positive if np.isinf(time) else check_semidefinite)(system, smallest, float(values[-1]))
        system.dynamics.check(float(values[-1]), time)
        modes = self._spectrum.vectors.T @ targets
        alpha = self._spectrum.vectors @ (system.dynamics.response(values, time)[:, None] * modes)
        left = self._spectrum.vectors @ (system.dynamics.decay(values, time)[:, None] * modes)
        sizes = np.linalg.norm(targets, axis=0)
        errors = np.linalg.norm(targets - left - system.product(alpha), axis=0) / np.where(sizes > 0, sizes, 1)
        return Answer(alpha, float(np.max(errors)), smallest, float(values[-1]), "float64")
