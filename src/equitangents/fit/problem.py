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

Sets = Sequence[Int[np.ndarray, " m"]]
FOLDS = 5


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
