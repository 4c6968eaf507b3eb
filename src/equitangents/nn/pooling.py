"""Average pooling in blocks, over a grid, a group or the cosets of a subgroup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import Group
from equitangents.groups.group import Subgroup
from equitangents.kernels.operations import Box, FrozenArray, Pool, WindowPool
from equitangents.kernels.program import Op
from equitangents.kernels.rotations import HaarMean, RotationOp
from equitangents.kernels.structured import BlockSums, check_masked_windows
from equitangents.nn.conv import (
    PADDINGS,
    Sizes,
    check_sizes,
    grid_shape,
    padded,
    per_dimension,
    taps,
    window_box,
    windows_left,
)
from equitangents.nn.layer import Cosets, Grid, OnGroup, ParameterFree, Signal, Structure
from equitangents.structured import SMALLER
from equitangents.validation import check_choice


class _Pool(ParameterFree):
    """Base of pools; under a mask they average over existing positions."""

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """As `apply`; under a mask as on the smaller input, or by the mask's convention."""
        if structure.mask is None:
            return self.apply(params, x, signal), structure
        op = self.lower_masked(signal)[0] if structure.masks == SMALLER else self.lower(signal)[0]
        if op.box is None:
            return _pooled(x, structure, op, self.signal(signal).positions.shape)
        return structure.after(self.apply(params, x, signal), windows_left(op.box, structure.mask, structure.masks))


def _pooled(
    x: jax.Array, structure: Structure, op: Pool | BlockSums, shape: tuple[int, ...]
) -> tuple[jax.Array, Structure]:
    """(means or sums over the existing positions of each block (N, *shape, C), the mask of the blocks)."""
    member = jnp.asarray(op.labels.array)[None, None] == jnp.arange(op.blocks)[None, :, None]
    weights = (member & structure.mask.reshape((len(x), 1, -1))).astype(x.dtype)
    present = weights.sum(axis=2) > 0
    if op.is_pool:
        weights = weights / jnp.maximum(weights.sum(axis=2, keepdims=True), 1)
    y = jnp.einsum("nbp,npc->nbc", weights, x.reshape((len(x), -1, x.shape[-1])), precision="highest")
    return y.reshape((len(x), *shape, x.shape[-1])), replace(structure, mask=present.reshape((len(x), *shape)))


@dataclass(frozen=True)
class AvgPool(_Pool):
    """Mean over windows of the grid: K'(A,A') = mean of K over A × A', for two windows A and A'; Θ' likewise.

    By default windows are blocks: stride = window, and ragged edges are dropped. `window` and `stride`: a number, or
    one per dimension. `padding` is as in `Conv`; with "zero" the mean still divides by the whole window at borders.
    """

    window: Sizes
    stride: Sizes | None = None
    padding: str = "valid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_sizes("window", self.window))
        if self.stride is not None:
            object.__setattr__(self, "stride", check_sizes("stride", self.stride))
        check_choice("padding", self.padding, PADDINGS)

    def box(self, signal: Signal) -> Box:
        """The positions that the windows read on the signal's grid."""
        stride = self.window if self.stride is None else self.stride
        return window_box(self.window, stride, self.padding, grid_shape(signal))

    def signal(self, signal: Signal) -> Signal:
        """A signal on the grid of windows; a Gaussian field stays Gaussian."""
        return replace(signal, positions=Grid(self.box(signal).out_shape))

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Means over windows, one dimension after another."""
        box = self.box(signal)
        x = padded(x, box)
        for axis, (w, s, n) in enumerate(zip(box.window, box.stride, box.out_shape, strict=True), start=1):
            if w == s:
                x = lax.slice_in_dim(x, 0, w * n, axis=axis)
                x = x.reshape((*x.shape[:axis], n, w, *x.shape[axis + 1 :])).mean(axis=axis + 1)
            else:
                x = jnp.take(x, s * np.arange(n)[:, None] + np.arange(w), axis=axis).mean(axis=axis + 1)
        return x

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        box = self.box(signal)
        return (Pool(*_blocks(box)) if box.stride == box.window and not box.is_padded else WindowPool(box),)

    def lower_masked(self, signal: Signal) -> tuple[Any, ...]:
        """As `lower`; raises NetworkError if windows of smaller inputs start at other positions."""
        check_masked_windows(self.box(signal), self.padding)
        return self.lower(signal)


def _blocks(box: Box) -> tuple[FrozenArray, int, Box]:
    """(the block of each position, −1 at ragged edges; the number of blocks; the blocks as a window)."""
    along = (-1,) + (1,) * len(box.window)
    block = np.indices(box.in_shape) // np.reshape(box.window, along)
    inside = (block < np.reshape(box.out_shape, along)).all(axis=0)
    labels = np.where(inside, np.ravel_multi_index(tuple(block), box.out_shape, mode="clip"), -1)
    return FrozenArray(labels.ravel().astype(np.int32)), math.prod(box.out_shape), box


@dataclass(frozen=True)
class SumPool(_Pool):
    """Sum over blocks of the grid, with stride = window, dropping ragged edges: K'(A,A') = Σ of K over A × A'."""

    window: Sizes

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_sizes("window", self.window))

    def signal(self, signal: Signal) -> Signal:
        return AvgPool(self.window).signal(signal)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        pool = AvgPool(self.window)
        return taps(pool.box(signal)) * pool.apply(params, x, signal)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        return (BlockSums(*_blocks(AvgPool(self.window).box(signal))),)


@dataclass(frozen=True)
class GlobalSumPool(_Pool):
    """The sum over all positions of a grid; under a mask, over those that exist."""

    def signal(self, signal: Signal) -> Signal:
        return GlobalAvgPool().signal(signal)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        return x.sum(axis=tuple(range(1, x.ndim - 1)))

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        return (BlockSums(FrozenArray(np.zeros(signal.positions.count, np.int32)), 1),)


@dataclass(frozen=True)
class GlobalAvgPool(_Pool):
    """Mean over all positions of a grid, or over every `every`-th along each dimension, starting with the first.

    `every` (a number or one for each dimension) leaves 1/every² of an image's positions, and of its pair offsets:
    where fields are smooth that is nearly the same network, at 1/every² of the cost.
    """

    every: Sizes = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", check_sizes("every", self.every))

    def _steps(self, signal: Signal) -> tuple[slice, ...]:
        shape = grid_shape(signal) if self.every != 1 else signal.positions.shape
        return tuple(slice(None, None, s) for s in per_dimension("every", self.every, len(shape)))

    def signal(self, signal: Signal) -> Signal:
        """A plain vector; a Gaussian field stays Gaussian. A vector stays as it is."""
        if signal.positions.shape == ():
            return signal
        grid_shape(signal)
        self._steps(signal)
        return replace(signal, positions=Grid(()))

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        x = x[(slice(None), *self._steps(signal))] if self.every != 1 else x
        return x.mean(axis=tuple(range(1, x.ndim - 1)))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        labels = np.full(signal.positions.shape, -1, np.int32)
        labels[self._steps(signal)] = 0
        return (Pool(FrozenArray(labels.ravel()), 1),)


@dataclass(frozen=True)
class GroupPool(ParameterFree):
    """Mean over the group, or over each coset g·H of a subgroup H: a Subgroup, or a list of its elements.

    Pooling over left cosets keeps the network equivariant: the outputs live on G/H. K'(A,A') = mean of K over A × A'.
    On SO(3) and O(3) it is the mean over the Haar measure; subgroups are not supported there.
    """

    subgroup: Subgroup | Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.subgroup is None or isinstance(self.subgroup, Subgroup):
            return
        try:
            object.__setattr__(self, "subgroup", tuple(int(g) for g in self.subgroup))
        except (TypeError, ValueError):
            raise InvalidTypeError("subgroup", self.subgroup, "a Subgroup or a list of elements") from None

    def _labels(self, signal: Signal) -> np.ndarray:
        """The number of each position's coset."""
        positions, subgroup = signal.positions, self.subgroup
        if not isinstance(positions, OnGroup) and not (isinstance(positions, Cosets) and subgroup is None):
            raise NetworkError("signal", positions, "a signal on a group", "put a Lift before it", verb="is on")
        if subgroup is None:
            return np.zeros(positions.count, np.int32)
        assert isinstance(positions, OnGroup)
        group = positions.group
        if not isinstance(group, Group):
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
        return replace(signal, positions=Grid(()) if blocks == 1 else Cosets(blocks))

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Means of the signal over cosets, (N, C) or (N, cosets, C); by quadrature on sampled rotations."""
        labels, weights = self._labels(signal), signal.positions.weights
        if weights is not None:
            return jnp.einsum("r,nrc->nc", jnp.asarray(weights, x.dtype), x)
        blocks = int(labels.max()) + 1
        if blocks == 1:
            return x.mean(axis=1)
        return jnp.mean(x[:, np.argsort(labels, kind="stable").reshape((blocks, -1))], axis=2)

    def lower(self, signal: Signal) -> tuple[Op | RotationOp, ...]:
        labels = self._labels(signal)
        if signal.positions.weights is not None:
            return (HaarMean(),)
        return (Pool(FrozenArray(labels), int(labels.max()) + 1),)

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        if self.subgroup is not None or group.torus is None:
            return None
        return (Pool(FrozenArray(np.zeros(math.prod(group.torus), np.int32)), 1),)
