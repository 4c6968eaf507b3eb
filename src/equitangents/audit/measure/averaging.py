"""A model averaged over a finite group, as a function of NumPy.

For models that are not NumPy an element of the group is plain data, a permutation or a matrix on each array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from equitangents._types import AnyAction, Element, Tree
from equitangents.audit.adapters import Model
from equitangents.audit.adapters.model import Answer, answer
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.leaf_actions import Actions, LeafAction
from equitangents.audit.contract.trees import Batch, Inputs, Shared, as_inputs
from equitangents.audit.measure.task import filled_up
from equitangents.errors import InvalidArgumentError


@dataclass(frozen=True, eq=False)
class Original:
    """The model of an audit, and what its average needs."""

    model: Model
    contract: Contract
    actions: Actions
    no_mean: bool
    """Whether some output cannot be averaged."""
    x: Inputs
    """One input."""
    output_shapes: Sequence[tuple[int, ...]]
    output_action: AnyAction
    output_axes: tuple[int, ...]
    """Where the model has the batch of every output."""


class Averaged:
    """f̄(x) = mean over g of ρ_Y(g)⁻¹ f(ρ_X(g) x): evaluates the model once for every element of the group."""

    def __init__(self, of: Original):
        group = of.contract.group
        if of.no_mean:
            raise InvalidArgumentError("f returns class numbers, masks or sets, which have no mean; audit class scores")
        if group.elements is None:
            raise InvalidArgumentError("group", group, "a finite group, such as 'C8' or 'octahedral'")
        self._model, self._contract, self._actions = of.model, of.contract, of.actions
        self._elements = list(group.elements)
        self._axes, self._expected = of.x.axes, of.output_action

    @property
    def __name__(self) -> str:
        """What the averaged model is called."""
        return f"{self._model.name} averaged over {self._contract.group.name}"

    def __call__(self, *x: Tree) -> Tree:
        """f̄ of one batch; several arguments as the model takes them."""
        inputs = self._given(x)
        totals: list[np.ndarray] | None = None
        y: Answer | None = None
        with self._model.ready():
            for g, moved in zip(self._elements, self._contract.orbit(self._elements, inputs.leaves), strict=True):
                y = self._answer(inputs.replaced(moved))
                back = self._moved_back(g, y.leaves)
                totals = back if totals is None else [t + b for t, b in zip(totals, back, strict=True)]
        assert totals is not None
        assert y is not None
        return y.tree([t / len(self._elements) for t in totals])

    def _given(self, x: tuple[Any, ...]) -> Inputs:
        whole = x[0] if len(x) == 1 else x
        if self._axes:  # the arrays as the model takes them
            leaves, structure = jax.tree.flatten(whole)
            placed = [
                a if isinstance(a, Batch | Shared) else Batch(a, axis)
                for a, axis in zip(leaves, self._axes, strict=True)
            ]
            whole = jax.tree.unflatten(structure, placed)
        return self._contract.project(as_inputs(whole))

    def _answer(self, inputs: Inputs) -> Answer:
        """The model's outputs; of a model that takes one batch size alone in such batches."""
        size, run = self._model.fixed_batch, lambda x: self._model(x.own_tree())
        output = run(inputs) if size in (None, inputs.n) else filled_up(run, inputs, size, self._expected)
        return answer(output, inputs.n, expected=self._expected)

    def _moved_back(self, g: Element, leaves: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._actions.act(self._contract.group.inverse(g), leaves)


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
    input_axes: list[int]
    """Where the model has the batch of every input; maps and shapes are of the other axes."""
    output_axes: list[int]


def group_maps(of: Original) -> GroupMaps:
    """The maps for the model's inputs and outputs; raises InvalidArgumentError where they are not linear."""
    group, leaves = of.contract.group, of.x.leaves
    shapes = [() if isinstance(x, Shared) else tuple(x.shape[1:]) for x in leaves]
    forth = list(zip(of.contract.inputs, shapes, strict=True))
    back = list(zip(of.actions, of.output_shapes, strict=True))
    return GroupMaps(
        group=group.name,
        inputs=[[linear_map(a, g, s) for a, s in forth] for g in group.elements or ()],
        back=[[linear_map(a, group.inverse(g), s) for a, s in back] for g in group.elements or ()],
        output_shapes=list(of.output_shapes),
        input_shapes=shapes,
        input_axes=list(of.x.axes or (0,) * len(leaves)),
        output_axes=list(of.output_axes),
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
            action.name,
            d,
            range(_LARGEST + 1),
            "take a group that moves inputs exactly, or remedy(..., form='function')",
            verb="resamples numbers,",
        )
    matrix = np.asarray(action.act(g, np.eye(d).reshape(d, *shape)), np.float64).reshape(d, d)
    if not np.abs(x.reshape(d) @ matrix - moved).max(initial=0.0) <= _ALIKE * np.abs(moved).max(initial=1.0):
        raise InvalidArgumentError("action", action, "a linear one", "remedy(..., form='function') takes any action")
    return LinearMap(matrix=matrix)
