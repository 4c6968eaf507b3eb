"""Pooling over a group, or over the cosets of a subgroup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import Group
from equitangents.groups.subgroup import Subgroup
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.operations import Pool
from equitangents.kernels.program import Op
from equitangents.kernels.rotations.program import HaarMean, RotationOp
from equitangents.nn.layer import ParameterFree
from equitangents.nn.patches import check_sizes, per_dimension
from equitangents.nn.signal import Blocks, Grid, OnGroup, Signal


@dataclass(frozen=True)
class GroupPool(ParameterFree):
    """Mean over the group, or over each coset g·H of a subgroup H: a Subgroup, or a list of its elements.

    Pooling over left cosets keeps the network equivariant: the outputs live on G/H. K'(A,A') = mean of K over A × A'.
    On SO(3) and O(3) it is the mean over the Haar measure; there it takes no subgroup.

    `every`, for wallpaper and translation groups in place of a subgroup: the mean over those elements alone that move
    by multiples of it along each dimension (a number or one for each); see `GlobalAvgPool`.
    """

    subgroup: Subgroup | Sequence[int] | None = None
    every: tuple[int, ...] | int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", check_sizes("every", self.every))
        if self.every != 1 and self.subgroup is not None:
            raise InvalidArgumentError("GroupPool takes a subgroup or every, not both")
        if self.subgroup is None or isinstance(self.subgroup, Subgroup):
            return
        try:
            object.__setattr__(self, "subgroup", tuple(int(g) for g in self.subgroup))
        except (TypeError, ValueError):
            raise InvalidTypeError("subgroup", self.subgroup, "a Subgroup or a list of elements") from None

    def _labels(self, signal: Signal) -> np.ndarray:
        """The number of each position's coset; -1: left out."""
        positions, subgroup = signal.positions, self.subgroup
        group = positions.group if isinstance(positions, OnGroup) else None
        if self.every != 1:
            if group is None or group.torus is None:
                raise NetworkError("every", self.every, "None unless the signal is on a wallpaper or translation group")
            labels = _sublattice(self.every, group, group.torus)
            return np.tile(labels, group.order // len(labels))
        cosets = isinstance(positions, Blocks)
        if not (cosets or positions.on_group) or (cosets and subgroup is not None):
            raise NetworkError("signal", positions, "a signal on a group", "put a Lift before it", verb="is on")
        if subgroup is None:
            return np.zeros(positions.count, np.int32)
        if group is None:
            raise NetworkError("subgroup", subgroup, "None on SO(3) and O(3)")
        if not isinstance(subgroup, Subgroup):
            try:
                subgroup = group.subgroup(list(subgroup))
            except InvalidArgumentError as error:
                raise NetworkError(f"subgroup: {error}") from None
        if subgroup.group != group:
            raise NetworkError("subgroup", subgroup.group, group, verb="is one of")
        return np.asarray(subgroup.left_cosets, np.int32)

    def signal(self, signal: Signal) -> Signal:
        """A plain vector, or a field on cosets; a Gaussian field stays Gaussian."""
        blocks = int(self._labels(signal).max()) + 1
        return replace(signal, positions=Grid(()) if blocks == 1 else Blocks(blocks))

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Means of the signal over cosets of the subgroup, (N, C) or (N, cosets, C); by quadrature on rotations."""
        labels, weights = self._labels(signal), signal.positions.weights
        if weights is not None:
            return jnp.einsum("r,nrc->nc", jnp.asarray(weights, x.dtype), x)
        blocks = int(labels.max()) + 1
        if blocks == 1:
            return (x if labels.min() == 0 else x[:, labels == 0]).mean(axis=1)
        return jnp.mean(x[:, np.argsort(labels, kind="stable").reshape((blocks, -1))], axis=2)

    def lower(self, signal: Signal) -> tuple[Op | RotationOp, ...]:
        """One operation that averages kernels over cosets."""
        labels = self._labels(signal)
        if signal.positions.weights is not None:
            return (HaarMean(),)
        return (Pool(FrozenArray(labels), int(labels.max()) + 1),)

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        """The mean over the grid, if the pool is over the whole group."""
        if self.subgroup is not None or group.torus is None:
            return None
        return (Pool(FrozenArray(_sublattice(self.every, group, group.torus)), 1),)


def _sublattice(every: tuple[int, ...] | int, group: Group, torus: tuple[int, ...]) -> np.ndarray:
    """Labels of the grid's points: 0 on multiples of `every`, -1 elsewhere."""
    steps = per_dimension("every", every, len(torus))
    if any(n % s for n, s in zip(torus, steps, strict=True)):
        raise NetworkError("every", every, "divisors of the grid's sizes", str(torus))
    if group.turns_quarters and len(set(steps)) > 1:
        raise NetworkError("every", every, "the same step along both dimensions of a group with quarter turns")
    labels = np.full(torus, -1, np.int32)
    labels[tuple(slice(None, None, s) for s in steps)] = 0
    return labels.ravel()
