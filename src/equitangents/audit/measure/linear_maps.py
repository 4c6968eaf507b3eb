"""What a group element does to one array as plain data, for models that are not NumPy: a permutation, or a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from equitangents._types import Element
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.contract.trees import Shared
from equitangents.errors import InvalidArgumentError

_LARGEST = 4096
_ALIKE = 1e-4


@dataclass(frozen=True, eq=False)
class LinearMap:
    """ρ(g) on one flattened input x (d,): x[index], or x @ matrix; neither: x stays."""

    index: Int[np.ndarray, " d"] | None = None
    matrix: Float[np.ndarray, "d d"] | None = None


@dataclass(frozen=True, eq=False)
class GroupMaps:
    """Maps of every element of a finite group: ρ_X(g) of each input array, ρ_Y(g)⁻¹ of each output array."""

    group: str
    inputs: list[list[LinearMap]]
    """One list an element, one map an input."""
    back: list[list[LinearMap]]
    output_shapes: list[tuple[int, ...]]
    input_shapes: list[tuple[int, ...]]
    input_axes: list[int] = field(default_factory=list)
    """Where the model has the batch of every input; maps and shapes are of the other axes."""
    output_axes: list[int] = field(default_factory=list)


def group_maps(
    contract: Contract,
    leaves: Sequence[Any],
    actions: Sequence[LeafAction | None],
    output_shapes: Sequence[tuple[int, ...]],
) -> GroupMaps:
    """The maps for inputs and outputs of these shapes; raises InvalidArgumentError where they are not linear."""
    elements = list(contract.group.elements or ())
    shapes = [() if isinstance(x, Shared) else tuple(x.shape[1:]) for x in leaves]
    return GroupMaps(
        contract.group.name,
        [[linear_map(a, g, s) for a, s in zip(contract.inputs, shapes, strict=True)] for g in elements],
        [
            [linear_map(a, contract.group.inverse(g), s) for a, s in zip(actions, output_shapes, strict=True)]
            for g in elements
        ],
        list(output_shapes),
        shapes,
    )


def linear_map(action: LeafAction | None, g: Element, shape: tuple[int, ...]) -> LinearMap:
    """What `action` does to one input of this shape."""
    if action is None:
        return LinearMap()
    d = math.prod(shape)
    x = np.random.default_rng(0).normal(size=(1, *shape))
    moved = np.asarray(action.act(g, x), np.float64).reshape(d)
    places = np.asarray(action.act(g, np.arange(d, dtype=np.float64).reshape(1, *shape))).reshape(d)
    index = np.rint(places).astype(np.int64)
    if np.array_equal(np.sort(index), np.arange(d)) and np.array_equal(x.reshape(d)[index], moved):
        return LinearMap() if np.array_equal(index, np.arange(d)) else LinearMap(index=index)
    if d > _LARGEST:
        raise InvalidArgumentError(
            f"{action.name} resamples arrays of {d:,} numbers, too many for a matrix (at most {_LARGEST:,}); take a "
            "group that moves them exactly, or remedy(..., form='function')"
        )
    matrix = np.asarray(action.act(g, np.eye(d).reshape(d, *shape)), np.float64).reshape(d, d)
    if not np.abs(x.reshape(d) @ matrix - moved).max(initial=0.0) <= _ALIKE * np.abs(moved).max(initial=1.0):
        raise InvalidArgumentError(f"{action.name} is not linear; remedy(..., form='function') takes any action")
    return LinearMap(matrix=matrix)
