"""The classification problem with its folds, and the score of one kernel: its best ridge, on all samples and per fold.

Samples that belong together form a set and are left out together. A fold is a union of sets, stratified by class as far
as the sets allow. Within the training part of a fold everything is chosen again, so the predictions of its samples come
from a choice that never used them.

Leave-one-set-out is exact. With Θ = U Λ Uᵀ and G = (Θ + δ_I)⁻¹, training without the set I predicts y − e there,
e = G_II⁻¹ (G y)_I, where δ_I is the ridge times the mean diagonal of the other samples (`inference.choosing`).

The score is the log loss, the mean over classes of −log softmax(β f_i) at the label; f_i are the outputs without the
set of sample i, and β minimises the loss. A fold is predicted with the ridge and β chosen on its training part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from equitangents._types import Numbers
from equitangents.ensembles.estimator import centred_one_hot
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.fit.candidates import block_means, symmetries
from equitangents.inference import decompose
from equitangents.inference.choosing import errors_without
from equitangents.inference.probabilities import inverse_temperatures
from equitangents.inference.spectrum import Spectrum, is_positive

Sets = Sequence[Int[np.ndarray, " m"]]
FOLDS = 5
_NEAR = 0.1
_SIDE = 32  # pixels per side, at most, of the averaged images that are compared first
_ROUNDING, _ROWS = 1e-5, 512  # of squares in single precision; rows per block
RIDGES = tuple(float(10.0**power) for power in (*range(-16, -9), *np.arange(-9.0, 4.5, 0.5), 5, 6, 7))
"""From below the precision of float64 kernels up to where predictions only shrink."""

_LOSS_TOLERANCE, _MAX_WORK = 1e-3, 1_000  # of a log loss; times the least work


@dataclass(frozen=True, eq=False)
class Subset:
    """Some samples, as `rows` of all samples, and their sets, numbered within the subset."""

    rows: Int[np.ndarray, " m"]
    sets: Sets


@dataclass(frozen=True, eq=False)
class Folds:
    """Labels as indices of `classes`, sets of samples that are left out together, and folds as indices of sets."""

    labels: Int[np.ndarray, " n"]
    classes: tuple[str, ...]
    sets: Sets
    folds: tuple[tuple[int, ...], ...]

    def split(self) -> list[tuple[Subset, Int[np.ndarray, " b"]]]:
        """For each fold (the training samples, the rows of the fold)."""
        every = set(range(len(self.sets)))
        return [(self.subset(sorted(every - set(fold))), self.subset(fold).rows) for fold in self.folds]

    def merge(self, per_fold: Iterable[Float[np.ndarray, "b classes"]]) -> Float[np.ndarray, "n classes"]:
        """Values of all samples from those of each fold."""
        merged = np.full((len(self.labels), len(self.classes)), np.nan)
        for fold, values in zip(self.folds, per_fold, strict=True):
            merged[self.subset(fold).rows] = values
        return merged

    def subset(self, numbers: Sequence[int]) -> Subset:
        """The samples of these sets."""
        sets = [self.sets[i] for i in numbers]
        ends = np.cumsum([0, *map(len, sets)])
        return Subset(np.concatenate(sets), [np.arange(a, b) for a, b in pairwise(ends)])


def make_folds(labels: Int[np.ndarray, " n"], classes: tuple[str, ...], together: Numbers | None, seed: int) -> Folds:
    """Distribute samples over folds; together: (n,) a value that samples of one set share, None for sets of one.

    Raises ShapeError for another number of samples, InvalidArgumentError for fewer than three sets, and for a class
    that occurs in one set only.
    """
    n, argument = len(labels), "y" if together is None else "together"
    sets = [np.array([i]) for i in range(n)] if together is None else sets_of(together, n)
    if len(sets) < 3:
        remedy = "give finer sets, or leave it out"
        raise InvalidArgumentError(argument, len(sets), "three or more sets of samples", remedy, verb="has sets,")
    for k, name in enumerate(classes):
        if sum(bool((labels[each] == k).any()) for each in sets) < 2:
            few = "has one sample, or set of samples, of class"
            raise InvalidArgumentError(argument, name, "two or more of each class", "give more samples", verb=few)
    return Folds(labels, classes, sets, folds_of(labels, sets, len(classes), seed, FOLDS))


def sets_of(together: Numbers, n: int) -> list[Int[np.ndarray, " m"]]:
    """The rows that share a value, in the order of first occurrence."""
    values = np.asarray(together)
    if values.shape != (n,):
        raise ShapeError("together", values.shape, (n,), "give one entry for each sample")
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return [np.flatnonzero(inverse == k) for k in np.argsort(first)]


def folds_of(labels: np.ndarray, sets: Sets, classes: int, seed: int, number: int) -> tuple[tuple[int, ...], ...]:
    """At most `number` folds: the largest sets first, each to the fold that has the fewest samples of its classes."""
    counts = np.array([np.bincount(labels[each], minlength=classes) for each in sets])
    shuffled = np.random.default_rng(seed).permutation(len(sets))
    order = shuffled[np.argsort(-counts[shuffled].sum(axis=1), kind="stable")]
    number = min(number, len(sets))
    held = np.zeros((number, classes))
    folds: list[list[int]] = [[] for _ in range(number)]
    for i in order:
        to = min(range(number), key=lambda f: (float(held[f] @ counts[i]), held[f].sum(), len(folds[f])))
        folds[to].append(int(i))
        held[to] += counts[i]
    return tuple(tuple(fold) for fold in folds if fold)


def near_duplicates(x: Float[np.ndarray, "n height width channels"], sets: Sets) -> tuple[tuple[int, int], ...]:
    """Sorted pairs (i, j), i < j, of nearly equal images that are not of one set.

    A pair has min_g |x_i − ρ(g) x_j|² ≤ t² (|x_i − m_i|² + |x_j − m_j|²)/2 over quarter turns and reflections g, with
    t = 0.1 and m an image's mean colour: true of a file that was saved again, not of another tile of one slide. Such
    pairs leak labels between folds.

    First means over blocks of w² pixels are compared, for which |a − b|² is at most 1/w² of that of the pixels, so no
    pair is missed. The pairs that remain are compared pixel by pixel, in float64.
    """
    x = np.asarray(x, np.float64)
    x = x - x.mean(axis=(0, 1, 2))
    set_of = np.empty(len(x), np.int64)
    set_of[np.concatenate(sets)] = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
    window = -(-max(x.shape[1:3]) // _SIDE)
    means = lambda of: np.ascontiguousarray(block_means(of, window).reshape(len(x), -1), np.float32)
    variation = ((x - x.mean(axis=(1, 2), keepdims=True)) ** 2).sum(axis=(1, 2, 3))
    pairs = set[tuple[int, int]]()
    small = means(x)
    squares = (small**2).sum(axis=1)
    for copies in symmetries(x, (1, 2)):
        others = means(copies)
        for start in range(0, len(x), _ROWS):
            rows = slice(start, start + _ROWS)
            both = squares[rows, None] + squares
            distance = both - 2 * small[rows] @ others.T
            bound = _NEAR**2 * (variation[rows, None] + variation) / 2 / window**2
            i, j = np.nonzero(distance <= bound + _ROUNDING * both)
            i = i + start
            i, j = (index[(i < j) & (set_of[i] != set_of[j])] for index in (i, j))
            for begin in range(0, len(i), _ROWS):
                a, b = i[begin : begin + _ROWS], j[begin : begin + _ROWS]
                near = ((x[a] - copies[b]) ** 2).sum(axis=(1, 2, 3)) <= _NEAR**2 * (variation[a] + variation[b]) / 2
                pairs.update(zip(a[near].tolist(), b[near].tolist(), strict=True))
    return tuple(sorted(pairs))


@dataclass(frozen=True, eq=False)
class Gram:
    """A training kernel (n, n), averaged over `order` elements of a group (1 without).

    variances: (n,), the diagonal before the average; the unit of the ridge is their mean over `order`.
    """

    matrix: Float[np.ndarray, "n n"]
    variances: Float[np.ndarray, " n"]
    order: int = 1
    precision: str = "float64"

    def subset(self, rows: Int[np.ndarray, " m"]) -> Gram:
        """The kernel of some of the samples."""
        return Gram(self.matrix[np.ix_(rows, rows)], self.variances[rows], self.order, self.precision)


@dataclass(frozen=True, eq=False)
class KernelRidge:
    """Kernel ridge regression on targets (n, outputs), for all ridges from one decomposition."""

    gram: Gram
    targets: Float[np.ndarray, "n outputs"]
    sets: Sets

    @cached_property
    def spectrum(self) -> Spectrum:
        """Spectrum of the kernel without a ridge; raises NotPositiveDefiniteError for an indefinite matrix."""
        gram, n = self.gram, len(self.targets)
        variance = float(gram.variances.mean())
        size = variance * n**0.5 if gram.order > 1 else 0.0  # before the average, which may nearly vanish
        return decompose(gram.matrix, ridge_unit=variance / gram.order, precision=gram.precision, scale=size)

    @cached_property
    def ridges(self) -> tuple[float, ...]:
        """The values of `RIDGES` with which the kernel is invertible in its precision."""
        at, unit = self.spectrum, self.spectrum.ridge_unit
        return tuple(r for r in RIDGES if is_positive(at.smallest + r * unit, at.largest + r * unit, at.blur))

    def left_out(self, ridge: float) -> Float[np.ndarray, "n outputs"]:
        """Each sample's outputs after training without its set."""
        traces = self.gram.variances / self.gram.order
        decomposition = self.spectrum.eigenvalues, self.spectrum.vectors, self._coefficients
        outputs = np.full(self.targets.shape, np.nan)
        for rows in self._sets_by_size:
            shifts = ridge * (traces.sum() - traces[rows].sum(axis=1)) / (len(traces) - rows.shape[1])
            ones = np.ones(rows.shape)
            outputs[rows] = self.targets[rows] - errors_without(*decomposition, rows, shifts, ones, 0 * ones)
        return outputs

    def predict(self, cross: Float[np.ndarray, "m n"], ridge: float) -> Float[np.ndarray, "m outputs"]:
        """Outputs for inputs whose kernels with the training samples are `cross`."""
        at = self.spectrum
        return (cross @ at.vectors / (at.eigenvalues + ridge * at.ridge_unit)) @ self._coefficients

    @cached_property
    def _sets_by_size(self) -> list[np.ndarray]:
        """The sets of each size, (sets, size)."""
        sizes = sorted({len(each) for each in self.sets})
        return [np.stack([each for each in self.sets if len(each) == size]) for size in sizes]

    @cached_property
    def _coefficients(self) -> np.ndarray:
        return self.spectrum.vectors.T @ self.targets


@dataclass(frozen=True, eq=False)
class RidgeScore:
    """The best ridge of a kernel on some samples, with β, log loss and accuracy on left-out samples."""

    log_loss: float
    ridge: float
    beta: float
    accuracy: float
    losses: Float[np.ndarray, " sets"]  # what each set adds to the log loss


@dataclass(frozen=True, eq=False)
class KernelScore:
    """Scores of a kernel on all samples, and for each fold those on its training part and the fold's logits (b, K)."""

    best: RidgeScore
    smallest_ridge: float  # of the grid with which the kernel is invertible in its precision
    folds: tuple[tuple[RidgeScore, Float[np.ndarray, "b classes"]], ...]


def score_kernel(gram: Gram, problem: Folds) -> KernelScore:
    """Score a kernel of all samples; InvalidArgumentError if no ridge of the grid makes it invertible."""
    regression, best = select_ridge(gram, problem, Subset(np.arange(len(problem.labels)), problem.sets))
    folds = [fit_and_predict(gram, problem, rest, gram.matrix[rows]) for rest, rows in problem.split()]
    return KernelScore(best, regression.ridges[0], tuple((of, of.beta * outputs) for of, outputs in folds))


def fit_and_predict(
    gram: Gram, problem: Folds, part: Subset, cross: Float[np.ndarray, "m n"]
) -> tuple[RidgeScore, Float[np.ndarray, "m classes"]]:
    """The best ridge of a subset, and outputs for inputs whose kernels with all samples are `cross`."""
    regression, best = select_ridge(gram.subset(part.rows), problem, part)
    return best, regression.predict(cross.take(part.rows, axis=1), best.ridge)


def select_ridge(gram: Gram, problem: Folds, part: Subset) -> tuple[KernelRidge, RidgeScore]:
    """The regression on a subset, and its best ridge; raises as `score_kernel`."""
    labels = problem.labels[part.rows]
    regression = KernelRidge(gram, centred_one_hot(labels, len(problem.classes)), part.sets)
    if not regression.ridges:
        raise InvalidArgumentError("the kernel is not positive definite with any ridge of the grid")
    outputs = np.stack([regression.left_out(ridge) for ridge in regression.ridges])
    betas, weights = inverse_temperatures(outputs, labels), 1 / np.bincount(labels)[labels]
    log_p = scipy.special.log_softmax(betas[:, None, None] * outputs, axis=2)
    losses = -log_p[:, np.arange(len(labels)), labels] * weights / weights.sum()  # classes weigh the same
    scores = losses.sum(axis=1)
    if not np.isfinite(scores).any():
        raise InvalidArgumentError("no ridge of the grid gives finite predictions of left-out samples")
    at = _inner_minimum(np.where(np.isfinite(scores), scores, math.inf))
    accuracy = float((outputs[at].argmax(axis=1) == labels).mean())
    of_sets = np.array([losses[at, rows].sum() for rows in part.sets])
    return regression, RidgeScore(float(scores[at]), regression.ridges[at], float(betas[at]), accuracy, of_sets)


def near_best(scores: Sequence[RidgeScore]) -> list[int]:
    """Indices of scores that exceed the best by at most one standard error of the difference, over sets."""
    best = min(scores, key=lambda each: each.log_loss)
    excess, n = [each.losses - best.losses for each in scores], len(best.losses)
    close = [e.sum() ** 2 <= n * e.var(ddof=1) for e in excess]
    return [i for i, each in enumerate(scores) if close[i] or each.log_loss == best.log_loss]


def select(scores: Sequence[RidgeScore], work: Sequence[int]) -> int:
    """Index of the best among those within one standard error that need at most 1,000 times the least work of these.

    After the rule of one standard error (Breiman, Friedman, Olshen & Stone, *Classification and Regression Trees*,
    1984), which takes the least.
    """
    close = near_best(scores)
    most = _MAX_WORK * min(work[i] for i in close)
    return min((i for i in close if work[i] <= most), key=lambda i: (scores[i].log_loss, work[i]))


def _inner_minimum(scores: Float[np.ndarray, " ridges"]) -> int:
    """Index of the smallest score; if that is an end of the grid, of the ridge farthest from it that scores as well.

    There predictions no longer change with the ridge, unless it is the smallest that the kernel's precision allows.
    """
    at = int(np.argmin(scores))
    as_good = scores <= scores[at] + _LOSS_TOLERANCE
    if at == len(scores) - 1:
        return len(scores) - int(np.cumprod(as_good[::-1]).sum())
    return int(np.cumprod(as_good).sum()) - 1 if at == 0 else at
