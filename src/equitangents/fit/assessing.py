"""What is to be learnt, and how good one kernel is at it: its best ridge by left-out samples, in each fold's rest, too.

A fold holds whole sets of samples that leave together, with every class in it as far as the sets allow. Within the rest
of a fold everything is chosen anew, so that what is said of its samples is said by a choice that never saw them.

Left-out samples of one set I leave together. With Θ = U Λ Uᵀ and G = (Θ + δ_I)⁻¹ the training without them predicts
y − e there, e = G_II⁻¹ (G y)_I, δ_I being the ridge times the mean diagonal of the others (`inference.choosing`).

The score is the log loss, the mean over classes of −log softmax(β f_i) at the label, f_i being outputs without the set
of sample i and β that of the smallest. A fold's samples are predicted by the rest, with the ridge and β that it chose.
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
from equitangents.inference.spectrum import Spectrum, is_positive

Sets = Sequence[Int[np.ndarray, " m"]]
FOLDS = 5
_NEAR = 0.1
_SIDE = 32  # pixels of a side, at most, to which images are averaged down for a first look
_ROUNDING = 1e-5  # of squares in single precision
_ROWS = 512  # at once
RIDGES = tuple(float(10.0**power) for power in (*range(-16, -9), *np.arange(-9.0, 4.5, 0.5), 5, 6, 7))
"""From below what kernels in double precision can tell to where predictions only become smaller together."""

_AS_GOOD = 1e-3  # of a log loss
_LIGHT = 1_000  # times the least work
_STEPS = 16  # halvings of the logarithm of β, which leave 0.03 % of it
_HOT, _COLD = -8.0, 12.0  # its ends, for outputs of size 1


@dataclass(frozen=True, eq=False)
class SampleRows:
    """Some samples by their `rows` among all, and the sets of them that leave together, numbered within the part."""

    rows: Int[np.ndarray, " m"]
    sets: Sets


@dataclass(frozen=True, eq=False)
class Problem:
    """Labels as numbers of `classes`, the sets of samples that leave together, and the folds, each some of the sets."""

    labels: Int[np.ndarray, " n"]
    classes: tuple[str, ...]
    sets: Sets
    folds: tuple[tuple[int, ...], ...]

    @property
    def targets(self) -> np.ndarray:
        """One-hot minus 1/K, (n, K)."""
        return centred_one_hot(self.labels, len(self.classes))

    @property
    def whole(self) -> SampleRows:
        """The part that holds every sample."""
        return SampleRows(np.arange(len(self.labels)), self.sets)

    def split(self) -> list[tuple[SampleRows, Int[np.ndarray, " b"]]]:
        """For each fold (the samples outside, the rows inside)."""
        every = set(range(len(self.sets)))
        return [(self.part(sorted(every - set(fold))), self.inside(fold)) for fold in self.folds]

    def inside(self, fold: tuple[int, ...]) -> Int[np.ndarray, " b"]:
        """The rows of a fold."""
        return np.concatenate([self.sets[i] for i in fold])

    def together(self, of_folds: Iterable[Float[np.ndarray, "b classes"]]) -> Float[np.ndarray, "n classes"]:
        """What was found of the rows inside each fold, of all rows."""
        found = np.full((len(self.labels), len(self.classes)), np.nan)
        for fold, values in zip(self.folds, of_folds, strict=True):
            found[self.inside(fold)] = values
        return found

    def part(self, numbers: Sequence[int]) -> SampleRows:
        """The part that consists of these sets."""
        kept = [self.sets[i] for i in numbers]
        ends = np.cumsum([0, *map(len, kept)])
        return SampleRows(np.concatenate(kept), [np.arange(a, b) for a, b in pairwise(ends)])


def make_problem(
    labels: Int[np.ndarray, " n"], classes: tuple[str, ...], together: Numbers | None, seed: int
) -> Problem:
    """The problem of labels as numbers; together: (n,) what samples that leave together have in common.

    Raises ShapeError for another number of samples, InvalidArgumentError for fewer than three sets and where a class
    has one set alone.
    """
    n = len(labels)
    sets = [np.array([i]) for i in range(n)] if together is None else sets_of(together, n)
    if len(sets) < 3:
        raise InvalidArgumentError(
            "together", len(sets), "three or more sets of samples", "give finer sets, or leave it out", verb="has sets,"
        )
    for k, name in enumerate(classes):
        if sum(bool((labels[each] == k).any()) for each in sets) < 2:
            raise InvalidArgumentError(
                "together",
                name,
                "each class in two or more sets",
                "give more samples, or leave it out",
                verb="has one set of class",
            )
    return Problem(labels, classes, sets, folds_of(labels, sets, len(classes), seed, FOLDS))


def sets_of(together: Numbers, n: int) -> list[Int[np.ndarray, " m"]]:
    """The rows that have a value in common, in the order of their first ones."""
    values = np.asarray(together)
    if values.shape != (n,):
        raise ShapeError("together", values.shape, (n,), "give one entry for each sample")
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return [np.flatnonzero(inverse == k) for k in np.argsort(first)]


def folds_of(labels: np.ndarray, sets: Sets, classes: int, seed: int, number: int) -> tuple[tuple[int, ...], ...]:
    """At most so many folds: the largest sets first, each to the fold with the fewest of its classes."""
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
    """Pairs (i, j), i < j, of nearly equal images that do not leave together (`sets`), in their order.

    Among all pairs and the turned and mirrored copies of one of them those with
    min_g |x_i − ρ(g) x_j|² ≤ t² (|x_i − m_i|² + |x_j − m_j|²)/2, t = 0.1, m an image's mean colour: a file that was
    saved again is, another tile of one slide is not. Each lets its twin be predicted too well.

    The first look is at means over blocks of w² pixels, for which |a − b|² is at most 1/w² of that of the pixels: it
    leaves out no pair. What it finds is compared pixel by pixel, in float64.
    """
    x = np.asarray(x, np.float64)
    x = x - x.mean(axis=(0, 1, 2))
    leaves = np.empty(len(x), np.int64)
    leaves[np.concatenate(sets)] = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
    window = -(-max(x.shape[1:3]) // _SIDE)
    size = ((x - x.mean(axis=(1, 2), keepdims=True)) ** 2).sum(axis=(1, 2, 3))
    found = set[tuple[int, int]]()
    small = _smaller(x, window)
    squares = (small**2).sum(axis=1)
    for copies in symmetries(x, (1, 2)):
        others = _smaller(copies, window)
        for start in range(0, len(x), _ROWS):
            rows = slice(start, start + _ROWS)
            both = squares[rows, None] + squares
            apart = both - 2 * small[rows] @ others.T
            bound = _NEAR**2 * (size[rows, None] + size) / 2 / window**2
            i, j = np.nonzero(apart <= bound + _ROUNDING * both)
            i = i + start
            i, j = (index[(i < j) & (leaves[i] != leaves[j])] for index in (i, j))
            for begin in range(0, len(i), _ROWS):
                a, b = i[begin : begin + _ROWS], j[begin : begin + _ROWS]
                exact = ((x[a] - copies[b]) ** 2).sum(axis=(1, 2, 3)) <= _NEAR**2 * (size[a] + size[b]) / 2
                found.update(zip(a[exact].tolist(), b[exact].tolist(), strict=True))
    return tuple(sorted(found))


def _smaller(x: np.ndarray, window: int) -> Float[np.ndarray, "n pixels"]:
    """Means over blocks of window² pixels, without what remains at the border, in single precision."""
    return np.ascontiguousarray(block_means(x, window).reshape(len(x), -1), np.float32)


@dataclass(frozen=True, eq=False)
class Gram:
    """A training kernel (n, n), averaged over `order` elements of a group (1 without).

    variances: (n,), the diagonal before it was averaged, of which the ridge's unit is the mean over `order`.
    """

    matrix: Float[np.ndarray, "n n"]
    variances: Float[np.ndarray, " n"]
    order: int = 1
    precision: str = "float64"

    def part(self, rows: Int[np.ndarray, " m"]) -> Gram:
        """The kernel of some of the samples."""
        return Gram(self.matrix[np.ix_(rows, rows)], self.variances[rows], self.order, self.precision)


@dataclass(frozen=True, eq=False)
class Solved:
    """A training kernel with its targets (n, outputs), decomposed once; `sets` hold every sample once."""

    gram: Gram
    targets: Float[np.ndarray, "n outputs"]
    sets: Sets

    @cached_property
    def spectrum(self) -> Spectrum:
        """The spectrum of the kernel without a ridge; raises NotPositiveDefiniteError where it is no kernel."""
        gram, n = self.gram, len(self.targets)
        variance = float(gram.variances.mean())
        size = variance * n**0.5 if gram.order > 1 else 0.0  # of what was averaged: means may all but vanish
        return decompose(gram.matrix, ridge_unit=variance / gram.order, precision=gram.precision, scale=size)

    @cached_property
    def ridges(self) -> tuple[float, ...]:
        """The values of `RIDGES` with which the kernel is invertible in its precision."""
        at, unit = self.spectrum, self.spectrum.ridge_unit
        return tuple(r for r in RIDGES if is_positive(at.smallest + r * unit, at.largest + r * unit, at.blur))

    def left_out(self, ridge: float) -> Float[np.ndarray, "n outputs"]:
        """Each sample's outputs after training without its set."""
        traces = self.gram.variances / self.gram.order
        decomposition = self.spectrum.eigenvalues, self.spectrum.vectors, self._along
        found = np.full(self.targets.shape, np.nan)
        for rows in self._blocks:
            shifts = ridge * (traces.sum() - traces[rows].sum(axis=1)) / (len(traces) - rows.shape[1])
            ones = np.ones(rows.shape)
            found[rows] = self.targets[rows] - errors_without(*decomposition, rows, shifts, ones, 0 * ones)
        return found

    def predicted(self, cross: Float[np.ndarray, "m n"], ridge: float) -> Float[np.ndarray, "m outputs"]:
        """Outputs for inputs whose kernels with the training samples are `cross`."""
        at = self.spectrum
        return (cross @ at.vectors / (at.eigenvalues + ridge * at.ridge_unit)) @ self._along

    @cached_property
    def _blocks(self) -> list[np.ndarray]:
        """The sets of each size, (sets, size)."""
        sizes = sorted({len(each) for each in self.sets})
        return [np.stack([each for each in self.sets if len(each) == size]) for size in sizes]

    @cached_property
    def _along(self) -> np.ndarray:
        return self.spectrum.vectors.T @ self.targets


def weights_of(labels: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """What each sample counts, so that all classes that are there count as much, with mean 1."""
    counts = np.bincount(labels)
    return (1 / counts[labels]) * len(labels) / np.count_nonzero(counts)


def calibrated(
    outputs: Float[np.ndarray, "ridges n classes"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " ridges"]:
    """β of the smallest log loss of softmax(β·outputs): 0 where they tell nothing, NaN if they are not finite.

    1/β is the temperature of `inference.probabilities.fitted_temperature`, whose targets these are.
    """
    ridges, n, K = outputs.shape
    size = np.abs(outputs).max(axis=(1, 2))
    aimed = np.full((n, K), 1 / ((n + 2) * (K - 1)))
    aimed[np.arange(n), labels] = (n + 1) / (n + 2)
    scaled = outputs / np.where(size > 0, size, 1.0)[:, None, None]

    def slope(beta: np.ndarray) -> np.ndarray:
        return ((scipy.special.softmax(beta[:, None, None] * scaled, axis=2) - aimed) * scaled).sum(axis=(1, 2))

    tells = slope(np.zeros(ridges)) < 0
    low, high = np.full(ridges, _HOT), np.full(ridges, _COLD)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        rising = slope(np.exp(middle)) < 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    found = np.where(tells, np.exp((low + high) / 2) / np.where(size > 0, size, 1.0), 0.0)
    return np.where(np.isfinite(size), found, np.nan)


def log_losses(
    logits: Float[np.ndarray, "*more n classes"], labels: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "*more n"]:
    """−log softmax(logits) at each sample's label."""
    return -scipy.special.log_softmax(logits, axis=-1)[..., np.arange(len(labels)), labels]


@dataclass(frozen=True, eq=False)
class Best:
    """The best ridge of a kernel on some samples: its score, β, and the share of left-out samples that are right.

    losses: (sets,) what each set adds to the score.
    """

    log_loss: float
    ridge: float
    beta: float
    accuracy: float
    losses: Float[np.ndarray, " sets"]


@dataclass(frozen=True, eq=False)
class Assessed:
    """A kernel on all samples, and for each fold its `Best` on the rest and the fold's logits (b, K).

    least: the smallest ridge of the grid with which the kernel is invertible in its precision.
    """

    best: Best
    least: float
    folds: tuple[tuple[Best, Float[np.ndarray, "b classes"]], ...]


def assessed(gram: Gram, problem: Problem) -> Assessed:
    """The kernel of all samples, assessed; InvalidArgumentError where no ridge of the grid makes it invertible."""
    whole, best = best_of(gram, problem, problem.whole)
    found = [predicted(gram, problem, rest, gram.matrix[inside]) for rest, inside in problem.split()]
    return Assessed(best, whole.ridges[0], tuple((chosen, chosen.beta * outputs) for chosen, outputs in found))


def predicted(
    gram: Gram, problem: Problem, part: SampleRows, cross: Float[np.ndarray, "m n"]
) -> tuple[Best, Float[np.ndarray, "m classes"]]:
    """The best ridge of a part, and its outputs for inputs whose kernels with all samples are `cross`."""
    solved, best = best_of(gram.part(part.rows), problem, part)
    return best, solved.predicted(cross.take(part.rows, axis=1), best.ridge)


def best_of(gram: Gram, problem: Problem, part: SampleRows) -> tuple[Solved, Best]:
    """The kernel of a part, decomposed, and its best ridge; raises as `assessed`."""
    labels = problem.labels[part.rows]
    weights = weights_of(labels)
    solved = Solved(gram, problem.targets[part.rows], part.sets)
    outputs = np.stack([solved.left_out(ridge) for ridge in solved.ridges]) if solved.ridges else np.empty(0)
    if not outputs.size:
        raise InvalidArgumentError("the kernel is not positive definite with any ridge of the grid")
    betas = calibrated(outputs, labels)
    losses = log_losses(betas[:, None, None] * outputs, labels) * weights / weights.sum()
    scores = losses.sum(axis=1)
    if not np.isfinite(scores).any():
        raise InvalidArgumentError("no ridge of the grid gives finite predictions of left-out samples")
    at = _within(np.where(np.isfinite(scores), scores, math.inf))
    hits = outputs[at].argmax(axis=1) == labels
    of_sets = np.array([losses[at, rows].sum() for rows in part.sets])
    return solved, Best(float(scores[at]), solved.ridges[at], float(betas[at]), float(hits.mean()), of_sets)


def as_good(found: Sequence[Best]) -> list[int]:
    """The numbers of those whose score is behind the best by at most a standard error of the difference, over sets."""
    best = min(found, key=lambda each: each.log_loss)

    def is_as_good(each: Best) -> bool:
        behind, n = each.losses - best.losses, len(best.losses)
        return bool(behind.sum() ** 2 <= n * behind.var(ddof=1)) or each.log_loss == best.log_loss

    return [i for i, each in enumerate(found) if is_as_good(each)]


def chosen_of(found: Sequence[Best], work: Sequence[int]) -> int:
    """The number of the best of little work among those that are as good as the best: at most 1,000 times the least.

    After the rule of one standard error (Breiman, Friedman, Olshen & Stone, *Classification and Regression Trees*,
    1984), which takes the least.
    """
    kept = as_good(found)
    most = _LIGHT * min(work[i] for i in kept)
    return min((i for i in kept if work[i] <= most), key=lambda i: (found[i].log_loss, work[i]))


def _within(scores: Float[np.ndarray, " ridges"]) -> int:
    """The number of the smallest score; at an end of the grid of the ridge that is farthest from it and as good.

    There predictions no longer change with the ridge, unless it is the smallest that the kernel's precision allows.
    """
    at = int(np.argmin(scores))
    as_good = scores <= scores[at] + _AS_GOOD
    if at == len(scores) - 1:
        return len(scores) - int(np.cumprod(as_good[::-1]).sum())
    return int(np.cumprod(as_good).sum()) - 1 if at == 0 else at
