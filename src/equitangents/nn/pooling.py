"""Average pooling in blocks or over the whole grid, and flattening."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents.errors import NetworkError
from equitangents.groups import Group
from equitangents.kernels.program import Flatten as FlattenOp
from equitangents.kernels.program import Box, FrozenArray, Op, Pool
from equitangents.nn.layer import ParameterFree
from equitangents.nn.patches import check_sizes, grid_shape, per_dimension
from equitangents.nn.signal import Grid, Signal


@dataclass(frozen=True)
class AvgPool(ParameterFree):
    """Mean over blocks of the grid, with stride = window, dropping ragged edges: K'(A,A') = mean of K over A × A'."""

    window: tuple[int, ...] | int

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", check_sizes("window", self.window))

    def _sizes(self, signal: Signal) -> tuple[tuple[int, ...], tuple[int, ...]]:
        shape = grid_shape(signal)
        window = per_dimension("window", self.window, len(shape))
        out = tuple(n // w for n, w in zip(shape, window, strict=True))
        if min(out) < 1:
            raise NetworkError(f"a pooling window of {window} does not fit into a grid of {shape}")
        return window, out

    def signal(self, signal: Signal) -> Signal:
        """The grid of blocks; a Gaussian field stays one."""
        return replace(signal, positions=Grid(self._sizes(signal)[1]))

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        """Means over blocks of positions; ragged edges are dropped."""
        window, out = self._sizes(signal)
        for axis, (w, n) in enumerate(zip(window, out, strict=True), start=1):
            x = jnp.moveaxis(x, axis, 0)[: w * n]
            x = jnp.moveaxis(x.reshape((n, w, *x.shape[1:])).mean(axis=1), 0, axis)
        return x

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """Pool by block number."""
        window, out = self._sizes(signal)
        labels = np.zeros(grid_shape(signal), np.int32)
        for axis, (w, n) in enumerate(zip(window, out, strict=True)):
            along = np.arange(labels.shape[axis]) // w
            along = np.where(along < n, along, -(10**9)).reshape((-1,) + (1,) * (labels.ndim - axis - 1))
            labels = labels * n + along
        labels = np.where(labels < 0, -1, labels).astype(np.int32)
        zero = (0,) * len(out)
        box = Box(labels.shape, out, window, window, zero, zero, wrap=False)
        return (Pool(FrozenArray(labels.ravel()), int(np.prod(out)), box),)


@dataclass(frozen=True)
class GlobalAvgPool(ParameterFree):
    """Mean over all positions of a grid."""

    def signal(self, signal: Signal) -> Signal:
        """A plain vector; a Gaussian field stays Gaussian."""
        grid_shape(signal)
        return replace(signal, positions=Grid(()))

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        """Means over all positions, (N, channels)."""
        return x.mean(axis=tuple(range(1, x.ndim - 1)))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """One operation that pools all positions into one block."""
        return (Pool(FrozenArray(np.zeros(signal.positions.count, np.int32)), 1),)


@dataclass(frozen=True)
class Flatten(ParameterFree):
    """All positions' channels side by side.  Before a dense layer K' = mean over p of K(p,p)."""

    def signal(self, signal: Signal) -> Signal:
        """A plain vector; features of different positions have different variances, so it is Gaussian no more."""
        positions = signal.positions
        single = positions.count == 1
        channels = positions.count * signal.channels
        return replace(signal, positions=Grid(()), channels=channels, gaussian=signal.gaussian and single)

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        """(N, positions·channels), times the roots of positions' weights where these differ."""
        weights = signal.positions.weights
        if weights is not None:
            x = x * np.sqrt(len(weights) * weights).astype(x.dtype)[:, None]
        return x.reshape((x.shape[0], -1))

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """One operation that reads positions as channels; none where there are no positions."""
        return () if signal.positions.shape == () else (FlattenOp(),)

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...]:
        """The mean over positions of a field that is the same at every rotation."""
        return self.lower(signal)
