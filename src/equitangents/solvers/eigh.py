"""The eigendecomposition, as one method among others: any time, ridge and learning rate from one decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from equitangents.inference.definiteness import is_positive_row_by_row
from equitangents.inference.spectrum import dense_solve_bytes
from equitangents.solvers.definiteness import blur, check_known
from equitangents.solvers.method import Answer, Cost, Method, Prepared, Task
from equitangents.solvers.system import System, relative


@dataclass(frozen=True)
class Eigh(Method):
    """All eigenvalues and eigenvectors of Θ, in float64."""

    name: ClassVar[str] = "eigh"
    any_time: ClassVar[bool] = True

    def cost(self, task: Task) -> Cost:
        """Six matrices in float64."""
        return Cost(dense_solve_bytes(task.size))

    def prepare(self, system: System, limit: int, consumed: bool) -> Prepared:
        """The decomposition is made at the first answer."""
        return _Decomposed(system)


class _Decomposed(Prepared):
    def __init__(self, system: System) -> None:
        self._system = system
        self._spectrum: tuple[np.ndarray, np.ndarray] | None = None

    def respond(self, targets: np.ndarray, time: float) -> Answer:
        """α at one time."""
        system = self._system
        if self._spectrum is None:
            entries = system.matrix.finite(system.matrix.block(slice(None), slice(None)).astype(np.float64))
            values, vectors = scipy.linalg.eigh(entries, driver="evd", check_finite=False, overwrite_a=True)
            self._spectrum = values + system.delta, vectors
        values, vectors = self._spectrum
        smallest, largest = float(values[0]), float(values[-1])
        by_rows = lambda: is_positive_row_by_row(np.maximum(values, 0.0), vectors, system.resolution)
        check_known(system, smallest, largest, time, blur(system, largest), by_rows)
        system.dynamics.check(largest, time)
        values = np.maximum(values, 0.0)
        modes = vectors.T @ targets
        alpha = vectors @ (system.dynamics.response(values, time)[:, None] * modes)
        left = vectors @ (system.dynamics.decay(values, time)[:, None] * modes)
        errors = relative(targets - left - system.product(alpha), targets)
        return Answer(alpha, float(np.max(errors)), smallest, largest, "float64")
