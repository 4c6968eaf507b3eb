"""Pooling over a group, or over the cosets of a subgroup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import Group, Subgroup, TranslationGroup, WallpaperGroup
from equitangents.kernels.program import FrozenArray, Op, Pool
from equitangents.kernels.rotations import HaarMean, RotationOp
from equitangents.nn.layer import ParameterFree
from equitangents.nn.signal import Blocks, Grid, OnGroup, OnRotations, Positions, Signal


@dataclass(frozen=True)
class GroupPool(ParameterFree):
    """Mean over the group, or over each coset g·H of a subgroup H: a Subgroup, or a list of its elements.

    Pooling over left cosets keeps the network equivariant: the outputs live on G/H. K'(A,A') = mean of K over A × A'.
    On SO(3) and O(3) it is the mean over the Haar measure; there it takes no subgroup.
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

    def signal(self, signal: Signal) -> Signal:
        """A plain vector, or a field on cosets; a Gaussian field stays Gaussian."""
        blocks = pooling(signal.positions, self.subgroup).blocks
        return replace(signal, positions=Grid(()) if blocks == 1 else Blocks(blocks))

    def apply(self, params: Params, x: Any, signal: Signal) -> Any:
        """Means of the signal over cosets of the subgroup."""
        return pooling(signal.positions, self.subgroup).mean(x)

    def lower(self, signal: Signal) -> tuple[Op | RotationOp, ...]:
        """One operation that averages kernels over cosets."""
        return (pooling(signal.positions, self.subgroup).op,)

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        """The mean over the grid, if the pool is over the whole group."""
        if self.subgroup is not None or not isinstance(group, WallpaperGroup | TranslationGroup):
            return None
        return (Pool(FrozenArray(np.zeros(int(np.prod(group.shape)), np.int32)), 1),)


class CosetMean:
    """Pooling over the cosets of a subgroup of a finite group."""

    def __init__(self, labels: np.ndarray) -> None:
        self.labels = labels
        self.blocks = int(labels.max()) + 1

    def mean(self, x: Any) -> Any:
        """(N, positions, C) to (N, C), or (N, blocks, C)."""
        if self.blocks == 1:
            return x.mean(axis=1)
        order = np.argsort(self.labels, kind="stable").reshape((self.blocks, -1))
        return jnp.mean(x[:, order], axis=2)

    @property
    def op(self) -> Op:
        """What it does to kernels."""
        return Pool(FrozenArray(self.labels), self.blocks)


class WeightedMean:
    """Pooling over a sampled group, with quadrature weights."""

    blocks = 1
    op = HaarMean()

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    def mean(self, x: Any) -> Any:
        """(N, positions, C) to (N, C)."""
        return jnp.einsum("r,nrc->nc", jnp.asarray(self.weights, x.dtype), x)


@singledispatch
def pooling(positions: Positions, subgroup: Any) -> CosetMean | WeightedMean:
    """How a kind of positions is pooled."""
    raise NetworkError(f"GroupPool reads a signal on a group, not one on {positions}; put a Lift before it")


@pooling.register
def _(positions: Blocks, subgroup: Any) -> CosetMean:
    if subgroup is not None:
        raise NetworkError(f"GroupPool reads a signal on a group, not one on {positions}; put a Lift before it")
    return CosetMean(np.zeros(positions.count, np.int32))


@pooling.register
def _(positions: OnGroup, subgroup: Any) -> CosetMean:
    if subgroup is None:
        return CosetMean(np.zeros(positions.count, np.int32))
    if not isinstance(subgroup, Subgroup):
        try:
            subgroup = positions.group.subgroup(list(subgroup))
        except InvalidArgumentError as error:
            raise NetworkError(f"subgroup: {error}") from None
    if subgroup.group != positions.group:
        raise NetworkError(f"the subgroup belongs to {subgroup.group.name}, the signal to {positions.group.name}")
    return CosetMean(np.asarray(subgroup.left_cosets, np.int32))


@pooling.register
def _(positions: OnRotations, subgroup: Any) -> WeightedMean:
    if subgroup is not None:
        raise NetworkError(f"GroupPool averages over all of {positions.group.name}; it takes no subgroup there")
    return WeightedMean(positions.weights)
