"""The model averaged over a finite group: f̄(x) = mean over g of ρ_Y(g)⁻¹ f(ρ_X(g) x), which is equivariant exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from equitangents.audit.adapters import Model
from equitangents.audit.adapters.model import answer
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.contract.trees import as_inputs
from equitangents.errors import InvalidArgumentError


class Averaged:
    """A function of a batch, NumPy out, that evaluates the model once for every element of the group."""

    def __init__(self, model: Model, contract: Contract, actions: Sequence[LeafAction | None], classes: bool):
        if contract.group.elements is None:
            raise InvalidArgumentError(
                f"{contract.group.name} has infinitely many elements, or too many for a list; averages are over finite "
                "groups, such as 'C8' or 'octahedral'"
            )
        if classes:
            raise InvalidArgumentError(
                "class numbers have no mean, nor have masks of them and sets in any order; audit the scores of the "
                "classes, and average these"
            )
        self._model, self._contract, self._actions = model, contract, list(actions)
        self._elements = list(contract.group.elements)
        self.__name__ = f"{model.name} averaged over {contract.group.name}"

    def __call__(self, *x: Any) -> Any:
        """f̄ of one batch; several arguments as the model takes them."""
        inputs = self._contract.project(as_inputs(x[0] if len(x) == 1 else x))
        totals: list[np.ndarray] | None = None
        structure = None
        with self._model.ready():
            for g, moved in zip(self._elements, self._contract.orbit(self._elements, inputs.leaves), strict=True):
                y = answer(self._model(inputs.replaced(moved).tree()), inputs.n)
                inverse, structure = self._contract.group.inverse(g), y.structure
                back = [v if a is None else a.act(inverse, v) for a, v in zip(self._actions, y.leaves, strict=True)]
                totals = back if totals is None else [t + b for t, b in zip(totals, back, strict=True)]
        assert totals is not None
        return jax.tree.unflatten(structure, [t / len(self._elements) for t in totals])
