"""Layers needed only by `stax`: normalisation or concatenation over numbered axes, pools normalised at borders.

Also nonlinearities with closed-form activation kernels: Gabor, and others with an offset or phase.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import nn
from equitangents._types import Params
from equitangents.errors import NetworkError
from equitangents.kernels import duals
from equitangents.kernels.engines.reference.windows import window_averages
from equitangents.kernels.operations import DualActivation, FrozenArray, Operation
from equitangents.kernels.structured import Mix
from equitangents.nn.layer import ByRun, Nonlinearity, ParameterFree, Signal, Structure
from equitangents.stax.missing import only


@dataclass(frozen=True)
class NormOverAxes(ByRun, ParameterFree):
    """`nn.LayerNorm` over axes of the array, with the batch at `batch_axis` and channels at `channel_axis`."""

    axis: tuple[int, ...]
    eps: float = 1e-12
    batch_axis: int = 0
    channel_axis: int = -1

    def _layer(self, signal: Signal) -> nn.LayerNorm:
        rank = len(signal.positions.shape) + 2
        batch, channel = self.batch_axis % rank, self.channel_axis % rank
        for a in self.axis:
            if not -rank <= a < rank:
                raise NetworkError("axis", self.axis, range(-rank, rank))
        taken = {a % rank for a in self.axis}
        if batch in taken:
            raise NotImplementedError(
                f"axis={self.axis} has the batch in it, which is not here: a kernel of two inputs does not depend on "
                "others; normalise inputs beforehand"
            )
        if channel not in taken:
            raise NetworkError("axis", self.axis, "the channels among the axes", f"axis {channel}")
        grid = [a for a in range(rank) if a not in (batch, channel)]
        return nn.LayerNorm(tuple(i for i, a in enumerate(grid) if a in taken), self.eps)

    def signal(self, signal: Signal) -> Signal:
        """The input's signal."""
        return self._layer(signal).signal(signal)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """The output of `nn.LayerNorm` over these axes."""
        return self._layer(signal).run(params, x, signal, structure)

    def lower(self, signal: Signal) -> tuple[Operation, ...]:
        """The operations of `nn.LayerNorm` over these axes."""
        return self._layer(signal).lower(signal)


@dataclass(frozen=True)
class JoinOverAxis(nn.Concatenate):
    """`nn.Concatenate` along a numbered axis, which must be that of the channels, the last one."""

    axis: int

    def signal(self, signal: Signal) -> Signal:
        """The signal of all channels; NotImplementedError if the axis is one of positions or of inputs."""
        joined = super().signal(signal)
        rank = len(joined.positions.shape) + 2
        only("axis", self.axis, -1, rank - 1, instead=f"nn.Concatenate joins channels, the last of {rank} axes")
        return joined


@dataclass(frozen=True)
class InnerPool(ByRun, ParameterFree):
    """`nn.AvgPool` with zero padding, divided at borders by the number of the window's positions inside the grid."""

    pool: nn.AvgPool

    def signal(self, signal: Signal) -> Signal:
        """The grid of windows."""
        return self.pool.signal(signal)

    def _factors(self, signal: Signal) -> np.ndarray:
        return 1 / window_averages(self.pool.box(signal)).sum(axis=1)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """Means over the window's positions inside the grid; masked positions count as zeros."""
        y, after = self.pool.run(params, x, signal, structure)
        return y * jnp.asarray(self._factors(signal), y.dtype).reshape((1, *y.shape[1:-1], 1)), after

    def lower(self, signal: Signal) -> tuple[Operation, ...]:
        """The pool, and a factor at each position."""
        return (*self.pool.lower(signal), Mix(FrozenArray(np.diag(self._factors(signal)))))


@dataclass(frozen=True)
class Gabor(Nonlinearity):
    """exp(-x²) sin(x), a sine with a Gaussian envelope."""

    @property
    def dual(self) -> DualActivation:
        """Activation kernel of the sine under a Gaussian weight."""
        return duals.GaborDual()

    def function(self, x: jax.Array) -> jax.Array:
        """exp(-x²) sin(x) for every entry."""
        return jnp.exp(-x * x) * jnp.sin(x)


@dataclass(frozen=True)
class Raised(Nonlinearity):
    """φ(x) + offset, for a nonlinearity φ."""

    phi: Nonlinearity
    offset: float

    @property
    def dual(self) -> DualActivation:
        """Activation kernel of φ, with moments of the shifted function."""
        return duals.Shifted(self.phi.dual, float(self.offset))

    def function(self, x: jax.Array) -> jax.Array:
        """φ(x) + offset for every entry."""
        return self.phi.function(x) + self.offset


@dataclass(frozen=True)
class Wave(Nonlinearity):
    """sin(x + phase), the phase in radians."""

    phase: float

    @property
    def dual(self) -> DualActivation:
        """A weighted mean of the activation kernels of sine and cosine."""
        return duals.WaveDual(float(self.phase))

    def function(self, x: jax.Array) -> jax.Array:
        """sin(x + phase) for every entry."""
        return jnp.sin(x + math.remainder(self.phase, math.tau))
