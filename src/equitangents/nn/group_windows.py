"""Windows on groups and on positions that a group moves: their elements and weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.validation import is_whole


@dataclass(frozen=True)
class Elements:
    """An explicit list of element or position numbers."""

    numbers: tuple[int, ...]


WindowLike = str | Sequence[int] | np.ndarray | Elements
"""A box of sizes (a tuple), a list of numbers of elements, or "full"."""


def freeze_window(window: WindowLike) -> str | tuple[int, ...] | Elements:
    """Hashable form of a window: "full", a box (a tuple), or an explicit list."""
    if isinstance(window, Elements) or (isinstance(window, str) and window == "full"):
        return window
    if isinstance(window, tuple) and window and all(is_whole(w) for w in window):
        return tuple(int(w) for w in window)
    if isinstance(window, list | np.ndarray | range):
        numbers = list(window)
        if numbers and all(is_whole(w) for w in numbers):
            return Elements(tuple(int(w) for w in numbers))
    raise InvalidTypeError(
        "window", window, "'full', a box as a tuple of sizes such as (3, 3), or a list of element numbers"
    )


def freeze_weights(weights: Sequence[float] | np.ndarray | None) -> tuple[float, ...] | None:
    """A profile as a tuple of numbers that sum to one."""
    if weights is None:
        return None
    profile = np.asarray(weights, np.float64).ravel()
    if not (profile.size and np.isfinite(profile).all() and (profile >= 0).all() and profile.sum() > 0):
        raise InvalidArgumentError(
            "weights must be finite, at least zero, and not all zero: one for each window element"
        )
    return tuple((profile / profile.sum()).tolist())


def profile(weights: Sequence[float] | np.ndarray | None, count: int) -> Float[np.ndarray, " window"]:
    """The weight of each of the window's elements, uniform if none are given."""
    if weights is None:
        return np.full(count, 1.0 / count)
    if len(weights) != count:
        raise NetworkError("weights", len(weights), count, verb="has length")
    return np.array(weights)


def explicit(numbers: Sequence[int], count: int, what: str) -> Int[np.ndarray, " window"]:
    """A list of element numbers, checked."""
    found = np.array(numbers, np.int64)
    if found.min() < 0 or found.max() >= count:
        raise NetworkError("window", (int(found.min()), int(found.max())), range(count), verb="holds numbers between")
    if len(np.unique(found)) != len(found):
        raise NetworkError("window names an element twice; use weights to count it more")
    return found


def box_offsets(window: tuple[int, ...], shape: tuple[int, ...]) -> Int[np.ndarray, " window"]:
    """Row-major indices of the grid points of a centred box about the origin of a torus (low side (w - 1) // 2)."""
    if len(window) != len(shape):
        raise NetworkError("window", window, "one size for each dimension of the grid")
    if any(not 1 <= w <= n for w, n in zip(window, shape, strict=True)):
        raise NetworkError("window", window, "sizes from 1 to that of the grid")
    ranges = [[(u - (w - 1) // 2) % n for u in range(w)] for w, n in zip(window, shape, strict=True)]
    points = np.array(list(itertools.product(*ranges)))
    return np.ravel_multi_index(tuple(points.T), shape)
