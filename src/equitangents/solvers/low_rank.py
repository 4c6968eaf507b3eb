"""Low-rank factors Θ ≈ F Fᵀ, preconditioners from them, and Nyström's approximation.

Factors come from columns by randomly pivoted Cholesky. Sources: Chen, Epperly, Tropp & Webber 2023 (arXiv
2207.06503) and Epperly, Tropp & Webber 2024 (arXiv 2410.03969, pivots drawn in blocks and accepted by rejection);
Frangella, Tropp & Udell 2023 (arXiv 2110.02820), with the preconditioner of equation 5.2,
P⁻¹ = (λ + δ) U(Λ + δ)⁻¹Uᵀ + (1 − UUᵀ) with Θ ≈ UΛUᵀ of low rank, λ its smallest eigenvalue, so that P ≥ 1 and
λ_min(Θ + δ) ≥ λ_min(P⁻¹(Θ + δ)).

Nyström: the predictor in the span of K(·, z_j) for m of the training inputs, z. Θ̂ = C W⁺ Cᵀ with C = Θ(X, Z) and
W = Θ(Z, Z) replaces Θ, at training and at test inputs; with F = C W^{−1/2} the weights of the K(·, z_j) are
W^{−1/2} φ_t(FᵀF + δ) FᵀY: one pass over N × m entries, no N × N matrix.
Sources: Williams & Seeger 2001; Smola & Bartlett 2001; Quiñonero-Candela & Rasmussen 2005; Rudi et al. 2015.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference.spectrum import NO_RIDGE, relative_resolution
from equitangents.solvers.matrices import ArrayMatrix, SymmetricMatrix, spans
from equitangents.solvers.method import LinearSystem, Method, Respond, Solution, SolveReport, SolveTask
from equitangents.validation import check_whole

_BLOCK = 64  # pivots drawn at once, at most
_NEGATIVE = 1e3  # times the rounding of entries: below minus that a diagonal entry is no matter of rounding


def pivoted_cholesky(
    matrix: SymmetricMatrix, rank: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """F (N, rank), and its pivots in order, drawn with probability proportional to the residual diagonal.

    rows: rows of the submatrix to factorise; None: all. Stops early if the residual vanishes.
    """
    rng = np.random.default_rng(0)
    rows = np.arange(matrix.size) if rows is None else rows
    n, is_full = len(rows), len(rows) == matrix.size
    left = matrix.diagonal()[rows]
    first = float(left.sum())
    rounding = float(np.finfo(matrix.dtype).eps) * max(float(left.max(initial=0.0)), 0.0)
    _check_diagonal(matrix.finite(left), rounding, matrix.label)
    factor, pivots = np.zeros((n, rank), order="F"), np.empty(rank, int)
    held = 0
    while held < rank:
        left = np.where(left > 4 * rounding, left, 0.0)
        left[pivots[:held]] = 0.0
        total = float(left.sum())
        if not total > 1e-14 * first:
            break
        count = min(_BLOCK, max(1, rank // 10), rank - held)
        drawn = rng.choice(n, count, p=left / total)
        proposed, where = np.unique(drawn, return_inverse=True)
        columns = matrix.columns(proposed) if is_full else matrix.block(rows, rows[proposed]).astype(np.float64)
        residual = matrix.finite(columns - factor[:, :held] @ factor[proposed, :held].T)
        chosen, corner = _accepted(residual[proposed], where, left[proposed], rng)
        if not len(chosen):
            break
        new = scipy.linalg.solve_triangular(corner, residual[:, chosen].T, lower=True).T
        factor[:, held : held + len(chosen)] = new
        pivots[held : held + len(chosen)] = proposed[chosen]
        held += len(chosen)
        left = left - np.einsum("nk,nk->n", new, new)
    return factor[:, :held], rows[pivots[:held]]


def cheap_pivots(matrix: SymmetricMatrix, rank: int) -> np.ndarray | None:
    """Pivots among the rows whose columns are cheap; None if all are."""
    rows = matrix.landmark_rows(rank, np.random.default_rng(0))
    if rows is None:
        return None
    entries = matrix.block(rows, rows)
    held = ArrayMatrix((entries + entries.T) / 2, matrix.label)
    return rows[pivoted_cholesky(held, rank)[1]]


def factor_on(matrix: SymmetricMatrix, pivots: np.ndarray) -> np.ndarray:
    """F (N, rank) with F Fᵀ = C W⁺ Cᵀ for the pivots' columns C, all read at once, and W = C at the pivots."""
    columns = matrix.finite(matrix.columns(pivots))
    corner = (columns[pivots] + columns[pivots].T) / 2
    return columns @ inverse_root(corner, len(pivots) * float(np.finfo(matrix.dtype).eps))[0]


def inverse_root(matrix: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """(R with R Rᵀ = W⁺, the retained eigenvalues of W): those above `rounding` times the largest."""
    values, vectors = scipy.linalg.eigh(matrix)
    keep = values > max(float(values[-1]), 0.0) * rounding
    return vectors[:, keep] / np.sqrt(values[keep]), values[keep]


def _accepted(
    corner: np.ndarray, drawn: np.ndarray, proposal: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(mask of accepted proposals, their Cholesky factor), distributed as pivots drawn one after another."""
    chosen: list[int] = []
    rows = np.zeros((0, len(corner)))  # of the factor, over all proposed
    for i in drawn:
        left = corner[i, i] - float(rows[:, i] @ rows[:, i])
        if i in chosen or not left > 1e-8 * proposal[i] or rng.uniform() * proposal[i] > left:
            continue
        row = (corner[i] - rows[:, i] @ rows) / np.sqrt(left)
        rows = np.concatenate([rows, row[None]])
        chosen.append(int(i))
    indices = np.asarray(chosen, int)
    return indices, np.tril(rows[:, indices].T) if len(indices) else np.zeros((0, 0))


def _check_diagonal(diagonal: np.ndarray, rounding: float, label: str) -> None:
    if not diagonal.any():
        raise NotPositiveDefiniteError(label, 0, "one above 0", "cause: " + NO_RIDGE, verb="has smallest eigenvalue")
    if not np.min(diagonal) >= -_NEGATIVE * rounding:
        raise NotPositiveDefiniteError(
            label,
            float(np.min(diagonal)),
            "at least 0, as in a kernel matrix",
            "check it",
            verb="has on its diagonal",
        )


_OVERSAMPLED = 20  # pivots are drawn from so many random rows a pivot
_ROWS = 2048  # rows of C at once
_PROBES = 1000  # training inputs at which predictors are compared


@dataclass(frozen=True)
class Nystrom(Method):
    """Nyström's approximation on pivots of a randomly pivoted Cholesky factorisation.

    rank: number of training inputs that span the predictor; None: all up to 200, else 4√N, at most 5,000. Pivots are
    drawn from 20 · rank random rows. The report's `error` is estimated: see `SolveReport`.
    """

    rank: int | None = None

    name: ClassVar[str] = "nystrom"
    exact: ClassVar[bool] = False
    any_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rank is not None:
            check_whole("rank", self.rank, 1)

    def landmarks(self, matrix: SymmetricMatrix) -> np.ndarray:
        """Indices of the z_j, most important first: pivots, from all rows or from a random subset."""
        rank = self.rank_of(matrix.size)
        cheap = cheap_pivots(matrix, rank)
        if cheap is not None:
            return cheap
        if matrix.size <= _OVERSAMPLED * rank:
            return pivoted_cholesky(matrix, rank)[1]
        drawn = np.sort(np.random.default_rng(0).choice(matrix.size, _OVERSAMPLED * rank, replace=False))
        return pivoted_cholesky(matrix, rank, drawn)[1]

    def rank_of(self, size: int) -> int:
        """Number of z_j for `size` rows: all up to 200, else 4√N from 200 to 5,000."""
        return min(size, self.rank or min(5000, max(200, int(4 * math.sqrt(size)))))

    def memory(self, task: SolveTask) -> float:
        """Bytes of some m × m matrices, and blocks of rows of the N × m entries."""
        n, m = task.size, self.rank_of(task.size)
        rows = min(n, _OVERSAMPLED * m)
        probes = 4 * min(n, _PROBES) ** 2
        return 8 * (6 * m * m + 4 * min(n, _ROWS) * m + 3 * n * task.outputs + rows * m + probes)

    def prepare(self, system: LinearSystem, task: SolveTask) -> Respond:
        """Choose landmarks, and compute their kernels with all rows, once for all times."""
        landmarks = self.landmarks(system.matrix)
        kept: list[tuple[np.ndarray, list[_Span]]] = []  # targets, and the spans of all landmarks and of half

        def respond(targets: np.ndarray, time: float) -> Solution:
            if not kept or not np.array_equal(kept[0][0], targets):
                kept[:] = [(targets, _spans(system, landmarks, targets))]
            span, half = kept[0][1]
            smallest, largest = float(span.values[0]), float(span.values[-1])
            system.dynamics.check(largest, time)
            weights = span.weights(time)
            error, residual = _compared(system, landmarks, span, targets, time, weights, half.weights(time))
            report = SolveReport(
                residual=residual,
                smallest=smallest,
                largest=largest,
                precision=f"float64 on {system.matrix.dtype.name} entries",
                rank=len(landmarks),
                error=error,
            )
            return Solution(weights, report, landmarks)

        return respond


class _Span:
    """The span of some landmarks: R = W^{−1/2}, ascending eigenvalues of Θ̂ + δ, and eigenvectors, from FᵀF and FᵀY."""

    def __init__(self, system: LinearSystem, root: np.ndarray, squares: np.ndarray, pulls: np.ndarray) -> None:
        self._system, self._root, self._pulls = system, root, pulls
        values, self._vectors = scipy.linalg.eigh((squares + squares.T) / 2)
        self.values = np.maximum(values, 0.0) + system.delta

    def kernel(self, rows: np.ndarray) -> np.ndarray:
        """Θ̂ between inputs, from their rows of C."""
        features = rows @ self._root
        return features @ features.T

    def weights(self, time: float) -> np.ndarray:
        """Weights of the landmarks at one time; at inf, only along eigenvalues above rounding."""
        rounding = self._system.size * np.finfo(np.float64).eps * float(self.values[-1])
        response = self._system.response(self.values, time, rounding)
        return self._root @ (self._vectors @ (response[:, None] * (self._vectors.T @ self._pulls)))


def _spans(system: LinearSystem, landmarks: np.ndarray, targets: np.ndarray) -> list[_Span]:
    """The spans of all landmarks and of the first half, from one pass over the rows of C."""
    matrix, m = system.matrix, len(landmarks)
    corner = matrix.finite(matrix.block(landmarks, landmarks).astype(np.float64))
    roots = []
    for count in (m, max(1, m // 2)):
        W = corner[:count, :count]
        root, values = inverse_root((W + W.T) / 2, float(np.finfo(matrix.dtype).eps) * math.sqrt(count))
        if not len(values):
            raise NotPositiveDefiniteError(
                "matrix", matrix.label, "one that does not vanish on the landmarks", "check the inputs"
            )
        roots.append(root)
    squares = [np.zeros((root.shape[1],) * 2) for root in roots]
    pulls = [np.zeros((root.shape[1], targets.shape[1])) for root in roots]
    for rows in spans(matrix.size, _ROWS):
        block = matrix.finite(matrix.block(rows, landmarks).astype(np.float64, copy=False))
        for root, square, pull in zip(roots, squares, pulls, strict=True):
            features = block[:, : len(root)] @ root
            square += features.T @ features
            pull += features.T @ targets[rows]
    return [_Span(system, *each) for each in zip(roots, squares, pulls, strict=True)]


def _compared(
    system: LinearSystem,
    landmarks: np.ndarray,
    span: _Span,
    targets: np.ndarray,
    time: float,
    weights: np.ndarray,
    of_half: np.ndarray,
) -> tuple[float, float]:
    """(estimated error, residual of the targets), relative to the targets, on some training inputs.

    Root mean squares. The error is the larger of two changes of the predictor: from half the landmarks to all, and from
    Θ̂ to Θ̂ + D, where D = Θ − Θ̂ between these inputs, which would learn D φ_t(D + δ) of the targets' residual.
    Source of the second: Snelson & Ghahramani 2007, "Local and global sparse Gaussian processes".
    """
    matrix = system.matrix
    rows = _probes(matrix)
    cross = matrix.block(rows, landmarks).astype(np.float64, copy=False)
    ours = cross @ weights
    left = targets[rows] - ours
    size = float(np.sqrt(np.mean(targets[rows] ** 2))) or 1.0
    residual = float(np.sqrt(np.mean(left**2))) / size
    if len(landmarks) == matrix.size:
        return 0.0, residual
    remainder = matrix.block(rows, rows).astype(np.float64) - span.kernel(cross)
    values, vectors = scipy.linalg.eigh((remainder + remainder.T) / 2, overwrite_a=True)
    values = np.maximum(values, 0.0)
    if math.isinf(time):
        # Without ridge all is learnt, but nothing along what rounding of entries as large as the diagonal made.
        rounded = relative_resolution(len(rows), matrix.dtype) * len(rows) * system.unit * (system.delta == 0)
        learnt = np.divide(values, values + system.delta, out=np.zeros_like(values), where=values > rounded)
    else:
        learnt = values * system.dynamics.response(values + system.delta, time)
    local = vectors @ (learnt[:, None] * (vectors.T @ left))
    others = cross[:, : len(of_half)] @ of_half
    changes = [float(np.sqrt(np.mean(change**2))) for change in (local, ours - others)]
    return float(np.max(changes)) / size, residual


def _probes(matrix: SymmetricMatrix) -> np.ndarray:
    """Rows at which predictors are compared: random ones, of random groups if entries are computed in groups."""
    rng = np.random.default_rng(1)
    cheap = matrix.landmark_rows(_PROBES, rng)
    everything = rng.permutation(matrix.size if cheap is None else cheap)
    return everything[:_PROBES]
