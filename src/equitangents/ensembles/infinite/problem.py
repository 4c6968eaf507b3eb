"""The training problems behind an infinite ensemble: which matrix is decomposed, and how test inputs meet it.

dense N×N            the kernel on the training data as given, or on the explicitly augmented data
orbit-averaged N×N   (1/|G|) Σ_g Θ(x, ρ(g)x′), ridge δ/|G|, N samples: the explicit problem's mean for invariant labels
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, cast

import numpy as np

from equitangents._types import AnyAction, DataRows, FileName, KernelName
from equitangents.actions import Action
from equitangents.ensembles.fields import FieldKernel, FieldMatrix, FieldPoints, PointAction, PointAverage
from equitangents.ensembles.infinite.predictor import Decomposed, MeansAtATime, SolvedProblem, kernel_diagonal
from equitangents.errors import InvalidArgumentError
from equitangents.inference import TrainedProcess, decompose
from equitangents.inference.augmented import kinds, row_digests
from equitangents.inference.data_orbits import find_orbits
from equitangents.inference.dynamics import Dynamics
from equitangents.inference.gaussian import Weighted
from equitangents.inference.ridge import Ridge
from equitangents.inference.spectrum import dense_solve_bytes
from equitangents.kernels import KernelFunction, Kernels, orbit_average
from equitangents.kernels.invariance import draws_noise
from equitangents.kernels.random_features import RandomFeatures
from equitangents.memory import check_memory, default_memory_limit
from equitangents.scale import GramStore
from equitangents.solvers.matrices import ArrayMatrix, KernelMatrix, ScaledMatrix, SymmetricMatrix, as_matrix
from equitangents.solvers.method import Method, System, relative
from equitangents.solvers.solving import DECOMPOSED, Solver, as_method
from equitangents.solvers.spectral import Eigh, FeatureMatrix, Primal

_SAME_VARIANCE = 1e-5  # relative; inputs on one orbit agree to rounding, in float32 at worst
_BOTH, _ONE = 0.25, 0.4  # of the memory limit: a factor in the same precision fits beside them


@dataclass(frozen=True)
class Settings:
    """How an ensemble trains: what `InfiniteEnsemble` was given.

    points: rows of a problem that make one sample, over which the loss is a sum: those of a field.
    """

    field: KernelName
    dynamics: Callable[[float, int], Dynamics]
    learning_rate: float
    ridge: Ridge
    memory_limit: int | None
    store: FileName | None = None  # the folder in which the training kernel is kept
    solver: str | Method = "auto"
    held: Kernels | None = None  # the training kernel, if it is there already
    points: int = 1

    def __post_init__(self) -> None:
        check_memory("a fit", 0, self.memory_limit, "")  # that it is a limit

    def dynamics_of(self, rows: int) -> Dynamics:
        """The dynamics of a problem of so many rows: its loss is a mean over samples."""
        return self.dynamics(self.learning_rate, max(1, rows // self.points))

    def training_kernel(self, kernel: KernelFunction, x: DataRows) -> Kernels:
        """The kernel of the training inputs with themselves: read from the store, as far as it is there."""
        if self.held is not None and len(self.held.nngp) == len(x):  # of all samples, where equal ones are merged
            return self.held
        if self.store is None:
            return kernel.kernel(x)
        kept = GramStore(self.store, kernel, x).compute()
        return Kernels(cast(np.ndarray, kept.nngp[:]), cast(np.ndarray, kept.ntk[:]))

    @property
    def limit(self) -> int:
        """Bytes that a fit may take."""
        return default_memory_limit() if self.memory_limit is None else self.memory_limit

    def decomposes(self, samples: int, kernel: KernelFunction | None = None) -> bool:
        """Whether a problem of so many samples is solved by an eigendecomposition; of features their weights are."""
        method = as_method(self.solver)
        if method is None and not isinstance(kernel, RandomFeatures):
            return samples <= DECOMPOSED and dense_solve_bytes(samples) <= self.limit
        return isinstance(method, Eigh)


@dataclass(frozen=True)
class Problem(Decomposed):
    """A solved training problem: `process` holds its spectrum, `inputs` are the kernel's second argument.

    row: of each sample (augmented copies one by one) the row that it is part of, where equal samples are merged;
    weight: how much it counts; trace: its part of N times the ridge's unit.
    """

    kernel: KernelFunction
    field: KernelName
    inputs: DataRows
    process: TrainedProcess
    row: np.ndarray
    weight: np.ndarray
    trace: np.ndarray
    residual: float = math.nan  # largest relative one of the targets at the ensemble's time
    seconds: float = math.nan  # of the decomposition
    above: np.ndarray | None = None  # what was added to the diagonal before, where ridges differ

    @property
    def processes(self) -> list[TrainedProcess]:
        """The only one."""
        return [self.process]

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`."""
        self.process.check(time)

    def retuned(self, ridge: float, dynamics: Callable[[int], Dynamics]) -> Self:
        """This problem with another ridge or learning rate, without another decomposition."""
        return replace(self, process=self.process.retuned(ridge, dynamics(self.process.samples)))

    def mean(self, time: float) -> MeansAtATime:
        """μ_t as coefficients α = φ_t(Θ) Y, (N, outputs)."""
        return MeansAtATime(self.kernel, self.field, self.inputs, self.process.weights(time)).compact()

    def query_bytes(self, m: int, times: int) -> int:
        """Bytes that the joint covariance of m inputs takes at so many times."""
        return 8 * (6 * m * len(self.inputs) + (times + 3) * m * m)

    def projected(self, x: DataRows, *, prior: bool) -> Weighted:
        """Kernels of x with the inputs, along eigenvectors."""
        kernels = self.kernel.kernel(x, self.inputs)
        return [(1.0, self.process.project(getattr(kernels, self.field), np.asarray(kernels.nngp) if prior else None))]


def dense(
    kernel: KernelFunction,
    x: DataRows,
    y: np.ndarray,
    settings: Settings,
    weights: np.ndarray | None = None,
    remedy: str = "train on fewer samples",
    copies: int = 1,
) -> Problem | SolvedProblem:
    """Train on the N inputs x (N, …) with targets y (N, outputs) as they are; equal samples are merged.

    Loss (1/2N) Σ_i ω_i |f(x_i) − y_i|², weights ω of mean 1 (None: all 1). With Ω = diag(ω) the training is that of
    √Ω f with the kernel √Ω Θ √Ω and the targets √Ω y; samples that are equal in input, target and ridge add their
    weights.
    copies: how often each sample is there, as where augmentation changes nothing that the kernel sees.
    """
    n = len(x)
    if settings.decomposes(n, kernel):
        check_memory(f"the dense problem of {n} samples", dense_solve_bytes(n), settings.memory_limit, remedy)
    same = x.digests if isinstance(x, FieldPoints) else partial(row_digests, x)
    equal = None if draws_noise(kernel) else same()  # with noise equal samples are not one
    return _train(kernel, x, y, settings, equal, weights=weights, copies=copies)


def orbit_averaged(
    kernel: KernelFunction, action: Action, x: DataRows, y: np.ndarray, settings: Settings
) -> Problem | SolvedProblem:
    """The mean after full augmentation with invariant labels, at the cost of N samples.

    Needs Θ(ρ(g)x, ρ(g)x′) = Θ(x, x′). Samples on one orbit with one target are merged. Its process has no prior: the
    covariance of the ensemble is not that of the invariant network, and needs all irreps (`irrep_problem`).
    """
    n, task = len(x), f"the orbit-averaged problem of {len(x)} samples"
    if settings.decomposes(n):
        check_memory(task, dense_solve_bytes(n), settings.memory_limit, "train on fewer samples")
    variances = kernel_diagonal(kernel, x, settings.field)
    equal, traces = _equal_orbits(action, x, variances), variances / action.group.order
    size = float(variances.mean()) * math.sqrt(n)  # means of numbers of that size may all but vanish
    if isinstance(kernel, FieldKernel):
        kernel = cast(KernelFunction, PointAverage(kernel, cast(PointAction, action)))
    else:
        kernel = orbit_average(kernel, action)
    return _train(kernel, x, y, settings, equal, traces=traces, size=size)


def _equal_orbits(action: AnyAction, x: DataRows, variances: np.ndarray) -> list[bytes]:
    """A digest of every row's orbit; orbits are compared only where `variances`, which they share, are equal."""
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
    settings: Settings,
    equal: list[bytes] | None,
    *,
    weights: np.ndarray | None = None,
    copies: int = 1,
    traces: np.ndarray | None = None,
    size: float = 0.0,
) -> Problem | SolvedProblem:
    """Train on samples of which those are one row that have equal digests `equal`, targets and ridges.

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
        x, y = x[first], y[first]
        above = None if above is None else above[first]
    scale = np.sqrt(weight) if len(first) < total or weights is not None else None
    targets, dynamics = y if scale is None else y * scale[:, None], settings.dynamics_of(total)
    unit = None if traces is None else float(traces.mean())
    if not decomposes:
        trained, prior, kernels, method = _matrices(kernel, x, settings, scale)
        unit = float(trained.diagonal().sum()) / total if unit is None else unit
        if above is not None:
            trained = ScaledMatrix(trained, above=unit * above)
        held = sum(m.dtype.itemsize * m.size**2 for m in (trained, prior) if m.in_memory)
        solver = Solver(
            System(trained, settings.ridge.least, dynamics, unit, size), method, limit=settings.limit - held
        )
        return SolvedProblem(kernel, field, x, targets, solver, None if field == "nngp" else prior, scale, kernels)
    kernels = settings.training_kernel(kernel, x)
    scaled = lambda k: (
        np.asarray(k, np.float64) if scale is None else np.asarray(k, np.float64) * np.outer(scale, scale)
    )
    start = clock.perf_counter()
    matrix = scaled(getattr(kernels, field))
    row, each = np.tile(row, copies), np.tile(each, copies)
    own = None if traces is not None or field == "nngp" else scaled(kernels.nngp)
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
    return Problem(kernel, field, x, process, row, each, traces, residual, seconds, above)


def _matrices(
    kernel: KernelFunction, x: DataRows, settings: Settings, scale: np.ndarray | None
) -> tuple[SymmetricMatrix, SymmetricMatrix, Kernels | None, Method | None]:
    """(the kernel that trains, K(X, X), both if they are held, the method) of a solver that does not decompose."""
    method = as_method(settings.solver)
    if method is not None and not method.exact:
        if draws_noise(kernel):
            raise InvalidArgumentError(
                "solver",
                settings.solver,
                "an exact one, since net draws noise for each input, as in dropout",
                "such as 'cholesky' or 'pcg'",
            )
        settings.ridge.check_one(f"solver is {method.name!r}, which knows one: give a number, or take solver='pcg'")
    if method is None and isinstance(kernel, RandomFeatures):
        settings.ridge.check_one("weights of features are solved for with one: give a number, or take solver='eigh'")
        trained, prior = (FeatureMatrix(kernel, x, field, scale) for field in (settings.field, "nngp"))
        return trained, prior, None, Primal(kernel.features)
    whole = method is None or method.exact
    own, other, kernels = training_matrices(kernel, x, settings.field, settings.store, settings.limit, whole=whole)
    if scale is not None:
        own, other = ScaledMatrix(own, scale), ScaledMatrix(other, scale)
    return own, other, kernels, method


def training_matrices(
    kernel: KernelFunction, x: DataRows, field: KernelName, store: FileName | None, limit: int, *, whole: bool
) -> tuple[SymmetricMatrix, SymmetricMatrix, Kernels | None]:
    """The kernel that trains and K(X, X) of inputs x, and both kernels if both are held.

    whole: whether all entries are needed, not only some columns. They are read in memory, in a store, or computed anew
    in each pass. Kernels are dear: both are held together where they take little of the memory, the one that trains
    alone where it takes up to two fifths, and only what is larger is computed whenever it is needed.
    """
    if store is not None:
        kept = GramStore(store, kernel, x).compute()
        return as_matrix(kept, field), as_matrix(kept, "nngp"), None
    makes: Callable[..., SymmetricMatrix] = FieldMatrix if isinstance(x, FieldPoints) else KernelMatrix
    trained, prior = makes(kernel, x, field), makes(kernel, x, "nngp")
    one = trained.dtype.itemsize * len(x) ** 2
    if whole and 2 * one <= _BOTH * limit:
        kernels = kernel.kernel(x)
        own = ArrayMatrix(np.asarray(getattr(kernels, field)), trained.words)
        return own, ArrayMatrix(np.asarray(kernels.nngp), prior.words), kernels
    if whole and one <= _ONE * limit:
        return ArrayMatrix(trained.assembled(), trained.words), prior, None
    return trained, prior, None


def _residual(gram: np.ndarray, process: TrainedProcess, targets: np.ndarray) -> float:
    """The largest relative residual |Y − (Θ + δ)α|/|Y| of α = (Θ + δ)⁻¹Y, along eigenvectors above rounding."""
    values, above = process.spectrum.eigenvalues, process.spectrum.eigenvalues > process.spectrum.blur
    vectors, modes = process.spectrum.vectors[:, above], process.targets[above]
    alpha = vectors @ (modes / values[above][:, None])
    missing = vectors @ modes - gram @ alpha - process.spectrum.delta * alpha
    return float(np.max(relative(missing, targets)))
