"""How far apart two outputs are that are no plain numbers: classes of pixels, and sets whose items have no order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment

from equitangents.errors import ShapeError
from equitangents.metrics.measure import norms

Cost = Callable[[np.ndarray, np.ndarray], Any]


class Comparison(ABC):
    """What takes the place of ‖a − b‖ for one output."""

    share: bool
    """Whether the error lies between 0 and 1 by itself, and is not divided by anything."""
    words: str
    """What the error is."""

    @abstractmethod
    def apart(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, " n"]:
        """The error of a, where b is expected, of every input."""

    @abstractmethod
    def profile(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "n D"]:
        """Numbers of `a` that are those of `b` where both agree."""

    def size(self, b: np.ndarray) -> Float[np.ndarray, " n"]:
        """What errors are relative to; 1 for shares."""
        return np.ones(len(b)) if self.share else norms(b)

    def matched(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "3 n"] | None:
        """(matched IoU, share missed, share extra) of sets, nan where there is none; None of other outputs."""
        return None


@final
class PixelClasses(Comparison):
    """Masks (N, H, W) of class numbers: the share of pixels whose class differs."""

    share = True
    words = "share of pixels whose class changes"

    def apart(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, " n"]:
        """Share of the entries that differ."""
        return (a != b).reshape(len(a), -1).mean(axis=1)

    def profile(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "n D"]:
        """1 where the class is the same."""
        return (a == b).reshape(len(a), -1).astype(np.float64)


@final
class MatchedBoxes(Comparison):
    """Sets of boxes: 1 − ΣIoU of the best matching / the larger number of boxes; 0 of two empty sets.

    Pairs of a smaller IoU than `threshold`, or of other labels, do not match.
    """

    share = True
    words = "1 − matched IoU"

    def __init__(self, centred: bool, threshold: float, labels: int | None, scores: int | None, least: float) -> None:
        self.centred, self.threshold, self.labels, self.scores, self.least = centred, threshold, labels, scores, least

    def apart(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, " n"]:
        """1 − the mean IoU over the items of the larger set."""
        return np.array([self._one(p, q)[0] for p, q in zip(a, b, strict=True)])

    def profile(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "n D"]:
        """The IoU with which every box of b is matched; 1 where b has none."""
        return np.array([self._one(p, q)[1] for p, q in zip(a, b, strict=True)])

    def matched(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "3 n"]:
        """(mean IoU of matched pairs, share of b's boxes without a match, share of a's boxes without one)."""
        return np.array([self._one(p, q)[2] for p, q in zip(a, b, strict=True)]).T

    def _one(self, a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray, tuple[float, float, float]]:
        first, second = np.flatnonzero(self._items(a)), np.flatnonzero(self._items(b))
        each = np.ones(len(b))
        each[second] = 0.0
        overlap = intersection_over_union(self._corners(a[first]), self._corners(b[second]))
        if self.labels is not None:
            overlap = overlap * (a[first, None, self.labels] == b[None, second, self.labels])
        overlap = np.where(overlap >= self.threshold, overlap, 0.0)
        rows, columns = linear_sum_assignment(-overlap)
        found = overlap[rows, columns]
        each[second[columns]] = found
        total, pairs = float(found.sum()), int((found > 0).sum())
        larger = max(len(first), len(second))
        missed = 1 - pairs / len(second) if len(second) else np.nan
        extra = 1 - pairs / len(first) if len(first) else np.nan
        error = max(0.0, 1 - total / larger) if larger else 0.0
        return error, each, (total / pairs if pairs else np.nan, missed, extra)

    def _items(self, rows: np.ndarray) -> Bool[np.ndarray, " Q"]:
        there = present(rows)
        return there if self.scores is None else there & (rows[:, self.scores] >= self.least)

    def _corners(self, rows: np.ndarray) -> Float[np.ndarray, "Q 4"]:
        box = rows[:, :4]
        if not self.centred:
            return box
        return np.concatenate([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], axis=1)


@final
class MatchedRows(Comparison):
    """Sets of rows of numbers: ‖a − b‖ with the rows of a in the order that fits b best.

    A row without a partner counts with its own size. `threshold`: pairs of a larger cost do not match.
    """

    share = False
    words = "rows in the order that fits best"

    def __init__(self, cost: Cost | None, threshold: float | None) -> None:
        self.cost, self.threshold = cost, threshold

    def apart(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, " n"]:
        """‖a in b's order − b‖."""
        return np.array([self._one(p, q)[0] for p, q in zip(a, b, strict=True)])

    def profile(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "n D"]:
        """The rows of a in the order of b; 0 where b has no partner."""
        return np.array([self._one(p, q)[1].ravel() for p, q in zip(a, b, strict=True)])

    def matched(self, a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "3 n"]:
        """(nan, share of b's rows without a partner, share of a's rows without one)."""
        return np.array([(np.nan, *self._one(p, q)[2]) for p, q in zip(a, b, strict=True)]).T

    def _one(self, a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray, tuple[float, float]]:
        a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
        first, second = np.flatnonzero(present(a)), np.flatnonzero(present(b))
        if self.cost is None:
            cost = np.sqrt(np.maximum(((a[first][:, None] - b[second][None]) ** 2).sum(axis=2), 0.0))
        else:
            cost = np.asarray(self.cost(a[first], b[second]), np.float64)
            if cost.shape != (len(first), len(second)):
                raise ShapeError(
                    f"match gives shape {cost.shape} for {len(first)} and {len(second)} items; expected one cost a pair"
                )
        rows, columns = linear_sum_assignment(cost)
        if self.threshold is not None:
            near = cost[rows, columns] <= self.threshold
            rows, columns = rows[near], columns[near]
        ordered = np.zeros_like(b)
        ordered[second[columns]] = a[first[rows]]
        alone = np.delete(a[first], rows, axis=0)
        error = float(np.sqrt(((ordered - b) ** 2).sum() + (alone**2).sum()))
        without = lambda all_of: 1 - len(rows) / len(all_of) if len(all_of) else np.nan
        return error, ordered, (without(second), without(first))


def present(rows: np.ndarray) -> Bool[np.ndarray, " Q"]:
    """Which rows are items: those that are not all zeros."""
    return (rows.reshape(len(rows), -1) != 0).any(axis=1)


def intersection_over_union(a: Float[np.ndarray, "n 4"], b: Float[np.ndarray, "m 4"]) -> Float[np.ndarray, "n m"]:
    """IoU of every pair of boxes x1, y1, x2, y2; 1 of equal boxes, also of those without area."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = np.prod(np.maximum(high - low, 0.0), axis=2)
    area = lambda boxes: np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0.0), axis=1)
    union = area(a)[:, None] + area(b)[None] - common
    same = (a[:, None] == b[None]).all(axis=2)
    return np.where(same, 1.0, common / np.where(union > 0, union, 1.0))
