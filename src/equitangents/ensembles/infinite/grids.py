"""Candidates from a grid: every combination of its values, and what of them the kernel matrix depends on.

Ridge, time and learning rate are read from one decomposition (`PATH`); all else makes another kernel matrix.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.keywords import meant
from equitangents.nn.variants import vary

PATH = ("ridge", "time", "learning_rate")
NETWORK = ("depth", "W_std", "b_std", "nonlinearity")
_SAME = {"group": "augmentation"}


@dataclass(frozen=True)
class Point:
    """One candidate: its values as the grid has them, and the ensemble, not fitted, that they make."""

    values: dict[str, Any]
    ensemble: Any
    matrix: tuple[int, ...]  # candidates with the same share a kernel matrix


def points(model: Any, grid: Any) -> list[Point]:
    """Every combination of the grid's values, or of several grids', in order, the last name running fastest.

    Raises InvalidArgumentError or InvalidTypeError for names and values that the ensemble cannot take.
    """
    grids = grid if isinstance(grid, list | tuple) else [grid]
    found: list[Point] = []
    for number, one in enumerate(grids):
        lists = _lists(model, one)
        nets: dict[tuple[int, ...], Any] = {}
        for places in itertools.product(*(range(len(values)) for values in lists.values())):
            values = {name: lists[name][i] for name, i in zip(lists, places, strict=True)}
            fixed = tuple(i for name, i in zip(lists, places, strict=True) if name not in PATH)
            ensemble = _ensemble(model, values, nets.get(fixed))
            nets[fixed] = ensemble.net
            found.append(Point(values, ensemble, (number, *fixed)))
    if not found:
        raise InvalidArgumentError(f"grid is {grid!r}; it holds no candidate")
    return found


def _lists(model: Any, grid: Any) -> dict[str, list[Any]]:
    if not isinstance(grid, Mapping):
        raise InvalidTypeError(f"grid is {grid!r}; expected a mapping of names to lists of values, or a list of such")
    known = [*model.get_params(deep=False), *NETWORK, *_SAME]
    lists: dict[str, list[Any]] = {}
    for name, values in grid.items():
        if name not in known:
            raise InvalidArgumentError(
                f"grid has {name!r}{meant(str(name), known)}; it may have {', '.join(sorted(known))}"
            )
        lists[name] = _values(values)
        if not lists[name]:
            raise InvalidArgumentError(f"grid[{name!r}] is {values!r}; expected at least one value")
    for name, other in _SAME.items():
        if name in lists and other in lists:
            raise InvalidArgumentError(f"grid has {name!r} and {other!r}, which are the same; give one of them")
    return lists


def _values(values: Any) -> list[Any]:
    """A list's values; anything that is no list is the only value."""
    if isinstance(values, np.ndarray):
        return values.reshape(-1).tolist()
    return list(values) if isinstance(values, list | tuple | range) else [values]


def _ensemble(model: Any, values: Mapping[str, Any], known: Any) -> Any:
    """`model` with these values, not fitted and checked; `known` is the network that they make, if it is known."""
    params = {_SAME.get(name, name): value for name, value in values.items() if name not in NETWORK}
    if params.get("augmentation", model.augmentation) is None and "label_action" not in values:
        params["label_action"] = None  # it moves labels along with inputs, which stay
    varied = {name: values[name] for name in NETWORK if name in values}
    net = params.get("net", model.net)
    if known is not None:
        params["net"] = known
    elif callable(net) and not hasattr(net, "kernel"):
        params["net"] = net(**varied)
    elif varied:
        params["net"] = vary(net, **varied)
    ensemble = clone(model).set_params(**params)
    ensemble._check_parameters()
    return ensemble


def same_matrix(candidates: Sequence[Point]) -> Iterable[list[int]]:
    """Places of the candidates that share a kernel matrix, in order."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, point in enumerate(candidates):
        groups.setdefault(point.matrix, []).append(i)
    return groups.values()
