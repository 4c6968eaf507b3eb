"""Nonlinearities that only `stax` names: Gabor's, and others shifted along either axis, all with closed duals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from equitangents.kernels import duals
from equitangents.kernels.program import DualActivation
from equitangents.nn.nonlinearities import Nonlinearity


@dataclass(frozen=True)
class Gabor(Nonlinearity):
    """exp(-x²) sin(x), a wave under a bump."""

    @property
    def dual(self) -> DualActivation:
        """The dual of the sine under a Gaussian weight."""
        return duals.Gabor()

    def function(self, x: jax.Array) -> jax.Array:
        """The wave under the bump, of every entry."""
        return jnp.exp(-x * x) * jnp.sin(x)


@dataclass(frozen=True)
class Raised(Nonlinearity):
    """φ(x) + offset, for a nonlinearity φ."""

    phi: Nonlinearity
    offset: float

    @property
    def dual(self) -> DualActivation:
        """The dual of φ, with other moments."""
        return duals.Shifted(self.phi.dual, float(self.offset))

    def function(self, x: jax.Array) -> jax.Array:
        """The nonlinearity φ of every entry, and the offset."""
        return self.phi.function(x) + self.offset


@dataclass(frozen=True)
class Wave(Nonlinearity):
    """sin(x + phase), whose phase is in radians."""

    phase: float

    @property
    def dual(self) -> DualActivation:
        """A mean of the duals of sine and cosine."""
        return duals.Wave(float(self.phase))

    def function(self, x: jax.Array) -> jax.Array:
        """The sine of every entry and the phase."""
        return jnp.sin(x + math.remainder(self.phase, math.tau))
