"""Pooling over a group, or over the cosets of a subgroup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import Subgroup
from equitangents.kernels.program import FrozenArray, Op, Pool
from equitangents.nn.layer import ParameterFree
from equitangents.nn.signal import Blocks, Grid, OnGroup, Signal


@dataclass(frozen=True)
class GroupPool(ParameterFree):
    """Mean over the group, or over each coset g·H of a subgroup H: a Subgroup, or a list of its elements.

    Pooling over left cosets keeps the network equivariant: the outputs live on G/H. K'(A,A') = mean of K over A × A'.
    """

    subgroup: Any = None

    def __post_init__(self) -> None:
        if self.subgroup is None or isinstance(self.subgroup, Subgroup):
            return
        try:
            object.__setattr__(self, "subgroup", tuple(int(g) for g in self.subgroup))
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"subgroup is {self.subgroup!r}; expected a Subgroup or a list of elements"
            ) from None

    def _labels(self, signal: Signal) -> np.ndarray:
        positions = signal.positions
        if isinstance(positions, Blocks) and self.subgroup is None:
            return np.zeros(positions.count, np.int32)
        if not isinstance(positions, OnGroup):
            raise NetworkError(f"GroupPool reads a signal on a group, not one on {positions}; put a Lift before it")
        if self.subgroup is None:
            return np.zeros(positions.count, np.int32)
        subgroup = self.subgroup
        if not isinstance(subgroup, Subgroup):
            try:
                subgroup = positions.group.subgroup(list(subgroup))
            except InvalidArgumentError as error:
                raise NetworkError(f"subgroup: {error}") from None
        if subgroup.group != positions.group:
            raise NetworkError(f"the subgroup belongs to {subgroup.group.name}, the signal to {positions.group.name}")
        return np.asarray(subgroup.left_cosets, np.int32)

    def signal(self, signal: Signal) -> Signal:
        """A plain vector, or a field on cosets; a Gaussian field stays Gaussian."""
        blocks = int(self._labels(signal).max()) + 1
        return replace(signal, positions=Grid(()) if blocks == 1 else Blocks(blocks))

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        """Means over cosets."""
        labels = self._labels(signal)
        blocks = int(labels.max()) + 1
        if blocks == 1:
            return x.mean(axis=1)
        order = np.argsort(labels, kind="stable").reshape((blocks, -1))
        return jnp.mean(x[:, order], axis=2)

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """Pool by coset."""
        labels = self._labels(signal)
        return (Pool(FrozenArray(labels), int(labels.max()) + 1),)
