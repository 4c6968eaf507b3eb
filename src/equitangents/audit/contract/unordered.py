"""Comparison of outputs that are not plain numbers: classes of pixels, and unordered sets."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal, final

import jax
import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment

from equitangents._types import AnyAction, Tree
from equitangents.audit.contract.kinds import unmoved
from equitangents.audit.contract.leaf_actions import Comparison, LeafAction, LeafKind, Place
from equitangents.audit.contract.trees import on_host
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError

Cost = Callable[[np.ndarray, np.ndarray], Any]
_LEAST_OVERLAP = 0.5


@final
class PixelClasses(Comparison):
    """Masks (N, H, W) of class numbers: the share of pixels whose class differs."""

    share = True
    label = "share of pixels whose class changes"

    def compare(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        """(share of entries that differ, 1 where the class is the same)."""
        differ = (a != b).reshape(len(a), -1)
        return differ.mean(axis=1), (~differ).astype(np.float64), None


class MatchedSets(Comparison):
    """Sets whose items are matched; a subclass matches two of them."""

    @abstractmethod
    def _one(self, a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray, tuple[float, float, float]]:
        """(error, profile, (matched IoU, share of b's items without a partner, share of a's without one))."""

    def compare(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(errors of pairs of sets, items of `a` in the order of b, the matching)."""
        errors, profiles, matched = zip(*(self._one(p, q) for p, q in zip(a, b, strict=True)), strict=True)
        return np.array(errors), np.array(profiles), np.array(matched).T


@final
class MatchedBoxes(MatchedSets):
    """Sets of boxes: 1 − ΣIoU of the best matching / the larger number of boxes; 0 of two empty sets.

    Pairs of an IoU below 0.5 do not match. The profile is the IoU with which every box of b is matched, 1 where b has
    none.
    """

    share = True
    label = "1 − matched IoU"

    def __init__(self, centred: bool) -> None:
        self.centred = centred

    def _one(self, a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray, tuple[float, float, float]]:
        first, second = np.flatnonzero(present(a)), np.flatnonzero(present(b))
        each = np.ones(len(b))
        each[second] = 0.0
        overlap = intersection_over_union(self._corners(a[first]), self._corners(b[second]))
        overlap = np.where(overlap >= _LEAST_OVERLAP, overlap, 0.0)
        rows, columns = linear_sum_assignment(-overlap)
        ious = overlap[rows, columns]
        each[second[columns]] = ious
        total, pairs = float(ious.sum()), int((ious > 0).sum())
        larger = max(len(first), len(second))
        missed = 1 - pairs / len(second) if len(second) else np.nan
        extra = 1 - pairs / len(first) if len(first) else np.nan
        error = max(0.0, 1 - total / larger) if larger else 0.0
        return error, each, (total / pairs if pairs else np.nan, missed, extra)

    def _corners(self, rows: np.ndarray) -> Float[np.ndarray, "Q 4"]:
        box = rows[:, :4]
        if not self.centred:
            return box
        return np.concatenate([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], axis=1)


@final
class MatchedRows(MatchedSets):
    """Sets of rows of numbers: ‖a − b‖ with the rows of a in the order that fits b best.

    A row without a partner counts with its own size. The profile is the rows of a in the order of b, 0 where b has no
    partner; there is no IoU, nan.
    """

    share = False
    label = "rows in the order that fits best"

    def __init__(self, cost: Cost | None) -> None:
        self.cost = cost

    def _one(self, a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray, tuple[float, float, float]]:
        a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
        first, second = np.flatnonzero(present(a)), np.flatnonzero(present(b))
        if self.cost is None:
            cost = np.sqrt(np.maximum(((a[first][:, None] - b[second][None]) ** 2).sum(axis=2), 0.0))
        else:
            cost = np.asarray(self.cost(a[first], b[second]), np.float64)
            if cost.shape != (len(first), len(second)):
                raise ShapeError(
                    "match", cost.shape, (len(first), len(second)), "one cost a pair of items", verb="gives shape"
                )
        rows, columns = linear_sum_assignment(cost)
        ordered = np.zeros_like(b)
        ordered[second[columns]] = a[first[rows]]
        unmatched = np.delete(a[first], rows, axis=0)
        error = float(np.sqrt(((ordered - b) ** 2).sum() + (unmatched**2).sum()))
        without = lambda all_of: 1 - len(rows) / len(all_of) if len(all_of) else np.nan
        return error, ordered.ravel(), (np.nan, without(second), without(first))


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


_DEFAULT = "as the match says"


@final
class Unordered(LeafKind):
    """Sets of items, (N, items, numbers), whose order means nothing, for `output_action` of an audit.

    Rows of zeros are no items. Models may also return lists of N arrays of different lengths.

    Args:
        match: which items belong together: "iou", boxes that overlap most; "distance", rows that are nearest; or a
            function of two arrays of items that returns the cost of every pair.
        of: what every item is to the group, such as "xyxy", "cxcywh", "keypoints", "vectors"; None: it stays. By
            default "xyxy" for "iou", None for others.
        most: how many items there are at most, where lists have different lengths.

    The error of "iou" is 1 − ΣIoU/(the larger number of boxes); pairs of an IoU below 0.5 do not match. Of others it is
    ‖f(ρ(g)x) − ρ(g)f(x)‖ of rows in the order that fits best. The report has matched IoU, missed and extra items.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(10, 5, 3))
    >>> f = lambda x: x[:, ::-1] * 2
    >>> et.audit(f, "S_n", x, et.audit.Unordered("distance"), off_data=False).verdict
    'equivariant'
    """

    def __init__(
        self,
        match: Literal["iou", "distance"] | Callable[[np.ndarray, np.ndarray], Any] = "iou",
        of: AnyAction = _DEFAULT,
        *,
        most: int = 100,
    ) -> None:
        if not (match in ("iou", "distance") if isinstance(match, str) else callable(match)):
            raise InvalidArgumentError("match", match, "'iou', 'distance' or a function of two sets")
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidArgumentError("most", most, "a whole number, at least 1")
        if isinstance(of, Unordered):
            raise InvalidTypeError("of", of, "what every item is, such as 'xyxy' or 'vectors'")
        self.match, self.most = match, most
        self.of: Any = ("xyxy" if match == "iou" else None) if isinstance(of, str) and of == _DEFAULT else of
        self.items, self.by_name = self.of, self.of is not None
        centred = self.of == "cxcywh" or getattr(self.of, "format", "") == "cxcywh"
        cost: Any = None if isinstance(match, str) else match
        self.comparison: Comparison = MatchedBoxes(centred) if match == "iou" else MatchedRows(cost)

    def leaf(self, place: Place, items: LeafAction | None) -> LeafAction:
        """The action on every item."""
        what = "sets in any order" if items is None else f"sets of {items.name} in any order"
        action = unmoved(place.group, what) if items is None else items.action
        return LeafAction(action, None if items is None else items.layout, compared=self.comparison, title=what)

    @property
    def least_shape(self) -> tuple[int, ...]:
        """The shape of an item if all sets are empty."""
        return (4,) if isinstance(self.comparison, MatchedBoxes) else ()

    def check(self, name: str, y: np.ndarray) -> None:
        """Raise ShapeError unless y holds sets."""
        if self.match == "iou" and (y.ndim != 3 or y.shape[2] < 4):
            raise ShapeError(name, y.shape, "sets of boxes (N, items, 4 numbers or more)")
        if y.ndim < 2:
            raise ShapeError(name, y.shape, "sets (N, items) or (N, items, numbers)")


def stacked(output: Tree, n: int, most: int, expected: AnyAction = None, what: str = "f(x)") -> Tree:
    """Lists of n sets of different lengths, or trees of them, as arrays (n, most, …) padded with zeros.

    A list of n dictionaries, as detectors return them, becomes one dictionary. `expected`, the tree of
    output actions, tells n sets from as many outputs, and how many numbers an item has where all sets are empty.
    """
    if isinstance(output, Mapping):
        named = {str(k): v for k, v in expected.items()} if isinstance(expected, Mapping) else None
        kind = lambda k: expected if named is None else named.get(str(k))  # a single kind is of whichever there is
        return {str(k): stacked(v, n, most, kind(k), f"{what}[{k!r}]") for k, v in output.items()}
    if not isinstance(output, list | tuple):
        return output
    outputs = type(expected) is type(output) and len(expected) == len(output)
    if len(output) == n and n > 0 and not outputs:
        if all(isinstance(part, Mapping) and part.keys() == output[0].keys() for part in output):
            columns = {k: [part[k] for part in output] for k in output[0]}
            return stacked(columns, n, most, expected, what)
        if all(hasattr(part, "shape") for part in output):
            return _filled(output, most, expected if isinstance(expected, Unordered) else None, what)
    parts = expected if outputs else [expected] * len(output)
    return type(output)(stacked(part, n, most, parts[i], f"{what}[{i}]") for i, part in enumerate(output))


def _filled(sets: Tree, most: int, expected: Unordered | None, what: str) -> np.ndarray:
    arrays = [np.asarray(on_host(a)) for a in sets]
    known = [a.shape[1:] for a in sorted(arrays, key=lambda a: a.size == 0) if a.ndim > 1 or a.size]
    tail = known[0] if known else () if expected is None else expected.least_shape
    filled = np.zeros((len(arrays), most, *tail), np.result_type(*arrays))
    for i, a in enumerate(arrays):
        if a.ndim < 1:
            raise ShapeError(what, "single numbers", "sets of items", verb="holds")
        if len(a) > most:
            raise ShapeError(what, len(a), range(most + 1), "raise most of Unordered", verb="has length", at=i)
        if a.size:
            if a.shape[1:] != tail:
                raise ShapeError(what, a.shape[1:], tail, "items of one shape", verb="has items of shape")
            filled[i, : len(a)] = a
    return filled


def most_items(output_action: AnyAction) -> int | None:
    """The largest `most` of the expected sets; None without any."""
    parts = jax.tree.leaves(output_action)
    return max((part.most for part in parts if isinstance(part, Unordered)), default=None)


def parse(text: str) -> Unordered:
    """The kind named "unordered", "unordered:iou:cxcywh", "unordered:distance:vectors"."""
    names = text.split(":")[1:]
    match: Any = names.pop(0) if names and names[0] in ("iou", "distance") else None
    of = ":".join(names) or None
    if match is None:
        match = "iou" if of in (None, "xyxy", "cxcywh", "boxes") else "distance"
    if of in ("none", "invariant"):
        return Unordered(match, None)
    return Unordered(match) if of is None else Unordered(match, of)


_STRIDES = (8, 16, 32)  # of the grids of detectors


def check_no_detections(grid: tuple[int, ...] | None, shape: tuple[int, ...]) -> None:
    """Raise if outputs (N, 4 + classes, A) or (N, A, 4 + classes) have one box per position of a detector's grids.

    These move with the images, so that they are not invariant. A = Σ ⌈H/s⌉⌈W/s⌉ for s = 8, 16, 32.
    """
    if grid is None or len(shape) != 3 or min(grid) < max(_STRIDES):
        return
    boxes = sum(math.prod(-(-side // s) for side in grid) for s in _STRIDES)
    if boxes == max(shape[1:]) and min(shape[1:]) > 4:
        remedy = f"raw boxes on grids of images {grid} are no invariants; else give output_action='invariant'"
        expected = "boxes after non-maximum suppression, with output_action=equitangents.audit.Unordered()"
        raise InvalidArgumentError("f(x)", shape, expected, remedy, verb="has shape")
