"""Common interface to all solvers: α = φ_t(Θ + δ) Y for arrays, stores and networks; the choice behind "auto"."""

from __future__ import annotations

import logging
import math
import time as clock
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from equitangents._types import KernelName, Numbers
from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError
from equitangents.formatting import memory_size
from equitangents.inference.dynamics import DYNAMICS, as_times
from equitangents.inference.spectrum import Ridge
from equitangents.memory import check_memory, default_memory_limit
from equitangents.solvers.cholesky import Cholesky
from equitangents.solvers.definiteness import blur
from equitangents.solvers.lanczos import Lanczos
from equitangents.solvers.low_rank import Nystrom
from equitangents.solvers.matrices import ArrayMatrix, ScaledMatrix, SymmetricMatrix, as_matrix, spans
from equitangents.solvers.method import LinearSystem, Method, Respond, Solution, SolveTask
from equitangents.solvers.out_of_core import OutOfCore
from equitangents.solvers.pcg import PCG
from equitangents.solvers.spectral import Eigh
from equitangents.validation import check_array, check_choice

logger = logging.getLogger("equitangents")

_SYMMETRIC = 1e3  # times the rounding of entries
_LARGE = 1e50  # targets beyond it, or below its inverse, are scaled; kernels of such numbers are refused

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Eigh, Cholesky, OutOfCore, Lanczos, PCG, Nystrom)
}
SOLVERS = ("auto", *METHODS)
DECOMPOSED = 3000  # samples up to which "auto" decomposes: seconds, and every time, ridge and left-out sample


def as_method(solver: str | Method) -> Method | None:
    """The method with this name, or `solver` itself if it is a method; None for "auto"."""
    if isinstance(solver, Method):
        return solver
    if not isinstance(solver, str):
        raise InvalidTypeError("solver", solver, "a name or settings such as solvers.PCG(rank=500)")
    if solver not in SOLVERS:
        raise InvalidArgumentError("solver", solver, list(SOLVERS))
    return None if solver == "auto" else METHODS[solver]()


def choose(task: SolveTask, time: float, ridge: float, has_folder: bool) -> tuple[Method, str]:
    """(the method of "auto", the reason): the fastest exact method that fits, the last if none does."""
    candidates: list[tuple[Method, str]] = []
    if task.size <= DECOMPOSED:
        candidates.append((Eigh(), "auto: one decomposition serves every time"))
    if not math.isinf(time):
        candidates.append((Lanczos(), "auto: a finite time takes products only"))
    else:
        candidates.append((Cholesky(), "auto: a factor fits into memory"))
        if ridge == 0 and has_folder:
            candidates.append((OutOfCore(), "auto: without a ridge a factor on disk is sure"))
        candidates.append((PCG(), "auto: no factor fits into memory"))
    fitting = [each for each in candidates if each[0].memory(task) <= task.limit]
    return fitting[0] if fitting else candidates[-1]


class Solver:
    """A system with its solver: `solve` takes any targets and times, and reuses factors.

    solver: the method; None for "auto", which is chosen at the first requested time.
    """

    def __init__(
        self, system: LinearSystem, solver: Method | None, *, limit: int | None = None, consumed: bool = False
    ) -> None:
        self.system = system
        self._method, self._consumed = solver, consumed
        self._limit = default_memory_limit() if limit is None else limit
        self._prepared: dict[Method, Respond] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state without factors and preconditioners, which are recomputed when needed."""
        return {name: value for name, value in vars(self).items() if name != "_prepared"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _prepared={})

    @property
    def name(self) -> str:
        """The method's name, "auto" if it is chosen later."""
        return "auto" if self._method is None else self._method.name

    @property
    def exact(self) -> bool:
        """Whether solutions are exact up to the residual; always so for "auto"."""
        return self._method is None or self._method.exact

    def solve(self, targets: np.ndarray, time: float = math.inf) -> Solution:
        """α for targets (N, k) at one time, with its report, which is logged; MemoryLimitError if no method fits."""
        system, matrix = self.system, self.system.matrix
        itemsize, in_memory = matrix.dtype.itemsize, matrix.in_memory
        task = SolveTask(matrix.size, targets.shape[1], itemsize, in_memory, self._consumed, matrix.tile, self._limit)
        if not 1 / _LARGE <= system.entries <= _LARGE and 0 < system.entries < math.inf:
            raise InvalidArgumentError(
                matrix.label,
                system.entries,
                "entries whose squares float64 holds",
                "scale it",
                verb="has entries of about",
            )
        if self._method is None:
            method, reason = choose(task, time, system.ridge, matrix.folder is not None)
        else:
            method, reason = self._method, "as set"
        memory = int(method.memory(task))
        if memory > task.limit:
            problem = f"the dense problem of {task.size} samples by solver {method.name!r}"
            remedy = "take another solver, train on fewer samples, or raise memory_limit (bytes)"
            raise MemoryLimitError(problem, memory, task.limit, remedy)
        logger.info("solver: %s (%s), about %s", method.name, reason, memory_size(memory))
        start, name, exact = clock.perf_counter(), method.name, method.exact
        if not (method.any_time or math.isinf(time)):
            method = Lanczos(method.tolerance, method.max_iterations) if isinstance(method, PCG) else Lanczos()
            name, reason = method.name, "a finite time, at which Lanczos answers for the solver"
        if method not in self._prepared:
            self._prepared[method] = method.prepare(system, task)
        unit = _unit(targets, each=exact)
        found = self._prepared[method](targets / unit, time)
        smallest, largest = found.report.smallest, found.report.largest
        condition = math.nan if math.isnan(smallest) else math.inf
        report = replace(
            found.report,
            solver=name,
            reason=reason,
            size=system.size,
            condition=largest / smallest if smallest > blur(system, largest) else condition,
            seconds=clock.perf_counter() - start,
            forecast_memory=memory,
            ridge=system.ridge,
            time=time,
        )
        logger.info("solver: %s", report)
        return Solution(found.coefficients * unit, report, found.support)


def solve(
    matrix: Any,
    targets: Numbers,
    *,
    ridge: float | Numbers = 0.0,
    time: float = math.inf,
    solver: str | Method = "auto",
    learning_rate: float = 1.0,
    dynamics: str = "flow",
    kernel: KernelName = "ntk",
    ridge_unit: float | None = None,
    memory_limit: int | None = None,
    overwrite: bool = False,
) -> Solution:
    """α = φ_t(Θ + δ) Y: (Θ + δ)⁻¹ Y at time inf, (Θ + δ)⁻¹(1 − e^{−η(Θ+δ)t/N}) Y at a finite one.

    Args:
        matrix: Θ (N, N): an array (NumPy, a memory map, Zarr), a complete `scale.GramStore`, or a pair (network,
            inputs), whose tiles are recomputed on each access.
        targets: Y, (N,) or (N, outputs).
        ridge: r ≥ 0; δ = r · mean diagonal of Θ. Or one value per row: then diag(δ_i) is added.
        time: of training, in units of the loss (1/2N) Σ |f − y|²; inf: to the end.
        solver: "auto", "eigh", "cholesky", "out-of-core", "lanczos", "pcg", "nystrom", or an object with settings,
            such as `solvers.PCG(rank=500, tolerance=1e-8)`.
        learning_rate: η of that training.
        dynamics: "flow", or "discrete" for steps of gradient descent.
        kernel: "ntk" or "nngp", of a store or a network.
        ridge_unit: the factor of the ridge, instead of the mean diagonal.
        memory_limit: bytes that solving may use besides `matrix`; None: half of the available memory.
        overwrite: whether a NumPy array may be overwritten by its Cholesky factor, which then needs no second array.

    Returns a `Solution`: `coefficients`, α, and `report` with the solver used, the reason, and the residual.
    Raises NotPositiveDefiniteError, with the smallest eigenvalue, its cause and the ridge that cures it;
    MemoryLimitError, with the memory needed; NotFiniteError for NaN.

    >>> import numpy as np
    >>> theta = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> solution = solve(theta, np.array([3.0, 3.0]), solver="cholesky")
    >>> solution.coefficients.round(12).tolist(), solution.report.solver
    ([1.0, 1.0], 'cholesky')
    """
    method = as_method(solver)
    check_choice("kernel", kernel, get_args(KernelName))
    theta = as_matrix(matrix, kernel)
    y = np.asarray(check_array("targets", targets, min_rank=1), np.float64)
    if y.ndim > 2 or len(y) != theta.size:
        raise InvalidArgumentError("targets", y.shape, (theta.size, ...), "a row for each input", verb="has shape")
    added = Ridge.read(ridge, theta.size)
    if ridge_unit is not None and (
        not isinstance(ridge_unit, int | float | np.number) or not 0 < ridge_unit < math.inf
    ):
        raise InvalidArgumentError("ridge_unit", ridge_unit, remedy="it must be a positive finite number, or None")
    check_choice("dynamics", dynamics, DYNAMICS)
    if not as_times(time)[1]:
        raise InvalidArgumentError("time", time, "one number")
    check_memory(f"the dense problem of {theta.size} samples", 0, memory_limit, "")  # that it is a limit
    check_symmetric(theta)
    if added.above is not None:
        if method is not None and not method.exact:
            added.check_one(f"solver is {method.name!r}, which knows one: give a number, or take solver='pcg'")
        ridge_unit = float(theta.diagonal().mean()) if ridge_unit is None else ridge_unit
        theta = ScaledMatrix(theta, above=ridge_unit * added.above)
    system = LinearSystem(theta, added.least, DYNAMICS[dynamics](learning_rate, theta.size), ridge_unit)
    limit = default_memory_limit() if memory_limit is None else memory_limit
    found = Solver(system, method, limit=limit, consumed=overwrite).solve(y.reshape(len(y), -1), float(time))
    return replace(found, coefficients=found.coefficients.reshape(-1, *y.shape[1:]))


def _unit(targets: np.ndarray, *, each: bool) -> np.ndarray:
    """A power of 2 for each column, or for all, by which squares stay within float64's range; 1 if they do already."""
    size = np.abs(targets).max(axis=0) if each else np.full(targets.shape[1], np.abs(targets).max())
    outside = (size > 0) & ((size < 1 / _LARGE) | (size > _LARGE))
    return np.where(outside, np.ldexp(1.0, np.frexp(size)[1] - 1), 1.0)


def check_symmetric(matrix: SymmetricMatrix) -> None:
    """Raise InvalidArgumentError unless an array in memory is symmetric up to rounding."""
    if not (isinstance(matrix, ArrayMatrix) and matrix.in_memory):
        return
    array = matrix.array
    largest, asymmetry = 0.0, 0.0
    for rows in spans(matrix.size, 512):
        for columns in spans(rows.stop, 512):
            block = array[rows, columns]
            largest = np.maximum(largest, np.abs(block).max())
            asymmetry = np.maximum(asymmetry, np.abs(block - array[columns, rows].T).max())
    limit = _SYMMETRIC * matrix.size * float(np.finfo(matrix.dtype).eps) * float(largest)
    if float(asymmetry) > limit:  # NaN is found by the first product
        raise InvalidArgumentError(
            "matrix", float(asymmetry), "a symmetric one", verb="is not symmetric: entries ij and ji differ by up to"
        )
