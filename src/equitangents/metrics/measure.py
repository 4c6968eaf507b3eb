"""Measures: a number per input, their mean, and an interval of the mean over inputs.

The interval is that of `equitangents.statistics`: Student's t, widened on the side of the longer tail by the
studentised bootstrap and, for positive values, by t on the logarithm. Fewer than 5 inputs give none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from equitangents._types import ArrayLike, Element, Numbers, Tree
from equitangents.actions import as_action
from equitangents.actions.action import GroupAction, image_hint
from equitangents.actions.kinds import ActionLike
from equitangents.actions.vectors import as_output_action
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups.group import GroupMap
from equitangents.groups.representations import RepresentationLike
from equitangents.statistics import mean_interval
from equitangents.statistics.estimate import check_resampling
from equitangents.validation import check_array, copied


@dataclass(frozen=True)
class BootstrapSettings:
    """Settings of intervals: coverage, number of resamples, and the seed that makes them reproducible."""

    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_resampling(self.confidence, self.resamples, self.seed)


@dataclass(frozen=True, eq=False, repr=False)
class Measure:
    """`values` per input (N,), their `mean`, and the `interval` of the mean; `float(measure)` is the mean.

    `bounds`: the range of possible values.
    """

    name: str
    values: np.ndarray
    bootstrap: BootstrapSettings
    bounds: tuple[float, float] = field(default=(0.0, math.inf), kw_only=True)

    @property
    def mean(self) -> float:
        """The mean over inputs."""
        return float(np.mean(self.values))

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the interval of the mean, over inputs.

        (nan, nan) for fewer than 5 inputs, infinite values, and equal values of an unbounded measure.
        """
        return mean_interval(self.values, **vars(self.bootstrap), bounds=self.bounds)

    def __float__(self) -> float:
        return self.mean

    def __repr__(self) -> str:
        lower, upper = self.interval
        interval = f"{self.bootstrap.confidence:.0%} interval [{lower:.6g}, {upper:.6g}]"
        inputs = f"{len(self.values)} input" + ("s" if len(self.values) != 1 else "")
        return f"{type(self).__name__}({self.name}: mean {self.mean:.6g}, {interval}, {inputs})"


def evaluate(name: str, f: Callable[[Any], Tree], x: Tree) -> Float[np.ndarray, " N *outputs"]:
    """f(x) as finite float64 with one row per input, whatever array type f returns."""
    if not callable(f):
        raise InvalidTypeError(
            name,
            f,
            "a callable from a batch of inputs to a batch of outputs",
            "pass its predict method" if hasattr(f, "predict") else "",
        )
    y = np.asarray(check_array(f"{name}(x)", f(copied(x))), dtype=np.float64)  # f may work in place
    if len(y) != len(x):
        raise ShapeError(name, len(y), len(x), "one row an input", verb="gives rows,")
    return y


def check_action(name: str, action: object) -> None:
    """Raise InvalidTypeError unless `action` can be called as action(g, x) and has a group."""
    if not (callable(action) and hasattr(action, "group")):
        raise InvalidTypeError(name, action, "an action, e.g. equitangents.actions.image_rotations(4)")


def _checked_output_action(output_action: GroupMap | RepresentationLike | None, action: GroupMap) -> GroupMap | None:
    """None, or an action of the same group, also from a representation; raises for anything else."""
    found: GroupMap | None = as_output_action(output_action, action.group)
    if found is None:
        return None
    check_action("output_action", found)
    if found.group != action.group:
        raise InvalidArgumentError("output_action", found.group, action.group, "the group of action", verb="is of")
    return found


def moved_outputs(output_action: GroupMap, g: Element, y: np.ndarray) -> np.ndarray:
    """ρ_Y(g) y for outputs (N, …); outputs (N,) are treated as (N, 1)."""
    moved = np.asarray(output_action(g, y if y.ndim > 1 else y[:, None]), dtype=np.float64)
    if moved.size != y.size or (y.ndim > 1 and moved.shape != y.shape):
        raise ShapeError("output_action", moved.shape, y.shape, "it must keep the shape", verb="gives shape")
    return moved.reshape(y.shape)


def carried_back(output_action: GroupMap | None, g: Element, y: np.ndarray) -> np.ndarray:
    """ρ_Y(g)⁻¹ y, by the action of the inverse element; None: y itself."""
    return y if output_action is None else moved_outputs(output_action, output_action.group.inverse(g), y)


def nodes_of(action: GroupMap) -> Sequence[Any] | np.ndarray:
    """The elements for a mean over the action's group: all of a finite group, else its nodes."""
    nodes: Sequence[Any] | np.ndarray | None = action.group.nodes
    if nodes is None:
        raise InvalidTypeError(
            "action", action.group, "a group with nodes for a mean", "take a subgroup, or audit it", verb="is of"
        )
    return nodes


def weights_of(action: GroupMap) -> Float[np.ndarray, " elements"]:
    """The weight of each of `nodes_of(action)` in a mean over the group; equal for a finite group."""
    nodes_of(action)
    return np.asarray(action.group.weights)


def check_order(action: object, x: object, order: str, groups: tuple[type, ...] = (str, GroupAction)) -> None:
    """Raise InvalidTypeError if data are passed as the group, or one of `groups` as the data."""
    if isinstance(action, str):
        return
    data = hasattr(action, "dtype") and hasattr(action, "shape")
    if data or isinstance(x, groups):
        shape = tuple(getattr(action, "shape", ()))
        what = f"data, of shape {shape}" if data else f"{type(action).__name__}, and the third {x!r}"
        raise InvalidTypeError(f"the second argument is {what}; the order is {order}")


def check_points(
    action: ActionLike, x: Numbers, output_action: GroupMap | RepresentationLike | None
) -> tuple[GroupAction, ArrayLike, GroupMap | None]:
    """(the action, also from a name; x as a finite array on which it acts; the action on outputs, or None).

    Raises before f is called.
    """
    check_order(action, x, "(f, action, x)")
    signals = check_array("x", x)
    chosen = as_action("action", action, signals.shape)
    check_action("action", chosen)
    try:
        chosen(chosen.group.identity, signals[:1])
        if hasattr(chosen, "verify"):
            chosen.verify(signals[largest_rows(signals, 1)])
    except ShapeError as error:
        message = str(error).replace(str(signals[:1].shape), str(signals.shape))
        raise ShapeError(f"{message}{image_hint('x', signals.shape)}") from None
    return chosen, signals, _checked_output_action(output_action, chosen)


def largest_rows(x: ArrayLike, count: int) -> Int[np.ndarray, " rows"]:
    """Indices of the `count` rows with the largest entries, the first of equal ones, ascending.

    Maps are checked on these, since rows of zeros satisfy the group law for many maps that are no actions.
    """
    sizes = np.abs(np.asarray(x).reshape(len(x), -1)).max(axis=1, initial=0).astype(np.float64)
    return np.sort(np.argsort(-sizes, kind="stable")[:count])


def norms(y: Float[np.ndarray, " N *outputs"]) -> Float[np.ndarray, " N"]:
    """The Euclidean norm of every row, over all its trailing axes, (N,); no overflow."""
    rows = np.abs(y.reshape(len(y), -1))
    scale = rows.max(axis=1)
    safe = np.where(scale > 0, scale, 1.0)
    return scale * np.sqrt(np.sum((rows / safe[:, None]) ** 2, axis=1))


def ratio(numerator: np.ndarray, denominator: np.ndarray | float) -> Float[np.ndarray, " *shape"]:
    """numerator/denominator of non-negative numbers, with 0/0 = 0 and a/0 = inf."""
    beyond, nothing = np.where(numerator > 0, math.inf, 0.0 * numerator), denominator <= 0  # NaN stays NaN
    with np.errstate(over="ignore"):
        return np.where(nothing, beyond, numerator / np.where(nothing, 1.0, denominator))
