"""What is to be learnt: samples with labels, which of them leave together, and the folds that nothing is chosen on.

A fold holds whole sets, with every class in it as far as the sets allow. Within the rest of a fold everything is chosen
anew, so that what is said of its samples is said by a choice that never saw them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from equitangents._types import Numbers
from equitangents.ensembles.estimator import centred_one_hot
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.fit.candidates import block_means, symmetries

Sets = Sequence[Int[np.ndarray, " m"]]
FOLDS = 5
_NEAR = 0.1
_SIDE = 32  # pixels of a side, at most, to which images are averaged down for a first look
_ROUNDING = 1e-5  # of squares in single precision
_ROWS = 512  # at once


@dataclass(frozen=True, eq=False)
class Part:
    """Some samples by their `rows` among all, and the sets of them that leave together, numbered within the part."""

    rows: Int[np.ndarray, " m"]
    sets: Sets

    def is_enough(self, samples: int) -> bool:
        """Whether it has so many samples, and sets that can be left out."""
        return len(self.rows) >= samples and len(self.sets) > 1


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
    def whole(self) -> Part:
        """The part that holds every sample."""
        return Part(np.arange(len(self.labels)), self.sets)

    def split(self) -> list[tuple[Part, Int[np.ndarray, " b"]]]:
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

    def part(self, numbers: Sequence[int]) -> Part:
        """The part that consists of these sets."""
        kept = [self.sets[i] for i in numbers]
        ends = np.cumsum([0, *map(len, kept)])
        return Part(np.concatenate(kept), [np.arange(a, b) for a, b in pairwise(ends)])


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
    for k, each in enumerate(sets):
        leaves[each] = k
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
