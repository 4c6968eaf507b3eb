"""Nonlinearities with a jump: they have an NNGP, and no neural tangent kernel."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from equitangents.kernels import duals
from equitangents.kernels.operation import DualActivation
from equitangents.nn.nonlinearities import Nonlinearity


@dataclass(frozen=True)
class Sign(Nonlinearity):
    """The sign of x: K' = 1 - 2θ/π, θ the angle between the fields. There is no NTK: the derivative is infinite."""

    @property
    def dual(self) -> DualActivation:
        """Moments of the sign, which has no derivative."""
        return duals.Sign()

    def function(self, x: jax.Array) -> jax.Array:
        """The sign of every entry, -1, 0 or 1."""
        return jnp.sign(x)


@dataclass(frozen=True)
class Heaviside(Nonlinearity):
    """1 where x > 0, else 0: K' = (1 - θ/π)/2. There is no NTK: the derivative is infinite."""

    @property
    def dual(self) -> DualActivation:
        """Moments of the step, which has no derivative."""
        return duals.Heaviside()

    def function(self, x: jax.Array) -> jax.Array:
        """1 for positive entries, 0 for others."""
        return jnp.where(x > 0, 1, 0).astype(x.dtype)
