"""Trained kernels: GP(μ_t, Σ_t) at any inputs, for every kind of solver, and how to make one from a single matrix.

MatrixProblem   one matrix, decomposed
IrrepProblem    one matrix for each irrep of the augmentation's group, decomposed (`irrep_problem`)
SolvedProblem   one matrix, solved separately for each time

The matrix is the kernel of the samples or of all their copies (`dense`), or for invariant labels its mean over orbits,
(1/|G|) Σ_g Θ(x, ρ(g)x′) with the ridge δ/|G| (`orbit_averaged`), which gives the explicit problem's mean.
Inputs are signals, or points of fields: a field is a kernel function on points (`ensembles.fields`).
"""

from __future__ import annotations

import abc
import math
import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, cast

import numpy as np

from equitangents._types import AnyAction, DataRows, FileName, KernelName
from equitangents.actions import Action
from equitangents.ensembles.fields import FieldKernel, FieldMatrix, FieldPoints, PointAction, PointAverage
from equitangents.errors import InvalidArgumentError
from equitangents.inference import TrainedProcess, decompose
from equitangents.inference.augmented import find_orbits, kinds, row_digests
from equitangents.inference.dynamics import Dynamics, Weighted, covariance
from equitangents.inference.spectrum import Ridge, Spectrum, dense_solve_bytes, relative
from equitangents.kernels import KernelFunction, Kernels
from equitangents.kernels.invariance import draws_noise
from equitangents.kernels.orbit import OrbitAverage
from equitangents.kernels.random_features import RandomFeatures
from equitangents.memory import check_memory, default_memory_limit
from equitangents.scale import GramStore
from equitangents.solvers.matrices import ArrayMatrix, KernelMatrix, ScaledMatrix, SymmetricMatrix, as_matrix, spans
from equitangents.solvers.method import LinearSystem, Method, Solution, SolveReport
from equitangents.solvers.solving import DECOMPOSED, Solver
from equitangents.solvers.spectral import Eigh, FeatureMatrix, Primal
from equitangents.validation import check_array

_BLOCK_ENTRIES = 2**25  # of a block of test rows against the training data, 256 MB in float64
_TOGETHER = 128  # test inputs whose variances are solved for at once
_SAME_VARIANCE = 1e-5  # relative; inputs on one orbit agree to rounding, in float32 at worst
_BOTH, _ONE = 0.25, 0.4  # of the memory limit: a factor in the same precision fits, too


@dataclass(frozen=True)
class TrainingSettings:
    """How an ensemble trains: the arguments of `InfiniteEnsemble`.

    method: the solver; None for "auto". points: the rows of a problem that form one sample, such as a field's; the loss
    sums over them.
    """

    field: KernelName
    dynamics: Callable[[float, int], Dynamics]
    learning_rate: float
    ridge: Ridge
    memory_limit: int | None
    store: FileName | None = None  # the folder in which the training kernel is kept
    method: Method | None = None
    held: Kernels | None = None  # the training kernel, if it is there already
    points: int = 1

    def __post_init__(self) -> None:
        check_memory("a fit", 0, self.memory_limit, "")  # that it is a limit

    def dynamics_of(self, rows: int) -> Dynamics:
        """The dynamics of a problem with `rows` rows; its loss is a mean over samples."""
        return self.dynamics(self.learning_rate, max(1, rows // self.points))

    def training_kernel(self, kernel: KernelFunction, x: DataRows) -> Kernels:
        """The kernel between all training inputs, read from the store if present."""
        if self.held is not None and len(self.held.nngp) == len(x):  # of all samples, where equal ones are merged
            return self.held
        if self.store is None:
            return kernel.kernel(x)
        kept = GramStore(self.store, kernel, x).compute()
        return Kernels(cast(np.ndarray, kept.nngp[:]), cast(np.ndarray, kept.ntk[:]))

    @property
    def limit(self) -> int:
        """Bytes that a fit may use."""
        return default_memory_limit() if self.memory_limit is None else self.memory_limit

    def check_decomposition(self, name: str, rows: int, remedy: str, kernel: KernelFunction | None = None) -> None:
        """Raise MemoryLimitError if a problem of `rows` rows must be decomposed and that does not fit into memory."""
        if self.decomposes(rows, kernel):
            task = f"the {name} problem of {rows} samples"
            check_memory(task, dense_solve_bytes(rows), self.memory_limit, remedy)

    def decomposes(self, samples: int, kernel: KernelFunction | None = None) -> bool:
        """Whether a problem of `samples` samples is solved by eigendecomposition; always for kernels of features."""
        if self.method is None and not isinstance(kernel, RandomFeatures):
            return samples <= DECOMPOSED and dense_solve_bytes(samples) <= self.limit
        return isinstance(self.method, Eigh)


def row_blocks(x: DataRows, numbers: int) -> Iterator[DataRows]:
    """Blocks of at most `numbers` rows; points in complete signals, since parts of a signal cost as much."""
    if isinstance(x, FieldPoints):
        return (x[part] for part in x.blocks(max(numbers, x.count)))
    return (x[start : start + numbers] for start in range(0, len(x), numbers))


def kernel_diagonal(kernel: KernelFunction, x: DataRows, field: KernelName) -> np.ndarray:
    """The kernel of every input with itself, (N,), in float64."""
    if hasattr(kernel, "kernel_diagonal"):
        return np.asarray(getattr(kernel.kernel_diagonal(x), field), np.float64)
    return KernelMatrix(kernel, x, field).diagonal()


@dataclass(frozen=True)
class MeansAtATime:
    """μ_t at one time t: the kernel, the training inputs X, and the coefficients α (N, outputs), μ_t(x) = Θ(x, X) α.

    For a kernel of features the coefficients are the features' weights (m, outputs), and X is one placeholder input.
    """

    kernel: KernelFunction
    field: KernelName
    inputs: DataRows
    coefficients: np.ndarray

    def __call__(self, x: DataRows) -> np.ndarray:
        """The means at x (M, …): (M, outputs); for fields (M·P, outputs), position by position."""
        if isinstance(self.inputs, FieldPoints):
            x = FieldPoints.of(np.asarray(x), self.inputs.count)
        return self.at(x, [self.coefficients])[0]

    def at(self, x: DataRows, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """The means at rows x (M, …) for each of T sets of coefficients: (T, M, outputs)."""
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
        """The same means; for a kernel of features, by the weights that α implies."""
        if not isinstance(self.kernel, RandomFeatures):
            return self
        weights = np.asarray(self.kernel.transform(self.inputs, self.field), np.float64).T @ self.coefficients
        return replace(self, inputs=self.inputs[:1], coefficients=weights)


class KernelPredictor(abc.ABC):
    """Mean and covariance after training; the mean is a sum of kernels k(x, x_i) with `inputs` x_i.

    field: the name of the training kernel. For kernels that know no group, points of orbits are ordinary inputs.
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
    def report(self, time: float) -> SolveReport:
        """Solver, residual and other facts about the solution."""

    def mean(self, time: float) -> MeansAtATime | None:
        """μ_t as coefficients; None if it needs kernels with whole orbits."""
        return None

    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        found = [cast(MeansAtATime, self.mean(t)) for t in times]
        return found[0].at(x, [each.coefficients for each in found])

    @abc.abstractmethod
    def covariances(self, x: DataRows, times: np.ndarray, *, diagonal: bool) -> np.ndarray:
        """Σ_t of one output at every time, (T, M, M), or its `diagonal`, (T, M)."""

    def query_bytes(self, m: int, times: int) -> int:
        """Bytes for the joint covariance of m inputs at `times` times."""
        return 8 * (8 * m * len(self.inputs) + (times + 3) * m * m)


class Decomposed(KernelPredictor):
    """A trained kernel with known eigenvalues: other ridges and learning rates reuse the decomposition.

    bound: the largest known eigenvalue outside of the spectra. residual, seconds: as in the report.
    """

    bound: float = 0.0
    residual: float = math.nan
    seconds: float = math.nan

    @property
    @abc.abstractmethod
    def processes(self) -> list[TrainedProcess]:
        """The processes of all diagonal blocks of the matrix, with a common ridge and common dynamics."""

    @property
    def spectra(self) -> list[Spectrum]:
        """Spectra of all blocks."""
        return [process.spectrum for process in self.processes]

    @property
    def max_learning_rate(self) -> float:
        """2N/λ_max: the largest learning rate at which gradient descent in steps is stable."""
        largest = max(self.bound, *(spectrum.largest for spectrum in self.spectra))
        return self.processes[0].dynamics.max_learning_rate(largest)

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`."""
        for process in self.processes:
            process.check(time)

    def report(self, time: float) -> SolveReport:
        """Facts about the solution: one decomposition per block."""
        spectra = self.spectra
        smallest, largest = min(s.smallest for s in spectra), max(s.largest for s in spectra)
        sizes = [len(spectrum.eigenvalues) for spectrum in spectra]
        return SolveReport(
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
    def retuned(self, settings: TrainingSettings) -> Self:
        """This problem with another ridge or learning rate, without another decomposition."""

    @abc.abstractmethod
    def projected(self, x: DataRows, *, prior: bool) -> Weighted:
        """The training kernel of x with the training data, and K if `prior`, along eigenvectors of every block."""

    def blocks_of(self, x: DataRows, copies: int = 1) -> Iterator[DataRows]:
        """Blocks of x whose kernels with the training data fit into memory; `copies`: entries per input."""
        return row_blocks(x, max(1, _BLOCK_ENTRIES // (copies * len(self.inputs))))

    def covariances(self, x: DataRows, times: np.ndarray, *, diagonal: bool) -> np.ndarray:
        """Σ_t of one output at every time, (T, M, M), or its `diagonal`, (T, M)."""
        parts = []
        for rows in self.blocks_of(x) if diagonal else [x]:
            at, prior = self.projected(rows, prior=True), _prior(self.kernel, rows, diagonal)
            parts.append(np.stack([covariance(at, prior, t) for t in times]))
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class MatrixProblem(Decomposed):
    """A solved training problem: `process` holds its spectrum, `inputs` are the kernel's second argument.

    For each sample (each augmented copy separately), row: its row after equal samples are merged; weight: its weight;
    trace: its part of N times the ridge's unit. above: diagonal terms already added if ridges differ. residual: the
    largest relative residual of the targets at the ensemble's time.
    """

    kernel: KernelFunction
    field: KernelName
    inputs: DataRows
    process: TrainedProcess
    row: np.ndarray
    weight: np.ndarray
    trace: np.ndarray
    residual: float = math.nan
    seconds: float = math.nan
    above: np.ndarray | None = None

    @property
    def processes(self) -> list[TrainedProcess]:
        """The single process."""
        return [self.process]

    def retuned(self, settings: TrainingSettings) -> Self:
        """This problem with another ridge or learning rate, without another decomposition."""
        dynamics, ridge = settings.dynamics(settings.learning_rate, self.process.samples), settings.ridge.least
        residual = self.residual if ridge == self.process.spectrum.ridge else math.nan  # that of one ridge
        return replace(self, process=self.process.retuned(ridge, dynamics), residual=residual)

    def mean(self, time: float) -> MeansAtATime:
        """μ_t as coefficients α = φ_t(Θ) Y, (N, outputs)."""
        return MeansAtATime(self.kernel, self.field, self.inputs, self.process.weights(time)).compact()

    def projected(self, x: DataRows, *, prior: bool) -> Weighted:
        """Kernels between x and the inputs, along eigenvectors."""
        kernels = self.kernel.kernel(x, self.inputs)
        return [(1.0, self.process.project(getattr(kernels, self.field), np.asarray(kernels.nngp) if prior else None))]


@dataclass(frozen=True)
class SolvedProblem(KernelPredictor):
    """A matrix that is not decomposed; another solver is called for every time and input.

    With α_t = φ_t(Θ + δ) Y the mean is Θ(x, X) α_t. With B = φ_t(Θ + δ) Θ(X, x), one right-hand side per test input,
    Σ_t(x, x′) = K(x, x′) + Bᵀ K B′ − Bᵀ K(X, x′) − K(x, X) B′.

    targets: Y (N, outputs), rows times `scale` if each represents equal samples. prior: K(X, X), None if the training
    kernel is K. kernels: those of the inputs, if kept in memory.
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
        """Raise if this training cannot be evaluated at `time`, which is determined by solving it."""
        self.solver.system.dynamics.check(self.report(time).largest, time)

    @property
    def max_learning_rate(self) -> float:
        """2N/λ_max, from the solver's estimate of λ_max."""
        first = next(iter(self._solutions.values()))
        return self.solver.system.dynamics.max_learning_rate(first.report.largest)

    def solution(self, time: float) -> Solution:
        """α_t, cached per time."""
        if time not in self._solutions:
            self._solutions[time] = self.solver.solve(self.targets, time)
        return self._solutions[time]

    def report(self, time: float) -> SolveReport:
        """Facts about the solution at one time."""
        return self.solution(time).report

    @cached_property
    def _solutions(self) -> dict[float, Solution]:
        return {}

    def mean(self, time: float) -> MeansAtATime:
        """μ_t as coefficients of all inputs, of a subset, or of features."""
        solution, matrix = self.solution(time), self.solver.system.matrix
        if isinstance(matrix, FeatureMatrix):
            return MeansAtATime(self.kernel, self.field, self.inputs[:1], matrix.transposed(solution.coefficients))
        chosen = slice(None) if solution.support is None else solution.support
        scale = 1.0 if self.scale is None else self.scale[chosen, None]
        return MeansAtATime(self.kernel, self.field, self.inputs[chosen], solution.coefficients * scale).compact()

    def covariances(self, x: DataRows, times: np.ndarray, *, diagonal: bool) -> np.ndarray:
        """Σ_t of one output at every time, (T, M, M), or its `diagonal`, (T, M)."""
        prior = _prior(self.kernel, x, diagonal)
        if not diagonal:
            changes = (back.T @ other for back, other in self._changes(x, times))
            return np.stack([prior + (change + change.T) / 2 for change in changes])
        found = np.empty((len(times), len(x)))
        for rows in spans(len(x), _TOGETHER):
            for i, (back, other) in enumerate(self._changes(x[rows], times)):
                found[i, rows] = np.maximum(prior[rows] + (back * other).sum(axis=0), 0.0)
        return found

    def _changes(self, x: DataRows, times: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield, for every time, B and (K + noise) B − 2K(X, x), (N, M); a posterior has the noise δ on its targets."""
        if not self.solver.exact:
            raise InvalidArgumentError("solver", self.solver.name, "an exact one or 'pcg' for variances")
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


def _prior(kernel: KernelFunction, x: DataRows, diagonal: bool) -> np.ndarray:
    """K(x, x), (M, M), or its diagonal, (M,), in float64."""
    return kernel_diagonal(kernel, x, "nngp") if diagonal else np.asarray(kernel.kernel(x).nngp, np.float64)


def dense(
    kernel: KernelFunction,
    x: DataRows,
    y: np.ndarray,
    settings: TrainingSettings,
    weights: np.ndarray | None = None,
    remedy: str = "train on fewer samples, or take solver='pcg' or 'nystrom'",
    copies: int = 1,
) -> MatrixProblem | SolvedProblem:
    """Train on the N inputs x (N, …) with targets y (N, outputs); equal samples are merged.

    Loss (1/2N) Σ_i ω_i |f(x_i) − y_i|², weights ω of mean 1 (None: all 1). With Ω = diag(ω) the training is that of
    √Ω f with the kernel √Ω Θ √Ω and the targets √Ω y; samples that are equal in input, target and ridge add their
    weights.
    copies: multiplicity of each sample, if augmentation does not change it as seen by the kernel.
    """
    settings.check_decomposition("dense", len(x), remedy, kernel)
    equal = None  # with noise equal samples are not one
    if not draws_noise(kernel):
        equal = x.digests() if isinstance(x, FieldPoints) else row_digests(x)
    return _train(kernel, x, y, settings, equal, weights=weights, copies=copies)


def orbit_averaged(
    kernel: KernelFunction, action: Action, x: DataRows, y: np.ndarray, settings: TrainingSettings
) -> MatrixProblem | SolvedProblem:
    """The mean after full augmentation with invariant labels, at the cost of N samples.

    Needs Θ(ρ(g)x, ρ(g)x′) = Θ(x, x′). Samples on one orbit with one target are merged. The process has no prior: the
    ensemble's covariance needs all irreps (`irrep_problem`), since it differs from the invariant network's.
    """
    settings.check_decomposition("orbit-averaged", len(x), "train on fewer samples")
    variances = kernel_diagonal(kernel, x, settings.field)
    equal, traces = _equal_orbits(action, x, variances), variances / action.group.order
    size = float(variances.mean()) * math.sqrt(len(x))  # means of numbers of that size may all but vanish
    points = isinstance(kernel, FieldKernel)
    mean = (
        PointAverage(cast(FieldKernel, kernel), cast(PointAction, action)) if points else OrbitAverage(kernel, action)
    )
    return _train(cast(KernelFunction, mean), x, y, settings, equal, traces=traces, size=size)


def _equal_orbits(action: AnyAction, x: DataRows, variances: np.ndarray) -> list[bytes]:
    """A digest of every row's orbit; orbits are compared only if `variances`, which are equal on an orbit, agree."""
    if isinstance(x, FieldPoints):
        return [int(o).to_bytes(8, "little") for o in action.data_orbits(x).orbit]
    labels = [i.to_bytes(8, "little") for i in range(len(x))]
    order = np.argsort(variances)
    near = np.diff(variances[order]) <= _SAME_VARIANCE * float(variances.max())
    alike = np.sort(order[np.append(near, False) | np.append(False, near)])
    if len(alike):
        for i, orbit in zip(alike, find_orbits(action, x[alike]).orbit, strict=True):
            labels[i] = b"orbit" + int(orbit).to_bytes(8, "little")
    return labels


def _train(
    kernel: KernelFunction,
    x: DataRows,
    y: np.ndarray,
    settings: TrainingSettings,
    equal: list[bytes] | None,
    *,
    weights: np.ndarray | None = None,
    copies: int = 1,
    traces: np.ndarray | None = None,
    size: float = 0.0,
) -> MatrixProblem | SolvedProblem:
    """Train on samples; those with equal digests `equal`, targets and ridges are merged into one row.

    traces: each sample's part of N times the ridge's unit; None: its diagonal entry, and K is the prior. size: see
    `Spectrum.scale`.
    """
    n, total, field = len(x), len(x) * copies, settings.field
    decomposes, above = settings.decomposes(n, kernel), settings.ridge.of_rows(n, settings.points)
    others = [] if above is None else [[value.tobytes() for value in above]]
    first, row = (np.arange(n),) * 2 if equal is None else kinds(equal, row_digests(y), *others)
    each = np.ones(n) if weights is None else weights
    weight = np.bincount(row, weights=each) * copies
    if len(first) < n:
        x, y, above = x[first], y[first], None if above is None else above[first]
    scale = np.sqrt(weight) if len(first) < total or weights is not None else None
    targets, dynamics = y if scale is None else y * scale[:, None], settings.dynamics_of(total)
    unit = None if traces is None else float(traces.mean())
    if not decomposes:
        trained, prior, kernels, method = _matrices(kernel, x, settings, scale)
        unit = float(trained.diagonal().sum()) / total if unit is None else unit
        if above is not None:
            trained = ScaledMatrix(trained, above=unit * above)
        held = sum(m.dtype.itemsize * m.size**2 for m in (trained, prior) if m.in_memory)
        system = LinearSystem(trained, settings.ridge.least, dynamics, unit, size)
        solver = Solver(system, method, limit=settings.limit - held)
        return SolvedProblem(kernel, field, x, targets, solver, None if field == "nngp" else prior, scale, kernels)
    kernels = settings.training_kernel(kernel, x)
    start, pairs = clock.perf_counter(), 1.0 if scale is None else np.outer(scale, scale)
    matrix = np.asarray(getattr(kernels, field), np.float64) * pairs
    row, each = np.tile(row, copies), np.tile(each, copies)
    own = None if traces is not None or field == "nngp" else np.asarray(kernels.nngp, np.float64) * pairs
    traces = matrix.diagonal()[row] * each / weight[row] if traces is None else traces
    unit = float(np.trace(matrix)) / total if unit is None else unit
    if above is not None:
        above = unit * above
        matrix = matrix + np.diag(above)
    precision = getattr(kernels, field).dtype
    spectrum = decompose(matrix, ridge=settings.ridge.least, ridge_unit=unit, precision=precision, scale=size)
    seconds = clock.perf_counter() - start
    process = TrainedProcess(spectrum, y, dynamics, prior=own, scale=scale)
    residual = _residual(matrix, process, targets)
    return MatrixProblem(kernel, field, x, process, row, each, traces, residual, seconds, above)


def _matrices(
    kernel: KernelFunction, x: DataRows, settings: TrainingSettings, scale: np.ndarray | None
) -> tuple[SymmetricMatrix, SymmetricMatrix, Kernels | None, Method | None]:
    """(training kernel, K(X, X), both kernels if in memory, method) for a solver that does not decompose."""
    method, field = settings.method, settings.field
    if method is not None and not method.exact:
        if draws_noise(kernel):
            expected = "an exact one, since net draws noise for each input, as in dropout"
            raise InvalidArgumentError("solver", method.name, expected, "such as 'cholesky' or 'pcg'")
        settings.ridge.check_one(f"solver is {method.name!r}, which knows one: give a number, or take solver='pcg'")
    if method is None and isinstance(kernel, RandomFeatures):
        settings.ridge.check_one("weights of features are solved for with one: give a number, or take solver='eigh'")
        own, other = (FeatureMatrix(kernel, x, name, scale) for name in (field, "nngp"))
        return own, other, None, Primal(kernel.features)
    full = method is None or method.exact
    found = training_matrices(kernel, x, field, settings.store, settings.limit, full=full)
    if scale is not None:
        return ScaledMatrix(found[0], scale), ScaledMatrix(found[1], scale), found[2], method
    return *found, method


def training_matrices(
    kernel: KernelFunction, x: DataRows, field: KernelName, store: FileName | None, limit: int, *, full: bool
) -> tuple[SymmetricMatrix, SymmetricMatrix, Kernels | None]:
    """The training kernel and K(X, X) of inputs x, and both kernels if both are in memory.

    full: whether all entries are needed, not only some columns. Entries are kept in memory or in a store, or
    recomputed in each pass. Both kernels are kept if they take little of the memory, only the training kernel if it
    takes up to two fifths; larger ones are recomputed, since kernels are expensive.
    """
    if store is not None:
        kept = GramStore(store, kernel, x).compute()
        return as_matrix(kept, field), as_matrix(kept, "nngp"), None
    makes: Callable[..., SymmetricMatrix] = FieldMatrix if isinstance(x, FieldPoints) else KernelMatrix
    trained, prior = makes(kernel, x, field), makes(kernel, x, "nngp")
    one = trained.dtype.itemsize * len(x) ** 2
    if full and 2 * one <= _BOTH * limit:
        kernels = kernel.kernel(x)
        own = ArrayMatrix(np.asarray(getattr(kernels, field)), trained.label)
        return own, ArrayMatrix(np.asarray(kernels.nngp), prior.label), kernels
    if full and one <= _ONE * limit:
        return ArrayMatrix(trained.assembled(), trained.label), prior, None
    return trained, prior, None


def _residual(gram: np.ndarray, process: TrainedProcess, targets: np.ndarray) -> float:
    """The largest relative residual |Y − (Θ + δ)α|/|Y| of α = (Θ + δ)⁻¹Y, along eigenvectors above rounding."""
    values, above = process.spectrum.eigenvalues, process.spectrum.eigenvalues > process.spectrum.blur
    vectors, modes = process.spectrum.vectors[:, above], process.targets[above]
    alpha = vectors @ (modes / values[above][:, None])
    missing = vectors @ modes - gram @ alpha - process.spectrum.delta * alpha
    return float(np.max(relative(missing, targets)))
