"""Outputs that are sets: rows in any order, and perhaps of another number for every input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, final

import numpy as np

from equitangents._types import AnyAction, Element
from equitangents.actions.given_maps import GivenMap
from equitangents.audit.contract.comparisons import Comparison, MatchedBoxes, MatchedRows
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup

_DEFAULT = "as the match says"


@final
class Unordered:
    """Sets of items, (N, items, numbers), whose order means nothing, for `output_action` of an audit.

    Rows of zeros or NaN are no items. Models may also return lists of N arrays of different lengths.

    Args:
        match: which items belong together: "iou", boxes that overlap most; "distance", rows that are nearest; or a
            function of two arrays of items that returns the cost of every pair.
        of: what every item is to the group, such as "xyxy", "cxcywh", "keypoints", "vectors"; None: it stays. By
            default "xyxy" for "iou", None for others.
        threshold: pairs of a smaller IoU (larger distance, larger cost) do not match; by default an IoU of 0.5, and no
            limit for others.
        labels: with "iou", the column of the boxes' class; only boxes of one class match.
        scores: with "iou", the column of the boxes' scores; boxes below `least` are no items.
        least: the smallest score of an item.
        most: how many items there are at most, where lists have different lengths.

    The error of "iou" is 1 − ΣIoU/(the larger number of boxes). Of others it is ‖f(ρ(g)x) − ρ(g)f(x)‖ of rows in the
    order that fits best. The report has matched IoU, missed and extra items.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(10, 5, 3))
    >>> f = lambda x: x[:, ::-1] * 2
    >>> et.audit(f, "S_n", x, et.audit.Unordered("distance"), off_data=False).verdict
    'equivariant'
    """

    def __init__(
        self,
        match: Literal["iou", "distance"] | Callable[[np.ndarray, np.ndarray], Any] = "iou",
        of: Any = _DEFAULT,
        *,
        threshold: float | None = None,
        labels: int | None = None,
        scores: int | None = None,
        least: float = 0.5,
        most: int = 100,
    ) -> None:
        if not (match in ("iou", "distance") if isinstance(match, str) else callable(match)):
            raise InvalidArgumentError(f"match is {match!r}; expected 'iou', 'distance' or a function of two sets")
        if match != "iou" and (labels is not None or scores is not None):
            raise InvalidArgumentError("labels and scores are columns of boxes; give them with match='iou'")
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidArgumentError(f"most is {most!r}; expected a whole number, at least 1")
        if threshold is not None and not threshold > 0:
            raise InvalidArgumentError(f"threshold is {threshold!r}; expected a number above 0")
        self.match, self.most = match, most
        self.of: Any = ("xyxy" if match == "iou" else None) if isinstance(of, str) and of == _DEFAULT else of
        self.comparison = self._comparison(threshold, labels, scores, least)

    def _comparison(self, threshold: float | None, labels: int | None, scores: int | None, least: float) -> Comparison:
        if self.match != "iou":
            return MatchedRows(None if isinstance(self.match, str) else self.match, threshold)
        centred = self.of == "cxcywh" or getattr(self.of, "format", "") == "cxcywh"
        return MatchedBoxes(centred, 0.5 if threshold is None else threshold, labels, scores, least)

    def check(self, name: str, y: np.ndarray) -> None:
        """Raise ShapeError unless y holds sets."""
        if self.match == "iou" and (y.ndim != 3 or y.shape[2] < 4):
            raise ShapeError(f"{name} has shape {y.shape}; expected sets of boxes (N, items, 4 numbers or more)")
        if y.ndim < 2:
            raise ShapeError(f"{name} has shape {y.shape}; expected sets (N, items) or (N, items, numbers)")

    def __repr__(self) -> str:
        return f"equitangents.audit.Unordered(match={self.match!r})"


@final
class Stays(GivenMap):
    """Every element leaves everything as it is."""

    def __init__(self, group: SymmetryGroup, name: str):
        vars(self).update(group=group, name=name)

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """Any array will do."""

    def __call__(self, g: Element, x: Any) -> Any:
        """The array itself."""
        return x

    def _key(self) -> tuple[Any, ...]:
        return ()


def stacked(output: Any, n: int, most: int, what: str = "f(x)") -> Any:
    """Lists of n sets of different lengths as arrays (n, most, …), short ones filled up with zeros; within trees, too.

    A list of n dictionaries, as detectors return them, becomes one dictionary. NaN becomes 0.
    """
    if isinstance(output, Mapping):
        return {str(key): stacked(value, n, most, f"{what}[{key!r}]") for key, value in output.items()}
    if isinstance(output, list | tuple) and len(output) == n and n > 0:
        if all(isinstance(part, Mapping) and part.keys() == output[0].keys() for part in output):
            return {str(k): stacked([part[k] for part in output], n, most, f"{what}[{k!r}]") for k in output[0]}
        if all(hasattr(part, "shape") for part in output):
            return _filled(output, most, what)
    if isinstance(output, list | tuple):
        return type(output)(stacked(part, n, most, f"{what}[{i}]") for i, part in enumerate(output))
    return output


def _filled(sets: Any, most: int, what: str) -> np.ndarray:
    arrays = [np.asarray(a.detach().cpu() if hasattr(a, "detach") else a) for a in sets]
    tail = next((a.shape[1:] for a in arrays if a.size), arrays[0].shape[1:])
    filled = np.zeros((len(arrays), most, *tail), np.result_type(*arrays))
    for i, a in enumerate(arrays):
        if a.ndim < 1:
            raise ShapeError(f"{what} holds single numbers; expected sets of items")
        if len(a) > most:
            raise ShapeError(f"{what} has {len(a)} items for input {i}; Unordered(most={most}) says there are fewer")
        if a.size:
            if a.shape[1:] != tail:
                raise ShapeError(f"{what} has items of shapes {tail} and {a.shape[1:]}; expected one")
            filled[i, : len(a)] = a
    return filled


def most_items(output_action: AnyAction) -> int | None:
    """The largest `most` of the sets that are expected; None where none is."""
    if isinstance(output_action, Mapping):
        parts: list[Any] = list(output_action.values())
    elif isinstance(output_action, list | tuple):
        parts = list(output_action)
    elif isinstance(output_action, str) and output_action.startswith("unordered"):
        return parse(output_action).most
    else:
        return output_action.most if isinstance(output_action, Unordered) else None
    found = [m for part in parts if (m := most_items(part)) is not None]
    return max(found, default=None)


def parse(text: str) -> Unordered:
    """ "unordered", "unordered:iou:cxcywh", "unordered:distance:vectors" as what they say."""
    words = text.split(":")[1:]
    match: Any = words.pop(0) if words and words[0] in ("iou", "distance") else None
    of = ":".join(words) or None
    if match is None:
        match = "iou" if of in (None, "xyxy", "cxcywh", "boxes") else "distance"
    if of in ("none", "invariant"):
        return Unordered(match, None)
    return Unordered(match) if of is None else Unordered(match, of)


def check_kind_of_items(of: Any) -> None:
    """Raise if the items of a set are said to be something that items cannot be."""
    if isinstance(of, Unordered) or (isinstance(of, str) and of.startswith("unordered")):
        raise InvalidTypeError("of is a set, too; expected what every item is, such as 'xyxy' or 'vectors'")
